"""Which texts of a corpus say nearly the same: nearest by meaning and by words together."""

import numpy as np
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from core.encoder.vectors import nearest, normalised
from core.events import Progress
from core.work import Work

_LEXICAL_WEIGHT = 0.6  # measured on StackOverflow and Tweet: the share of like neighbours is highest near it
NEAR = 10  # how many near texts smooth a vector
_ALL = 20_000  # up to so many rows all are compared
_CELL, _CELLS = 2_000, 8  # above that, those of the nearest cells
_BLOCK = 1_000
Search = tuple[np.ndarray, np.ndarray]  # rows whose neighbours are sought, and among which


def near_rows(space: np.ndarray, count: int, seed: int, stage: str = "") -> Work[np.ndarray]:
    """Return the ``count`` nearest other rows of every row of unit vectors, the nearest first.

    Above twenty thousand rows each is compared with those of the eight cells nearest to it. Cells overlap so: to look
    within one cell only would cut the corpus into islands, and smoothing over them would find the cells again.
    """
    count = min(count, len(space) - 1)
    near = np.repeat(np.arange(len(space))[:, None], count, axis=1)
    if not count:
        return near
    closeness, searches = np.full((len(space), count), -np.inf, np.float32), _searches(space, seed)
    done, total = 0, sum(len(sought) for sought, _ in searches)
    for sought, among in searches:
        for start in range(0, len(sought), _BLOCK):
            rows = sought[start : start + _BLOCK]
            found, alike = _nearest_of(space, rows, among, count)
            found, alike = np.hstack([near[rows], found]), np.hstack([closeness[rows], alike])
            order = np.argsort(-alike, axis=1, kind="stable")[:, :count]
            near[rows], closeness[rows] = (np.take_along_axis(both, order, 1) for both in (found, alike))
            done += len(rows)
            yield Progress(stage, done * len(space) // total, len(space)) if stage else None
    return np.where(np.isinf(closeness), near[:, :1], near)  # of a row with few rows near, its nearest again


def _nearest_of(space: np.ndarray, rows: np.ndarray, among: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest of some rows among others in their order, and how alike they are; never a row itself."""
    alike = space[rows] @ space[among].T
    own = np.minimum(np.searchsorted(among, rows), len(among) - 1)
    there = among[own] == rows
    alike[there, own[there]] = -np.inf
    best = np.argpartition(-alike, min(count, len(among)) - 1, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(alike, best, 1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, 1)
    return among[best], np.take_along_axis(alike, best, 1)


def _searches(space: np.ndarray, seed: int) -> list[Search]:
    """Say who is compared with whom: all with all, or the rows of a cell with all rows to which it is near."""
    everyone = np.arange(len(space))
    if len(space) <= _ALL:
        return [(everyone, everyone)]
    with threadpool_limits(1):
        cells = MiniBatchKMeans(-(-len(space) // _CELL), random_state=seed, n_init=1).fit(space)
    reached, _ = nearest(space, cells.cluster_centers_, min(_CELLS, cells.n_clusters))
    own = [np.flatnonzero(reached[:, 0] == cell) for cell in range(cells.n_clusters)]
    return [(np.flatnonzero((reached == cell).any(1)), rows) for cell, rows in enumerate(own) if len(rows)]


def joined_views(vectors: np.ndarray, lexical: np.ndarray | None) -> np.ndarray:
    """Return meaning and words side by side, each of length one, the words at six tenths.

    Vectors of meaning know that two wordings mean the same, words know that two texts are about the same thing: each
    corrects the other. Without a lexical view there is meaning alone.
    """
    meaning = normalised(vectors)
    return meaning if lexical is None else normalised(np.hstack([meaning, _LEXICAL_WEIGHT * lexical]))


def reach(rows: int, clusters: int, most: int = NEAR) -> int:
    """Say how many near texts are surely of the same cluster: no more than half of an even one.

    Ten of eleven texts are all the others, and to smooth over them would make every text the same.
    """
    return min(most, rows // (2 * clusters))


def smoothed(space: np.ndarray, near: np.ndarray, clusters: int, hops: int = 2) -> np.ndarray:
    """Move every row to the mean of itself and its neighbours, some times over: groups become dense, noise goes.

    Neighbourhood counts in both directions, the nearest come first in ``near``, and as many count as a cluster can
    have. It does for k-means what UMAP does, in a second instead of a minute.
    """
    near = near[:, : reach(len(space), clusters)]
    rows, count = near.shape
    if not count:
        return space
    links = sparse.csr_matrix((np.ones(near.size, np.float32), (np.repeat(np.arange(rows), count), near.ravel())))
    links.resize(rows, rows)
    links = links.maximum(links.T) + sparse.eye(rows, dtype=np.float32)
    links = sparse.diags(1 / np.asarray(links.sum(1)).ravel()) @ links
    for _ in range(hops):
        space = normalised(links @ space)
    return space
