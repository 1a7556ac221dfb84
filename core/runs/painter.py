"""The painter: turns a run's snapshots into frames of the live map while the run goes on."""

import threading

from core.maps.align import aligned
from core.maps.projector import Projector
from core.runs.frames import Frame
from core.runs.store import Run
from core.work import Work

_PAUSE = 0.2
_MOST_FAILURES = 3


class Painter:
    """A thread beside a run. Training never waits for a picture: the newest snapshot is drawn, older ones may wait.

    When the run has ended, those that were passed over are drawn too, so that the replay has all of them. A picture
    that cannot be drawn is left out.
    """

    def __init__(self, run: Run, projector: Projector) -> None:
        """Begin to watch the run."""
        self.run, self.projector = run, projector
        self._failed: set[tuple[str, int, str]] = set()
        self._ended, self._cancelled = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._paint, name="topicscope-painter", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Say that no more snapshots will come."""
        self._ended.set()

    @property
    def gave_up(self) -> bool:
        """Whether too many pictures failed."""
        return len(self._failed) >= _MOST_FAILURES

    def is_at_work(self) -> bool:
        """Say whether there is still something to draw or to wait for."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait until everything is drawn."""
        self._thread.join()

    def close(self) -> None:
        """Stop at once and wait for it."""
        self._cancelled.set()
        self._ended.set()
        self._thread.join()

    def _paint(self) -> None:
        while not self._cancelled.is_set() and not self.gave_up:
            missing = [frame for frame in self.run.frames().missing() if frame not in self._failed]
            if not missing:
                if self._ended.is_set():
                    return
                self._ended.wait(_PAUSE)
                continue
            # Newest first while the run goes on; when it is over, in order.
            frame = missing[0] if self._ended.is_set() else missing[-1]
            try:
                for _ in paint(self.run, self.projector, *frame):
                    if self._cancelled.is_set():
                        return
            except Exception:  # whatever a damaged file or a killed process brings: a picture is never worth a run
                self._failed.add(frame)


def paint(run: Run, projector: Projector, stage: str, step: int, layout: str) -> Work[None]:
    """Draw one frame, from where the nearest earlier frame of this layout left the points, and keep it."""
    frames = run.frames()
    taken, snapshot = frames.taken_at(stage, step), run.snapshot(stage, step)
    before = frames.before(stage, step, layout)
    start = before.points if before is not None and len(before.points) == len(snapshot.rows) else None
    points = yield from projector.project(snapshot.vectors, start=start, layout=layout, dims=2, seed=run.config.seed)
    if start is not None:
        points = aligned(points, start)
    if frames.taken_at(stage, step) == taken:  # taken again meanwhile, it would pass for a picture of the new one
        frames.save(Frame(stage, step, layout, snapshot.rows, points, snapshot.labels))
