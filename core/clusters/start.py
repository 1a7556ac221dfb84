"""Where clusters start before anything is learnt: a choice between two ways, made without a label."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from core.clusters.evaluate import silhouette
from core.clusters.linkage import linked_centres
from core.clusters.neighbours import NEAR, joined_views, near_rows, smoothed
from core.encoder.vectors import normalised
from core.events import Note
from core.work import Work

STARTS = ("similar", "kmeans")
_TRIES = 10
_LINKED = 3_000
_CLEAR = 0.1  # a silhouette of groups that stand apart: 0.13 to 0.20 on Tweet, below 0.09 on five other sets
_CLEARER = 1.15  # where groups touch, silhouettes are small and a tenth more or less of them is chance


class Start(NamedTuple):
    """The clusters with which a training starts, and whether they stand apart and differ much in size."""

    labels: np.ndarray
    uneven: bool = False


def find_start(
    vectors: np.ndarray, texts: Sequence[str], clusters: int, seed: int, how: str, near: np.ndarray | None = None
) -> Work[Start]:
    """Return the clusters with which a training starts.

    Choose "similar" unless a paper is to be followed: it looks at meaning and words together. Its k-means goes
    over vectors smoothed across near texts. k-means cuts large groups into even pieces; so average linkage, which
    leaves groups as uneven as they are, is tried too and taken where its clusters are the clearer ones: by little
    where they stand apart, by far where they touch. Only groups that stand apart can be linked at the end as well.
    "kmeans" is the papers' start, by meaning alone.
    """
    if how == "kmeans":
        return Start((yield from _kmeans(normalised(vectors), clusters, seed)))
    space = joined_views(vectors, texts, seed)
    if near is None:
        near = yield from near_rows(space, NEAR, seed)
    even = yield from _kmeans(smoothed(space, near, clusters), clusters, seed)
    uneven = _linked(space, clusters, seed)
    yield None
    divided, linked = (max(silhouette(space, labels, seed)[0] or 0.0, 0.0) for labels in (even, uneven))
    if linked >= _CLEAR and linked > divided:
        yield Note(f"The groups differ much in size: they are linked, not divided evenly (silhouette {linked:.3f}).")
        return Start(uneven, True)
    if linked > _CLEARER * divided:
        yield Note(f"Linked groups are clearer to start from than divided ones (silhouette {linked:.3f}).")
        return Start(uneven)
    return Start(even)


def _kmeans(space: np.ndarray, clusters: int, seed: int) -> Work[np.ndarray]:
    best: KMeans | None = None
    for start in range(_TRIES):
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = KMeans(clusters, n_init=1, random_state=seed * 1_000 + start).fit(space)
        best = model if best is None or model.inertia_ < best.inertia_ else best
        yield None
    assert best is not None
    return np.asarray(best.labels_)


def _linked(space: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    """Link a sample, then let k-means take all rows in from there."""
    centres = normalised(linked_centres(space, clusters, seed, _LINKED))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(KMeans(clusters, init=centres, n_init=1, random_state=seed).fit(space).labels_)
