"""Vectors and how far they lie from each other."""

import numpy as np

_BLOCK = 4_096


def normalised(vectors: np.ndarray) -> np.ndarray:
    """Scale every row to length one; a zero row stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def squared_distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Squared Euclidean distances between all rows of two arrays, in double precision so that small ones hold."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    cross = left @ right.T
    return np.maximum((left**2).sum(1)[:, None] + (right**2).sum(1)[None] - 2 * cross, 0.0)


def nearest(vectors: np.ndarray, among: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and squared distances of the nearest ``count`` rows, computed in blocks."""
    positions = np.empty((len(vectors), count), np.int64)
    distances = np.empty((len(vectors), count), np.float64)
    for start in range(0, len(vectors), _BLOCK):
        block = slice(start, start + _BLOCK)
        found = squared_distances(vectors[block], among)
        near = np.argpartition(found, count - 1, axis=1)[:, :count]
        near_distances = np.take_along_axis(found, near, 1)
        order = np.argsort(near_distances, axis=1, kind="stable")
        positions[block] = np.take_along_axis(near, order, 1)
        distances[block] = np.take_along_axis(near_distances, order, 1)
    return positions, distances
