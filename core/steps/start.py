"""Where clusters start before anything is learnt: a choice between two ways, made without a label."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from core.clustering import normalised
from core.events import Note
from core.steps.evaluate import silhouette
from core.steps.linkage import linked_centres
from core.steps.neighbours import NEAR, joined_views, near_rows, smoothed
from core.work import Work

STARTS = ("similar", "kmeans")
_TRIES = 10
_LINKED = 3_000
_CLEARLY = 1.1  # on Tweet (89 uneven groups) linkage is 1.17 times as clear; where groups are even, about 1


class Start(NamedTuple):
    """The clusters with which a training starts, and whether they differ so much in size that linkage found them."""

    labels: np.ndarray
    uneven: bool = False


def find_start(
    vectors: np.ndarray, texts: Sequence[str], clusters: int, seed: int, how: str, near: np.ndarray | None = None
) -> Work[Start]:
    """Return the clusters with which a training starts.

    Choose "similar" unless a paper is to be followed: it looks at meaning and words together. Its k-means goes
    over vectors smoothed across near texts. k-means cuts large groups into even pieces; so average linkage, which
    leaves groups as uneven as they are, is tried too and taken where its clusters are clearly the clearer ones.
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
    clear = [silhouette(space, labels, seed)[0] or 0.0 for labels in (even, uneven)]
    if clear[1] > _CLEARLY * max(clear[0], 0.0):
        yield Note(f"The groups differ much in size: they are linked, not divided evenly (silhouette {clear[1]:.3f}).")
        return Start(uneven, True)
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
