"""The checkpoints of a run, a file each: ``checkpoints/<stage>/{current,best,look-25,targets-3}.safetensors``."""

import json
import re
from pathlib import Path

from core.errors import BadInput
from core.events import Checkpoint, Slot
from core.files import load_json, save_json, save_tensors, slug
from core.runs.translate import old_checkpoint_names, old_choice
from core.state import Choice, State

LOOKS_BUDGET = 2 << 30  # bytes of kept looks in a run; beyond it they are thinned out
_LOOK = re.compile(r"look-(\d+)")


class Checkpoints(State):
    """The state of a run as it is on the disk. Only the process that has claimed the run writes."""

    def __init__(self, folder: Path) -> None:
        """Point to the folder; it need not exist yet."""
        super().__init__()
        self.folder = folder

    @property
    def choice(self) -> Choice | None:
        """The look that a person chose, from choice.json."""
        path = self.folder / "choice.json"
        if not path.exists():
            return old_choice(self.folder)
        found = load_json(path)
        return Choice(found["stage"], int(found["step"]), tuple(found["later"])) if found else None

    def choose(self, choice: Choice | None) -> None:
        """Make a look the result when the run goes on, or none; what followed from other weights is forgotten."""
        plain = {} if choice is None else {"stage": choice.stage, "step": choice.step, "later": list(choice.later)}
        save_json(self.folder / "choice.json", plain)

    def find(self, stage: str, slot: Slot = Slot.CURRENT, number: int = 0) -> Checkpoint | None:
        """Read one checkpoint, or return None if it is not there."""
        for path in self._paths(stage, slot, number):
            if path.exists():
                found = _read(path, stage, slot, number)
                if slot is not Slot.TARGETS or int(found.values.get("number", number)) == number:
                    return found
        return None

    def save(self, checkpoint: Checkpoint, budget: int = LOOKS_BUDGET) -> None:
        """Write one, and delete what it makes superfluous."""
        path = self._path(checkpoint.stage, checkpoint.slot, checkpoint.number)
        save_tensors(path, checkpoint.arrays, {"values": json.dumps(dict(checkpoint.values))})
        if checkpoint.slot is Slot.CURRENT and "round" in checkpoint.values:
            for older in path.parent.glob("targets-*.safetensors"):
                if int(older.stem.rpartition("-")[2]) < int(checkpoint.values["round"]):
                    older.unlink(missing_ok=True)
        if checkpoint.slot is Slot.LOOK:
            self._thin_looks(checkpoint, budget)

    def forget(self, stage: str) -> None:
        """Delete where a stage stands, so that it is done again."""
        for path in self._paths(stage, Slot.CURRENT, 0):
            path.unlink(missing_ok=True)

    def has_look(self, stage: str, step: int) -> bool:
        """Say whether the weights of a look are there."""
        return any(path.exists() for path in self._paths(stage, Slot.LOOK, step))

    def _thin_looks(self, newest: Checkpoint, budget: int) -> None:
        """Delete looks until all of the run fit: those whose neighbours are closest first, the chosen one never."""
        best = self.find(newest.stage, Slot.BEST)
        protected = {(slug(newest.stage), newest.number), (slug(newest.stage), 0)}
        if best is not None and "look" in best.values:
            protected.add((slug(newest.stage), int(best.values["look"])))
        if self.choice is not None:
            protected.add((slug(self.choice.stage), self.choice.step))
        looks = {
            (path.parent.name, int(found[1])): path
            for path in self.folder.glob("*/look-*.safetensors")
            if (found := _LOOK.fullmatch(path.stem))
        }
        sizes = {name: path.stat().st_size for name, path in looks.items()}
        while sum(sizes.values()) > budget:
            candidates = [name for name in sizes if name not in protected]
            if not candidates:
                return
            gone = min(candidates, key=lambda name: (_gap(name, list(sizes)), name))
            looks[gone].unlink(missing_ok=True)
            del sizes[gone]

    def _paths(self, stage: str, slot: Slot, number: int) -> list[Path]:
        old = [self.folder / f"{slug(name)}.safetensors" for name in old_checkpoint_names(stage, slot, number)]
        return [self._path(stage, slot, number), *old]

    def _path(self, stage: str, slot: Slot, number: int) -> Path:
        name = f"{slot}-{number}" if slot in (Slot.LOOK, Slot.TARGETS) else str(slot)
        return self.folder / slug(stage) / f"{name}.safetensors"


def _gap(look: tuple[str, int], looks: list[tuple[str, int]]) -> int:
    """Return how many steps of its stage would lie between a look's neighbours without it."""
    steps = sorted(step for stage, step in looks if stage == look[0])
    place = steps.index(look[1])
    before = steps[place - 1] if place else steps[place]
    after = steps[place + 1] if place + 1 < len(steps) else steps[place]
    return after - before


def _read(path: Path, stage: str, slot: Slot, number: int) -> Checkpoint:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}
            return Checkpoint(stage, arrays, json.loads(file.metadata()["values"]), slot, number)
    except (SafetensorError, ValueError, KeyError, TypeError) as fault:
        raise BadInput(f"A checkpoint of this run is damaged ({path.parent.name}/{path.name}).") from fault
