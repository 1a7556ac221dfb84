"""The loop that every training goes through: steps, looks, checkpoints, and what is kept in the end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.errors import BadInput, Diverged
from core.events import Checkpoint, Measured, Note, Progress, Slot, Snapshot, StageStarted
from core.learning.guard import Guard
from core.stages import REPRESENT
from core.state import State
from core.work import Work

if TYPE_CHECKING:  # torch is loaded by those who train, not by those who list methods
    from core.learning.learner import Learner


@dataclass(frozen=True)
class Course:
    """How long a training may take and how often it is looked at.

    ``turn`` is a step at which the objective changes: only what is seen after it decides when to stop, and what to
    keep.
    With ``keeps_best`` false the end is kept unless it collapsed, and no stop comes earlier: for stages whose gain
    no figure without labels can show.
    """

    stage: str
    steps: int
    every: int
    turn: int = 0
    keeps_best: bool = True


def train(
    learner: "Learner",
    guard: Guard,
    course: Course,
    take: Callable[[int], bool],
    centres: Callable[[np.ndarray], np.ndarray],
    state: State,
    ready: Callable[[int], Work[None]] | None = None,
    begin_with: Callable[[], Work[None]] | None = None,
    targets: "Targets | None" = None,
) -> Work[None]:
    """Take steps until the course is over, the guard says stop or the loss is NaN; keep the best checkpoint.

    ``take`` takes the step of a number, from 0, and says whether memory sufficed; ``ready`` does what must be done
    before it, ``begin_with`` what the whole stage begins with; ``targets`` are what the steps learn towards. The
    guard's clusters start from ``centres`` of the sample's vectors. The learner is left at the checkpoint that the
    guard calls best.
    """
    stage, total = course.stage, max(course.steps, 1)
    guard.turn = course.turn
    yield StageStarted(stage, total)
    if (choice := state.choice) is not None and choice.settles(stage):
        if choice.stage == stage:
            learner.load(_there(state.find(stage, Slot.LOOK, choice.step)))
            yield Note(f"Step {choice.step:,} of {stage} is kept, as asked for.")
        yield Progress(stage, total, total)
        return
    if begin_with is not None:
        yield from begin_with()
    if (stood := state.find(stage)) is not None:
        best, begin = _there(state.find(stage, Slot.BEST)), int(stood.values["begin"])
        learner.restore(stood)
        guard.restore(stood)
    else:
        best, begin = learner.checkpoint(stage, Slot.BEST, {"look": 0}), learner.steps
        yield best  # kept from the start: nothing that follows need be better
        try:
            yield from _look(learner, guard, stage, 0, centres, {})
        except Diverged as fault:
            raise BadInput("The encoder gives vectors that are not numbers, so nothing can be learnt.") from fault

    def standing() -> Checkpoint:
        more = {"begin": begin} | ({} if targets is None else {"round": targets.number})
        return learner.checkpoint(stage, Slot.CURRENT, guard.values() | more, guard.arrays())

    good, done = standing(), learner.steps - begin
    while done < course.steps and not _over(guard, course):
        try:
            if targets is not None:
                yield from targets.ready(done)
            if ready is not None:
                yield from ready(done)
            if not take(done):
                yield Note(f"Memory ran short: {learner.piece_tokens:,} tokens are now processed at a time.", "warning")
            done = learner.steps - begin
            yield Progress(stage, done, total)
            if done % course.every and done < course.steps:
                continue
            yield from _look(learner, guard, stage, done, centres, learner.told())
        except Diverged:
            learner.restore(good)
            done = learner.steps - begin
            yield Note(f"The loss became NaN or infinite: training ends as it was at step {done}.", "warning")
            break
        if guard.best is guard.looks[-1] or (not course.keeps_best and not guard.collapsed):
            best = learner.checkpoint(stage, Slot.BEST, {"look": done})
            yield best
        good = standing()
        yield good
    yield Progress(stage, total, total)
    if int(best.values["steps"]) != learner.steps:
        learner.restore(best)
    if course.keeps_best and course.steps:
        yield Note(*guard.sentence(stage))
    elif guard.collapsed:
        end = learner.steps - begin
        yield Note(f"The clusters began to fall together: the stage ends as it was at step {end}.", "warning")


def _there(checkpoint: Checkpoint | None) -> Checkpoint:
    if checkpoint is None:
        raise BadInput("A checkpoint that this run would go on from is gone, so it cannot be resumed: start it anew.")
    return checkpoint


def _over(guard: Guard, course: Course) -> bool:
    return bool(guard.verdict) if course.keeps_best else guard.collapsed


def _look(
    learner: "Learner",
    guard: Guard,
    stage: str,
    step: int,
    centres: Callable[[np.ndarray], np.ndarray],
    terms: dict[str, float],
) -> Work[None]:
    vectors = learner.sampled(guard.sample)
    seen = guard.look(step, vectors, centres(vectors))
    yield Measured(stage, step, terms | seen.figures())
    yield learner.weights(stage, step)
    yield Snapshot(stage, step, guard.sample, vectors, guard.labels)


def represent(learner: "Learner", rows: int, state: State) -> Work[np.ndarray]:
    """Return the vectors of all texts as the trained encoder sees them; kept, so that a resumed run need not again."""
    yield StageStarted(REPRESENT, rows)
    if (done := state.find(REPRESENT)) is not None:
        vectors = done.arrays["vectors"]
    else:
        vectors = yield from all_vectors(learner, rows, REPRESENT)
        yield Checkpoint(REPRESENT, {"vectors": vectors})
    yield Progress(REPRESENT, rows, rows)
    return vectors


def all_vectors(learner: "Learner", rows: int, stage: str = "") -> Work[np.ndarray]:
    """Return the vectors of all texts as the encoder sees them now, without noise; raise Diverged if one is none."""
    vectors, done = np.empty((rows, learner.trunk.shape.width), np.float32), 0
    for places, batch in learner.vectors(np.arange(rows)):
        vectors[places] = batch
        done += len(places)
        yield Progress(stage, done, rows) if stage else None
    if not np.isfinite(vectors).all():
        raise Diverged
    return vectors


class Targets:
    """What a stage learns towards, over the whole set: found anew every ``length`` steps, and kept.

    Kept, because a resumed training must go on with the targets it had, which the weights of today would not give. It
    begins at its last look, and several rounds may lie between two looks: all since the last one are kept.
    """

    def __init__(self, stage: str, length: int, find: Callable[[int], Work[np.ndarray]], state: State) -> None:
        """``find`` finds the targets of a round, from 0; those that a checkpoint holds are used instead."""
        self.stage, self.length, self.find, self.state = stage, max(length, 1), find, state
        self.number, self.values = -1, np.empty((0, 0), np.float32)

    def ready(self, step: int) -> Work[None]:
        """Make sure that the targets are those of a step."""
        number = step // self.length
        if number == self.number:
            return
        # Only the round in which a resumed training begins was found with other weights than it has now.
        kept = self.state.find(self.stage, Slot.TARGETS, number) if self.number < 0 else None
        if kept is not None:
            self.values = kept.arrays["targets"]
        else:
            self.values = yield from self.find(number)
            yield Checkpoint(self.stage, {"targets": self.values}, {"number": number}, Slot.TARGETS, number)
        self.number = number
