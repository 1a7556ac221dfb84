"""Vectors become clusters: one knob for all methods."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from core.clusters.clustering import Clustering, cluster_means, soft_assignment
from core.clusters.linkage import linked_centres
from core.clusters.neighbours import NEAR, joined_views, near_rows, smoothed
from core.clusters.start import compare_starts
from core.encoder.vectors import nearest, normalised
from core.events import Checkpoint, Note, Progress, Resolved, StageStarted
from core.maps.projector import Projector
from core.stages import CLUSTER
from core.work import Work

KMEANS, SMOOTH, LINKAGE, UMAP = DECIDED = ("kmeans", "smooth+kmeans", "linkage", "umap+kmeans")
AUTO = "auto"  # smooth+kmeans or linkage, whichever suits how the groups lie
PARTITIONS = (AUTO, *DECIDED)
STARTS = 10
_LINKED = 6_000  # how many rows are linked; the others go to the nearest group


def partition(
    vectors: np.ndarray,
    clusters: int,
    how: str,
    *,
    normalise: bool,
    seed: int,
    projector: Projector,
    lexical: np.ndarray | None = None,
    start: np.ndarray | None = None,
    state: Checkpoint | None = None,
) -> Work[Clustering]:
    """Group vectors by k-means, as they are, smoothed over similar texts, or after UMAP to ``clusters`` + 1 dimensions.

    Choose "kmeans" for speed and for centres that can be read. "smooth+kmeans" joins the vectors with the words of
    the texts (``lexical``) and moves each to the mean of its ten nearest, which takes seconds and is worth a few points
    of accuracy where groups touch. "linkage" joins them in the same way and then links by average distance: for groups
    that stand apart and differ in size, which k-means would make even; where groups touch it is worse. "auto" is one of
    these two, decided without labels, and says which. "umap+kmeans" (15 neighbours), the papers' own, follows bent
    groups and takes a minute more.
    Centres that were learnt are where k-means starts; UMAP makes a space of its own, in which they mean nothing.
    """
    vectors = normalised(vectors) if normalise else np.asarray(vectors, np.float32)
    if start is not None and normalise:
        start = normalised(start)
    first = int(how != KMEANS)
    yield StageStarted(CLUSTER, STARTS + first)
    space, learnt = vectors, start
    if how in (AUTO, SMOOTH, LINKAGE):
        joined = joined_views(vectors, lexical)
    if how == AUTO:
        near = yield from near_rows(joined, NEAR, seed)
        found = yield from compare_starts(joined, near, clusters, seed)
        how = LINKAGE if found.apart else SMOOTH
        yield Resolved("partition", how, found.reason)
        space = joined if how == LINKAGE else smoothed(joined, near, clusters)
        learnt = cluster_means(space, found.divided, clusters) if start is None else _moved(space, vectors, start)
    elif how == LINKAGE:
        space = joined
    elif how == SMOOTH:
        near = yield from near_rows(joined, NEAR, seed)
        space = smoothed(joined, near, clusters)
        learnt = None if start is None else _moved(space, vectors, start)
    elif how == UMAP:
        space = yield from projector.project(vectors, layout="umap", dims=clusters + 1, seed=seed, neighbours=15)
        learnt = None
    if first:
        yield Progress(CLUSTER, 1, STARTS + 1)
    if how == LINKAGE:
        centres = linked_centres(space, clusters, seed, _LINKED)
        yield Progress(CLUSTER, STARTS + 1, STARTS + 1)
    else:
        centres = yield from kmeans(space, clusters, seed, already=first, learnt=learnt, state=state)
    soft = soft_assignment(space, centres)
    empty = ~vectors.any(axis=1)
    if empty.any():
        # Nothing is known of such a text, so it belongs to every cluster alike; it stays where its distances put it.
        soft[empty] = _barely(soft[empty].argmax(1), clusters)
        yield Note(f"{int(empty.sum()):,} texts hold none of the words that are counted; their cluster is a guess.")
    clustering = Clustering.from_soft(vectors, soft, centres if how == KMEANS else None)
    yield from tell_unfilled(clustering)
    return clustering


def _moved(space: np.ndarray, vectors: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return learnt centres in another space: the means, there, of the rows nearest to each."""
    return cluster_means(space, nearest(vectors, start, 1)[0][:, 0], len(start))


def tell_unfilled(clustering: Clustering) -> Work[None]:
    """Warn of clusters that hold no text."""
    found, wanted = int((clustering.sizes > 0).sum()), clustering.soft.shape[1]
    if found < wanted:
        yield Note(
            f"Only {found:,} of {wanted:,} clusters were filled: the texts do not differ in more ways.", "warning"
        )


def _barely(labels: np.ndarray, clusters: int) -> np.ndarray:
    """Return nearly even probabilities whose largest is at the label given."""
    soft = np.full((len(labels), clusters), 1 / clusters, np.float32)
    soft[np.arange(len(labels)), labels] += np.float32(1e-4)
    return np.asarray(soft / soft.sum(1, keepdims=True), np.float32)


def kmeans(
    space: np.ndarray,
    clusters: int,
    seed: int,
    already: int = 0,
    learnt: np.ndarray | None = None,
    state: Checkpoint | None = None,
) -> Work[np.ndarray]:
    """Return the centres of the best of ten k-means runs; may be stopped and resumed between them.

    Learnt centres are the only start: from elsewhere k-means would forget what was learnt.
    One thread: scikit-learn adds up the threads' shares in the order they finish, and equal labels matter more here.
    """
    values: Mapping[str, Any] = state.values if state else {}
    begin, inertia = int(values.get("starts", 0)), float(values.get("inertia", np.inf))
    best = state.arrays["centres"] if state and begin else None
    for start in range(begin, STARTS):
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct vectors than clusters: told in a note
            init = "k-means++" if learnt is None else learnt
            model = KMeans(clusters, init=init, n_init=1, random_state=seed * 1_000 + start).fit(space)
        if model.inertia_ < inertia:
            best, inertia = model.cluster_centers_, float(model.inertia_)
        assert best is not None
        yield Checkpoint(CLUSTER, {"centres": best}, {"starts": start + 1, "inertia": inertia})
        yield Progress(CLUSTER, start + 1 + already, STARTS + already)
        if learnt is not None:
            yield Progress(CLUSTER, STARTS + already, STARTS + already)
            break
    assert best is not None
    return np.asarray(best, np.float32)
