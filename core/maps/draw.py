"""The map of a run: a sample laid out in two dimensions, every other row placed beside its neighbours."""

import numpy as np

from core.encoder.vectors import nearest
from core.events import Progress, StageStarted
from core.maps.project import LAYOUTS
from core.maps.projector import Projector
from core.stages import MAP
from core.work import Work

_PLACED_BY = 5  # nearest sampled rows that say where a row outside the sample goes


def draw_map(
    vectors: np.ndarray, most: int, seed: int, projector: Projector
) -> Work[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Lay out a random sample by each layout; every other row goes where its nearest sampled rows are."""
    rows = len(vectors)
    sample = np.arange(rows)
    if rows > most:
        sample = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    layouts = {}
    yield StageStarted(MAP, len(LAYOUTS))
    for done, layout in enumerate(LAYOUTS, start=1):
        drawn = yield from projector.project(vectors[sample], layout=layout, dims=2, seed=seed)
        layouts[layout] = place(vectors, sample, drawn)
        yield Progress(MAP, done, len(LAYOUTS))
    return sample, layouts


def place(vectors: np.ndarray, sample: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Give every row a point: its own if sampled, else the weighted mean of its nearest sampled rows."""
    points = np.empty((len(vectors), drawn.shape[1]), np.float32)
    points[sample] = drawn
    rest = np.setdiff1d(np.arange(len(vectors)), sample, assume_unique=True)
    if len(rest):
        near, distances = nearest(vectors[rest], vectors[sample], min(_PLACED_BY, len(sample)))
        weights = 1 / (distances + 1e-6)
        points[rest] = (drawn[near] * (weights / weights.sum(1, keepdims=True))[..., None]).sum(1)
    return points
