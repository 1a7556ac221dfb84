"""Writing files so that a kill at any moment leaves either the old one or the new one, never half of one."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
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


def forget_oldest(cache: Path, most: int, keep: Path) -> None:
    """Delete the files and folders of a cache that were not used for longest until it is within its bound.

    The one to keep counts as used now.
    """
    with suppress(FileNotFoundError):  # another process may be tidying up at the same time
        os.utime(keep)
        entries = [path for path in cache.iterdir() if not path.name.startswith(".")]
        total = 0
        for path in sorted(entries, key=lambda path: path.stat().st_mtime, reverse=True):
            total += sum(file.stat().st_size for file in (path.iterdir() if path.is_dir() else [path]))
            if total > most and path != keep:
                _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
