"""Vectors kept between runs, by text: a changed row is encoded again, its ten thousand neighbours are not."""

import os
import time
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
            try:
                keys = np.load(keys_path, allow_pickle=False)
                values = np.load(_values_path(keys_path), mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError):  # deleted by another process, or damaged: it will be encoded again
                continue
            places = np.searchsorted(keys, digests)
            places[places == len(keys)] = 0
            here = (keys[places] == digests) & ~known if len(keys) else np.zeros(len(digests), bool)
            if here.any():
                if vectors is None:
                    vectors = np.empty((len(digests), values.shape[1]), np.float32)
                vectors[here] = values[places[here]]
                known |= here
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
        keys = np.concatenate([np.load(path, allow_pickle=False) for path in pieces])
        values = np.concatenate([np.load(_values_path(path), allow_pickle=False) for path in pieces])
        keys, first = np.unique(keys, return_index=True)
        stem = f"{time.time_ns():020d}-{os.getpid()}"
        save_array(self.folder / f"{stem}.vectors.npy", values[first])
        save_array(self.folder / f"{stem}.keys.npy", keys)
        for path in pieces:
            _remove(path)

    def _pieces(self) -> list[Path]:
        return sorted(self.folder.glob("*.keys.npy"))


def _values_path(keys_path: Path) -> Path:
    return keys_path.with_name(keys_path.name.replace(".keys.", ".vectors."))


def _remove(keys_path: Path) -> None:
    keys_path.unlink(missing_ok=True)
    _values_path(keys_path).unlink(missing_ok=True)


def prune(cache: Path, most: int = LARGEST_CACHE) -> None:
    """Delete the pieces that were not used for longest until the cache is within its bound."""
    pieces = sorted(cache.rglob("*.keys.npy"), key=lambda path: path.stat().st_mtime, reverse=True)
    total = 0
    for path in pieces:
        total += path.stat().st_size + _values_path(path).stat().st_size
        if total > most:
            _remove(path)
