"""What was renamed or removed since earlier versions, so that their runs open: the one table to add to."""

from collections.abc import Mapping
from typing import Any

# (field of config.json, value as it was): value as it is now
VALUES: dict[tuple[str, Any], Any] = {
    ("precision", "int8"): "float32",  # hardly faster, so it was removed
}
# (method or "*", knob as it was called): its name now, or None if it is gone
KNOBS: dict[tuple[str, str], str | None] = {}
# (knob, value as it was): value as it is now
KNOB_VALUES: dict[tuple[str, Any], Any] = {}


def translated(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration in today's words."""
    found = {name: VALUES.get((name, value), value) if _plain(value) else value for name, value in config.items()}
    knobs, method = found.get("knobs"), found.get("method")
    if isinstance(knobs, Mapping):
        found["knobs"] = {
            new: KNOB_VALUES.get((new, value), value) if _plain(value) else value
            for name, value in knobs.items()
            if (new := KNOBS.get((str(method), name), KNOBS.get(("*", name), name))) is not None
        }
    return found


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)
