"""What was renamed or removed since earlier versions, so that their runs open: the one table to add to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.events import Slot
from core.state import Choice

# (field of config.json, value as it was): value as it is now
VALUES: dict[tuple[str, Any], Any] = {
    ("precision", "int8"): "float32",  # hardly faster, so it was removed
}
# (method or "*", knob as it was called): its name now, or None if it is gone
KNOBS: dict[tuple[str, str], str | None] = {}
# (knob, value as it was): value as it is now
KNOB_VALUES: dict[tuple[str, Any], Any] = {}
_SMOOTH = ("partition", "smooth+kmeans")
_LINKED_ON_THEIR_OWN = ("sccl", "clusterbert", "tsdae", "uft")


def translated(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration in today's words."""
    found = {name: VALUES.get((name, value), value) if _plain(value) else value for name, value in config.items()}
    knobs, method = found.get("knobs"), found.get("method")
    if isinstance(knobs, Mapping) and _version(config) == "0.1.0" and method in _LINKED_ON_THEIR_OWN:
        # There smooth+kmeans gave way to linkage where groups stand apart; that is what auto says today.
        knobs = {name: "auto" if (name, value) == _SMOOTH else value for name, value in knobs.items()}
    if isinstance(knobs, Mapping):
        found["knobs"] = {
            new: KNOB_VALUES.get((new, value), value) if _plain(value) else value
            for name, value in knobs.items()
            if (new := KNOBS.get((str(method), name), KNOBS.get(("*", name), name))) is not None
        }
    return found


def _version(config: Mapping[str, Any]) -> str:
    versions = config.get("versions")
    return str(versions.get("topicscope")) if isinstance(versions, Mapping) else ""


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def old_checkpoint_names(stage: str, slot: Slot, number: int) -> tuple[str, ...]:
    """Name the files in which version 0.1 kept a checkpoint: all stages in one folder, told apart by prefixes."""
    return {
        Slot.CURRENT: (stage,),
        Slot.BEST: (f"best of {stage}",),
        Slot.LOOK: (f"look at {stage} {number}",),
        Slot.TARGETS: (f"targets of {stage}", f"other targets of {stage}"),
    }[slot]


def old_choice(checkpoints: Path) -> Choice | None:
    """Read the look that a person chose in version 0.1."""
    from safetensors import safe_open

    path = checkpoints / "kept-by-a-person.safetensors"
    if not path.exists():
        return None
    with safe_open(path, framework="np") as file:
        found = json.loads(file.metadata()["values"])
    return Choice(found["stage"], int(found["step"]), tuple(found["later"]))
