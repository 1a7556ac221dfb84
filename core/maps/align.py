"""Frames of the live map: each begins where the last one ended and is turned onto it, so that points move, not jump."""

import numpy as np
from scipy.linalg import orthogonal_procrustes


def aligned(points: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Move, turn, mirror and scale points as a whole so that they lie on others as well as they can.

    What is left of a difference is then movement of the points among each other, not of the map. The scale makes both
    equally wide: the one of least squares is smaller by their correlation, and a map would shrink with every frame.
    """
    centre, target = points.mean(0), onto.mean(0)
    free, fixed = np.asarray(points - centre, np.float64), np.asarray(onto - target, np.float64)
    width, wanted = np.linalg.norm(free), np.linalg.norm(fixed)
    if not width or not wanted:
        return np.asarray(free + target, np.float32)
    turn, _ = orthogonal_procrustes(free, fixed)
    return np.asarray(free @ turn * (wanted / width) + target, np.float32)


def displacement(points: np.ndarray, before: np.ndarray, unchanged: np.ndarray) -> float:
    """Say how far points whose cluster did not change have moved, on average, as a share of the map's spread."""
    if not unchanged.any():
        return 0.0
    spread = float(np.sqrt(((before - before.mean(0)) ** 2).sum(1).mean()))
    moved = np.linalg.norm(points[unchanged] - before[unchanged], axis=1).mean()
    return float(moved / spread) if spread else 0.0
