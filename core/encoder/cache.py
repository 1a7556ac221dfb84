"""Vectors kept between runs, by text: a changed row is encoded again, its ten thousand neighbours are not."""

import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from core.files import save_array

LARGEST_CACHE = 4 << 30
_MOST_PIECES = 24


class VectorCache:
    """Pieces of (digests, vectors) in one folder, each written whole; what is asked for is gathered from all of them.

    The folder's name must say everything that decides a vector beside its tokens: weights, pooling, precision.
    """

    def __init__(self, folder: Path) -> None:
        """Point to a folder; it is made when the first piece is kept."""
        self.folder = folder

    def find(self, digests: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return which digests are known, and an array with the vectors of those (others are not filled in)."""
        known = np.zeros(len(digests), bool)
        vectors: np.ndarray | None = None
        for keys_path in self._pieces():
            if (piece := _read(keys_path)) is None:
                continue
            keys, values = piece
            places = np.searchsorted(keys, digests)
            places[places == len(keys)] = 0
            here = (keys[places] == digests) & ~known if len(keys) else np.zeros(len(digests), bool)
            if here.any():
                if vectors is None:
                    vectors = np.empty((len(digests), values.shape[1]), np.float32)
                vectors[here] = values[places[here]]
                known |= here
                with suppress(OSError):  # another process may be tidying up
                    os.utime(keys_path)
        return known, vectors

    def keep(self, digests: np.ndarray, vectors: np.ndarray) -> None:
        """Add a piece; many small pieces become one."""
        order = np.argsort(digests, kind="stable")
        stem = f"{time.time_ns():020d}-{os.getpid()}"
        save_array(self.folder / f"{stem}.vectors.npy", vectors[order].astype(np.float32, copy=False))
        save_array(self.folder / f"{stem}.keys.npy", digests[order])
        if len(pieces := self._pieces()) > _MOST_PIECES:
            self._merge(pieces)

    def _merge(self, pieces: list[Path]) -> None:
        """Make one piece of many; a damaged one is left out and deleted, to be encoded again when it is needed."""
        read = [(path, piece) for path in pieces if (piece := _read(path)) is not None]
        whole = [(keys, values) for _, (keys, values) in read if values.shape[1:] == read[-1][1][1].shape[1:]]
        if whole:
            keys, first = np.unique(np.concatenate([keys for keys, _ in whole]), return_index=True)
            stem = f"{time.time_ns():020d}-{os.getpid()}"
            save_array(self.folder / f"{stem}.vectors.npy", np.concatenate([values for _, values in whole])[first])
            save_array(self.folder / f"{stem}.keys.npy", keys)
        for path in pieces:
            _remove(path)

    def _pieces(self) -> list[Path]:
        return sorted(self.folder.glob("*.keys.npy"))


def _read(keys_path: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """Read a piece, or return None if another process has deleted it or it is damaged: it will be encoded again."""
    try:
        keys = np.load(keys_path, allow_pickle=False)
        values = np.load(_values_path(keys_path), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return (keys, values) if keys.ndim == 1 and values.ndim == 2 and len(keys) == len(values) else None


def _values_path(keys_path: Path) -> Path:
    return keys_path.with_name(keys_path.name.replace(".keys.", ".vectors."))


def _remove(keys_path: Path) -> None:
    for path in (keys_path, _values_path(keys_path)):
        with suppress(OSError):  # gone already, or held open by another process where that forbids it
            path.unlink()


def _used(keys_path: Path) -> tuple[float, int]:
    """Return when a piece was last used and its size; nothing of one that is gone."""
    try:
        return keys_path.stat().st_mtime, keys_path.stat().st_size + _values_path(keys_path).stat().st_size
    except OSError:
        return 0.0, 0


def prune(cache: Path, most: int = LARGEST_CACHE) -> None:
    """Delete the pieces that were not used for longest until the cache is within its bound."""
    pieces = sorted(((*_used(path), path) for path in cache.rglob("*.keys.npy")), reverse=True)
    total = 0
    for _, size, path in pieces:
        total += size
        if total > most:
            _remove(path)
