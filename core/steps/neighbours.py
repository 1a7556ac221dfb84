"""Which texts of a corpus say nearly the same: nearest by meaning and by words together."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

from core.clustering import normalised
from core.events import Progress
from core.work import Work

_LEXICAL_WEIGHT = 0.6  # measured on StackOverflow and Tweet: the share of like neighbours is highest near it
_LEXICAL_COLUMNS = 150
NEAR = 10  # how many near texts smooth a vector
_CELL = 20_000
_BLOCK = 1_000


def near_rows(space: np.ndarray, count: int, seed: int, stage: str = "") -> Work[np.ndarray]:
    """Return the ``count`` nearest other rows of every row of unit vectors.

    Above twenty thousand rows only those in the same coarse cell are compared.
    """
    count = min(count, len(space) - 1)
    near, done = np.empty((len(space), count), np.int64), 0
    for cell in _cells(space, seed):
        reach = min(count, len(cell) - 1)
        for start in range(0, len(cell), _BLOCK):
            rows = cell[start : start + _BLOCK]
            alike = space[rows] @ space[cell].T
            alike[np.arange(len(rows)), np.arange(start, start + len(rows))] = -2
            best = np.argpartition(-alike, max(reach - 1, 0), axis=1)[:, : max(reach, 1)]
            order = np.argsort(-np.take_along_axis(alike, best, 1), axis=1, kind="stable")
            found = cell[np.take_along_axis(best, order, 1)]
            near[rows] = np.resize(found.T, (count, len(rows))).T if found.shape[1] < count else found
            done += len(rows)
            yield Progress(stage, done, len(space)) if stage else None
    return near


def joined_views(vectors: np.ndarray, texts: Sequence[str], seed: int) -> np.ndarray:
    """Return meaning and words side by side, each of length one, the words at six tenths.

    Vectors of meaning know that two wordings mean the same, words know that two texts are about the same thing: each
    corrects the other.
    """
    meaning = normalised(vectors)
    counted = TfidfVectorizer(sublinear_tf=True, min_df=min(2, len(texts)), dtype=np.float32)
    try:
        words = counted.fit_transform(texts)
    except ValueError:  # no word occurs twice
        return meaning
    columns = min(_LEXICAL_COLUMNS, words.shape[1] - 1, words.shape[0] - 1)
    if columns < 2:
        return meaning
    with threadpool_limits(1):
        lexical = TruncatedSVD(columns, random_state=seed).fit_transform(words)
    return normalised(np.hstack([meaning, _LEXICAL_WEIGHT * normalised(lexical)]))


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


def _cells(space: np.ndarray, seed: int) -> list[np.ndarray]:
    if len(space) <= _CELL:
        return [np.arange(len(space))]
    with threadpool_limits(1):
        cells = MiniBatchKMeans(-(-len(space) // (_CELL // 2)), random_state=seed, n_init=1).fit_predict(space)
    return [rows for cell in np.unique(cells) if len(rows := np.flatnonzero(cells == cell))]
