"""Writing files so that a kill at any moment leaves either the old one or the new one, never half of one."""

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


def save_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write aside, flush to the disk, then rename into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def save_bytes(path: Path, data: bytes) -> None:
    """Write bytes whole or not at all."""
    save_file(path, lambda file: file.write(data))


def save_array(path: Path, array: np.ndarray) -> None:
    """Write one array as .npy, never pickled."""
    save_file(path, lambda file: np.save(file, array, allow_pickle=False))


def save_json(path: Path, value: Mapping[str, Any] | list[Any]) -> None:
    """Write JSON that a person can read; a number that JSON does not have is an error, not a NaN."""
    save_bytes(
        path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "replace")
    )


def load_json(path: Path) -> Any:
    """Read JSON."""
    return json.loads(path.read_text("utf-8"))


def save_tensors(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, str] | None = None) -> None:
    """Write named arrays into one safetensors file, with words about them in its head."""
    from safetensors.numpy import save

    data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata=dict(about or {}))
    save_file(path, lambda file: file.write(data))


def slug(name: str) -> str:
    """Turn a stage's name into a part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())
