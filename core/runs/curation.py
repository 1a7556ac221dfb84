"""What a person has corrected in a run's result: ``curation.jsonl``, a line each, only ever appended."""

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from core.errors import BadInput

LONGEST_NAME = 120


@dataclass(frozen=True)
class Curation:
    """The ledger, folded: names given to clusters, words struck from all topics."""

    names: dict[int, str] = field(default_factory=dict)
    struck: frozenset[str] = frozenset()
    can_undo: bool = False


class Ledger:
    """Appends corrections and folds them. The artefacts of a run are never changed, so everything can be undone."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        """Take a run's folder, and the fingerprint of the labels that are being corrected."""
        self.path, self.fingerprint = folder / "curation.jsonl", fingerprint

    def rename(self, cluster: int, name: str) -> None:
        """Give a cluster a name of one's own; an empty one gives it back its own."""
        name = " ".join(name.split())
        if len(name) > LONGEST_NAME:
            raise BadInput(f"A name has at most {LONGEST_NAME} characters; this one has {len(name)}.")
        self._append({"operation": "rename", "cluster": int(cluster), "name": name, "labels": self.fingerprint})

    def strike(self, word: str) -> None:
        """Strike a word from the topics of all clusters."""
        self._append({"operation": "strike", "word": word})

    def undo(self) -> None:
        """Take back the last correction that still stands."""
        if not self.fold().can_undo:
            raise BadInput("There is nothing to undo.")
        self._append({"operation": "undo"})

    def fold(self) -> Curation:
        """Return what stands: in order, without what was undone, names only where the labels are still the same."""
        standing: list[dict[str, Any]] = []
        for record in self._records():
            match record.get("operation"):
                case "undo":
                    standing = standing[:-1]
                case "strike":
                    standing.append(record)
                case "rename" if record.get("labels") == self.fingerprint:
                    standing.append(record)
        renames = {one["cluster"]: one["name"] for one in standing if one["operation"] == "rename"}
        names = {cluster: name for cluster, name in renames.items() if name}
        struck = frozenset(one["word"] for one in standing if one["operation"] == "strike")
        return Curation(names, struck, bool(standing))

    def stamp(self) -> int:
        """Return what changes with every correction, for caches."""
        return self.path.stat().st_size if self.path.exists() else 0

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps({"time": round(time.time(), 3)} | record, ensure_ascii=False) + "\n"
        with FileLock(self.path.with_suffix(".lock")), self.path.open("ab+") as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a kill left half a line: what follows must not be glued to it
                    line = "\n" + line
            file.write(line.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())

    def _records(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            found += [record] if isinstance(record, dict) else []
        return found
