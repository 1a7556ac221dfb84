"""Where clusters start before anything is learnt: a choice between two ways, made without a label."""

import warnings
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
_BETTER = 1.03  # where groups stand apart: less is the same division but for a few texts
_CLEARER = 1.15  # where groups touch, silhouettes are small and a tenth more or less of them is chance


class Start(NamedTuple):
    """Clusters before anything is learnt: by k-means, and those to start from, which linkage may have found."""

    labels: np.ndarray
    divided: np.ndarray
    apart: bool = False  # whether the groups stand apart, so that they can be linked at the end as well
    reason: str = ""


def find_start(
    vectors: np.ndarray,
    lexical: np.ndarray | None,
    clusters: int,
    seed: int,
    how: str,
    near: np.ndarray | None = None,
) -> Work[Start]:
    """Return the clusters with which a training starts.

    Choose "similar" unless a paper is to be followed: it looks at meaning and words together, over a smoothed k-NN
    graph. "kmeans" is k-means of vectors of length one, by meaning alone.
    """
    if how == "kmeans":
        labels = yield from _kmeans(normalised(vectors), clusters, seed)
        return Start(labels, labels)
    space = joined_views(vectors, lexical)
    if near is None:
        near = yield from near_rows(space, NEAR, seed)
    found = yield from compare_starts(space, near, clusters, seed)
    if found.reason:
        yield Note(found.reason)
    return found


def compare_starts(space: np.ndarray, near: np.ndarray, clusters: int, seed: int) -> Work[Start]:
    """Divide by smoothed k-means and by average linkage, and take the clearer one, without a label.

    k-means cuts large groups into even pieces; average linkage leaves groups as uneven as they are, and runs groups
    that touch together. So it is taken by little where groups stand apart, by far where they touch.
    """
    divided = yield from _kmeans(smoothed(space, near, clusters), clusters, seed)
    linked = _linked(space, clusters, seed)
    yield None
    by_kmeans, by_linkage = (max(silhouette(space, labels, seed)[0] or 0.0, 0.0) for labels in (divided, linked))
    figures = f"silhouette {by_linkage:.3f} against {by_kmeans:.3f}"
    if by_linkage >= _CLEAR and by_linkage > _BETTER * by_kmeans:
        return Start(linked, divided, True, f"The groups stand apart, and linkage is clearer than k-means ({figures}).")
    if by_linkage > _CLEARER * by_kmeans:
        return Start(linked, divided, False, f"Linkage is clearer than k-means to start from ({figures}).")
    return Start(divided, divided, False, f"k-means over smoothed vectors is as clear as linkage ({figures}).")


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
