"""The frames of a run's live map, one file each: kept with the run, there again when it is opened later."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from core.clusters.clustering import matched_numbers, renumbered
from core.files import save_tensors, slug
from core.maps.align import displacement
from core.maps.project import LAYOUTS
from core.stages import CLUSTER

ENDED = CLUSTER  # the stage of the last frame


@dataclass(frozen=True)
class Frame:
    """Where a snapshot's rows lie on the map by one layout, and in which clusters."""

    stage: str
    step: int
    layout: str
    rows: np.ndarray
    points: np.ndarray
    labels: np.ndarray


def numbered_as_at_the_end(frames: Sequence[Frame]) -> list[Frame]:
    """Give the clusters of earlier frames the numbers they have in the last: at the end they are counted by size."""
    *earlier, last = frames
    if not earlier or last.stage != ENDED:
        return list(frames)
    count = 1 + max(int(frame.labels.max(initial=0)) for frame in frames)
    number = matched_numbers(last.labels, earlier[-1].labels, count)
    return [*(replace(frame, labels=renumbered(frame.labels, number)) for frame in earlier), last]


def snapshot_file(folder: Path, stage: str, step: int) -> Path:
    """Return where a run keeps what a frame is drawn from."""
    return folder / "snapshots" / f"{slug(stage)}-{step:07d}.safetensors"


class Frames:
    """The frames that are there, in the order of the snapshots they show."""

    def __init__(self, folder: Path, snapshots: list[tuple[str, int]]) -> None:
        """Look into a run's folder."""
        self.folder, self.snapshots = folder, snapshots

    def names(self, layout: str) -> list[tuple[str, int]]:
        """Name the snapshots that have a frame by this layout."""
        return [name for name in self.snapshots if self.drawn_at(*name, layout)]

    def missing(self) -> list[tuple[str, int, str]]:
        """Name the frames that are still to be drawn, in order; of each snapshot the first layout comes last."""
        wanted = [(*name, layout) for name in self.snapshots for layout in reversed(LAYOUTS)]
        return [frame for frame in wanted if not self.drawn_at(*frame)]

    def open(self, stage: str, step: int, layout: str) -> Frame:
        """Open one frame."""
        from safetensors.numpy import load_file

        arrays = load_file(self._path(stage, step, layout))
        return Frame(stage, step, layout, arrays["rows"], arrays["points"], arrays["labels"])

    def moved(self, stage: str, step: int, layout: str) -> float:
        """Say how far texts that stayed in their cluster moved since the frame before, as a share of the map."""
        names = self.names(layout)
        place = names.index((stage, step)) if (stage, step) in names else 0  # its snapshot may just be taken again
        if not place:
            return 0.0
        before, now = numbered_as_at_the_end([self.open(*names[place - 1], layout), self.open(stage, step, layout)])
        return displacement(now.points, before.points, now.labels == before.labels)

    def before(self, stage: str, step: int, layout: str) -> Frame | None:
        """Return the nearest earlier frame of this layout, or the nearest later one, or None."""
        place = self.snapshots.index((stage, step))
        there = [at for at, name in enumerate(self.snapshots) if at != place and self.drawn_at(*name, layout)]
        earlier = [at for at in there if at < place]
        nearest = max(earlier) if earlier else min(there) if there else None
        return None if nearest is None else self.open(*self.snapshots[nearest], layout)

    def drawn_at(self, stage: str, step: int, layout: str) -> float | None:
        """Say when a frame was drawn, or None if it was not since its snapshot was taken (again)."""
        with suppress(FileNotFoundError):
            drawn = self._path(stage, step, layout).stat().st_mtime
            return drawn if drawn >= self.taken_at(stage, step) else None
        return None

    def taken_at(self, stage: str, step: int) -> float:
        """Say when a snapshot was taken."""
        return snapshot_file(self.folder, stage, step).stat().st_mtime

    def save(self, frame: Frame) -> None:
        """Keep a frame."""
        arrays = {"rows": frame.rows, "points": frame.points, "labels": frame.labels}
        save_tensors(self._path(frame.stage, frame.step, frame.layout), arrays)

    def _path(self, stage: str, step: int, layout: str) -> Path:
        return self.folder / "frames" / f"{layout}-{slug(stage)}-{step:07d}.safetensors"
