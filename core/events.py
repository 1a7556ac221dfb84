"""What a run tells while it works. Every event is a frozen dataclass; a bare ``yield`` means "you may stop me here"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Queued:
    """The run waits for its turn."""


@dataclass(frozen=True)
class Planned:
    """The road ahead: the stages in their order, each with a rough guess of its seconds."""

    stages: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class StageStarted:
    """A stage begins; it has ``total`` units of work."""

    stage: str
    total: int = 1


@dataclass(frozen=True)
class Progress:
    """So many units of the current stage are done."""

    stage: str
    done: int
    total: int


class Slot(StrEnum):
    """What a checkpoint of a stage is: where it stands, its best so far, the weights at a look, or targets."""

    CURRENT, BEST, LOOK, TARGETS = "current", "best", "look", "targets"


@dataclass(frozen=True)
class Checkpoint:
    """Enough to go on with a stage from here: named arrays and plain values, handed back as part of a ``State``.

    ``number`` is the step of a look, or the round of targets.
    """

    stage: str
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    slot: Slot = Slot.CURRENT
    number: int = 0


@dataclass(frozen=True)
class Measured:
    """Figures of the current stage after ``step`` units of its work: terms of the loss, quality without labels."""

    stage: str
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Snapshot:
    """How a fixed sample lies now: its rows, their vectors and their clusters, whose numbers stay what they were."""

    stage: str
    step: int
    rows: np.ndarray
    vectors: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Resolved:
    """A knob that was left open ("auto") is decided by what was found; part of what repeats the run."""

    name: str
    value: str
    reason: str = ""


@dataclass(frozen=True)
class Note:
    """One plain sentence for the person watching; ``level`` is "info" or "warning"."""

    text: str
    level: str = "info"


@dataclass(frozen=True)
class Ended:
    """The run is over: "finished", "stopped" by a person, or "failed" with a sentence and a traceback."""

    status: str
    message: str = ""
    traceback: str = ""


Event = Queued | Planned | StageStarted | Progress | Checkpoint | Measured | Snapshot | Resolved | Note | Ended
