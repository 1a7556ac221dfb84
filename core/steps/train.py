"""The loop that every training goes through: steps, looks, checkpoints, and what is kept in the end."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.events import Checkpoint, Measured, Note, Progress, StageStarted, State
from core.nn.training import Diverged, Learner
from core.steps.guard import Guard
from core.work import Work

BEST = "best of training"
_REPRESENT = "represent"


@dataclass(frozen=True)
class Course:
    """How long a training may take and how often it is looked at."""

    stage: str
    steps: int
    every: int
    turn: int = 0  # a step at which the objective changes: only after it may the guard find that nothing changes


def train(
    learner: Learner,
    guard: Guard,
    course: Course,
    take: Callable[[], bool],
    centres: Callable[[], np.ndarray],
    state: State,
) -> Work[None]:
    """Take steps until the course is over, the guard says stop or the loss is no number; keep the best checkpoint.

    ``take`` takes one step and says whether memory sufficed; the guard's clusters start from ``centres``.
    The learner is left at the checkpoint that the guard calls best.
    """
    yield StageStarted(course.stage, course.steps)
    if course.stage in state:
        best = state[BEST]
        learner.restore(state[course.stage])
        guard.restore(state[course.stage])
    else:
        best = learner.checkpoint(BEST)
        yield best  # kept from the start: nothing that follows need be better
        guard.look(0, learner.sampled(guard.sample), centres())
        yield Measured(course.stage, 0, guard.looks[-1].figures())
    good = learner.checkpoint(course.stage, guard.values(), guard.arrays())
    while learner.steps < course.steps and (learner.steps < course.turn or not guard.verdict):
        if not take():
            yield Note(f"Memory ran short: {learner.piece_tokens:,} tokens are now taken at a time.", "warning")
        yield Progress(course.stage, learner.steps, course.steps)
        if learner.steps % course.every and learner.steps < course.steps:
            continue
        try:
            terms = learner.told()
        except Diverged:
            learner.restore(good)
            yield Note(f"The loss is no number any more: training ends as it was at step {learner.steps}.", "warning")
            break
        seen = guard.look(learner.steps, learner.sampled(guard.sample), centres())
        yield Measured(course.stage, learner.steps, terms | seen.figures())
        if guard.best is seen:
            best = learner.checkpoint(BEST)
            yield best
        good = learner.checkpoint(course.stage, guard.values(), guard.arrays())
        yield good
    yield Progress(course.stage, course.steps, course.steps)
    if guard.best.step != learner.steps:
        learner.restore(best)
    text, level = guard.sentence()
    yield Note(text, level)


def represent(learner: Learner, rows: int, state: State) -> Work[np.ndarray]:
    """Return the vectors of all texts as the trained encoder sees them; kept, so that a resumed run need not again."""
    yield StageStarted(_REPRESENT, rows)
    if _REPRESENT in state:
        vectors = state[_REPRESENT].arrays["vectors"]
    else:
        vectors, done = np.empty((rows, learner.trunk.shape.width), np.float32), 0
        for places, batch in learner.vectors(np.arange(rows)):
            vectors[places] = batch
            done += len(places)
            yield Progress(_REPRESENT, done, rows)
        yield Checkpoint(_REPRESENT, {"vectors": vectors})
    yield Progress(_REPRESENT, rows, rows)
    return vectors
