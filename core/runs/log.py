"""The log of a run: one JSON object per line, only ever appended. ``cat events.jsonl`` retells the run."""

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from core.events import Checkpoint, Event, Progress, Snapshot

Record = dict[str, Any]
_QUIET_SECONDS = 0.25  # between two progress lines of one stage


class Log:
    """Appends events and reads them back, incrementally if asked. A torn last line is repaired, never trusted."""

    def __init__(self, path: Path) -> None:
        """Point to a log; it need not exist yet."""
        self.path = path
        self._last_progress = 0.0

    def append(self, event: Event) -> None:
        """Write one event and flush it to the disk; progress is thinned out."""
        now = time.time()
        if isinstance(event, Progress) and event.done < event.total:
            if now - self._last_progress < _QUIET_SECONDS:
                return
            self._last_progress = now
        record = {"time": round(now, 3), "event": type(event).__name__} | _plain(event)
        line = (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "replace")
        with self.path.open("ab") as file:
            file.write(line)
            file.flush()
            if not isinstance(event, Progress):
                os.fsync(file.fileno())

    def repair(self) -> None:
        """Cut off what a kill left of an unfinished line. Only the owner of the run may do this."""
        if self.path.exists() and (data := self.path.read_bytes()) and not data.endswith(b"\n"):
            with self.path.open("r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)

    def read(self, start: int = 0) -> tuple[list[Record], int]:
        """Return the whole records after byte ``start`` and where to go on; an unfinished line waits."""
        if not self.path.exists():
            return [], start
        with self.path.open("rb") as file:
            file.seek(start)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        records = []
        for line in data.splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # a line torn by a kill and overwritten by a later one
                continue
            if isinstance(record, dict) and {"event", "time"} <= record.keys():
                records.append(record)
        return records, start + len(data)


def _plain(event: Event) -> Record:
    """Return an event's fields; arrays and lists are in files of their own, a checkpoint's plain values here too."""
    if isinstance(event, Snapshot):
        return {"stage": event.stage, "step": event.step, "rows": len(event.rows)}
    if not isinstance(event, Checkpoint):
        return asdict(event)
    plain = {name: value for name, value in event.values.items() if isinstance(value, str | int | float)}
    return {"stage": event.stage, "slot": str(event.slot), "number": event.number, "values": plain}


@dataclass
class Story:
    """What a log says so far: folded from its records, never stored."""

    phase: str = "new"
    road: dict[str, float] = field(default_factory=dict)
    stage: str | None = None
    done: int = 0
    total: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)
    resolved: dict[str, str] = field(default_factory=dict)  # knobs that were left open
    snapshots: dict[tuple[str, int], None] = field(default_factory=dict)
    measured: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    earlier_notes: list[tuple[str, str]] = field(default_factory=list)
    last: float = 0.0  # when the last thing was told
    message: str = ""
    traceback: str = ""
    stage_began: float = 0.0
    pace_from: tuple[float, int] | None = None  # the stage's first progress: a resumed one does not begin at nothing

    def add(self, record: Record) -> None:
        """Take one more record into account."""
        moment, last = float(record["time"]), self.last
        self.last = moment
        match record["event"]:
            case "Queued":
                self._close_stage(last)  # where it was killed it had no time to say so
                self.phase, self.stage, self.done, self.message, self.traceback = "queued", None, 0, "", ""
                self.earlier_notes, self.notes = self.notes, []
            case "Planned":
                self.road = {name: seconds for name, seconds in record["stages"]}
            case "StageStarted":
                self._close_stage(moment)
                self.phase, self.stage = "running", record["stage"]
                self.done, self.total, self.stage_began = 0, record["total"], moment
                self.pace_from = None
            case "Progress":
                self.done, self.total = record["done"], record["total"]
                self.pace_from = self.pace_from or (moment, self.done)
            case "Measured":
                self.measured.setdefault((record["stage"], record["step"]), {}).update(record["values"])
            case "Snapshot":
                self.snapshots[record["stage"], record["step"]] = None
            case "Resolved":
                self.resolved[record["name"]] = record["value"]
                if record["reason"]:
                    self.notes.append(("info", f"{record['name']}: {record['value']}. {record['reason']}"))
            case "Note":
                self.notes.append((record["level"], record["text"]))
            case "Ended":
                self._close_stage(moment)
                self.phase, self.message, self.traceback = record["status"], record["message"], record["traceback"]
                if self.phase == "finished":
                    if self.stage is None:  # withdrawn before anything was done anew
                        self.notes = self.earlier_notes
                    self.stage = None

    def seconds_left_here(self, now: float) -> float | None:
        """Guess the time left in the current stage, by its own pace once there is one."""
        if self.phase != "running" or self.stage is None:
            return None
        began, first = self.pace_from or (self.stage_began, 0)
        if first < self.done < self.total:
            return (now - began) * (self.total - self.done) / (self.done - first)
        # Nothing to go by yet, or something follows that is not counted: as planned.
        if self.done >= self.total:
            return max(self.road.get(self.stage, 1.0) - (now - self.stage_began), 1.0)
        return max(self.road.get(self.stage, 1.0) * (1 - self.done / max(self.total, 1)) - (now - began), 1.0)

    def seconds_left(self, now: float) -> float | None:
        """Guess the time left in all: that of the current stage, and as planned for those to come."""
        here = self.seconds_left_here(now)
        if here is None:
            return None
        names = list(self.road)
        later = names[names.index(self.stage) + 1 :] if self.stage in names else []
        return here + sum(self.road[name] for name in later)

    def _close_stage(self, moment: float) -> None:
        if self.phase == "running" and self.stage:
            self.seconds[self.stage] = round(self.seconds.get(self.stage, 0.0) + moment - self.stage_began, 3)
