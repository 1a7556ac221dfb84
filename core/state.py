"""Where a run stands: the checkpoints of its stages, and the look that a person chose as the result."""

from collections.abc import Iterable
from dataclasses import dataclass

from core.events import Checkpoint, Slot


@dataclass(frozen=True)
class Choice:
    """A look that a person wants as the result; the stages after it then have nothing left to do."""

    stage: str
    step: int
    later: tuple[str, ...] = ()

    def settles(self, stage: str) -> bool:
        """Say whether the choice leaves a stage nothing to train: it is that of the choice, or comes after it."""
        return stage == self.stage or stage in self.later


class State:
    """What a method goes on from. Stages ask for their own checkpoints, by what they are."""

    def __init__(self, checkpoints: Iterable[Checkpoint] = (), choice: Choice | None = None) -> None:
        """Hold checkpoints in memory; a run's own are on the disk and read when they are asked for."""
        self._held = {(one.stage, one.slot, one.number): one for one in checkpoints}
        self._choice = choice

    @property
    def choice(self) -> Choice | None:
        """The look that a person chose, if any."""
        return self._choice

    def find(self, stage: str, slot: Slot = Slot.CURRENT, number: int = 0) -> Checkpoint | None:
        """Return one checkpoint, or None if it was never made."""
        return self._held.get((stage, slot, number))


AFRESH = State()
