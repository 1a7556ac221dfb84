"""How good a clustering is: against true labels where there are some, and by its own shape always."""

from collections.abc import Iterable

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_rand_score,
    average_precision_score,
    normalized_mutual_info_score,
    silhouette_score,
)
from sklearn.metrics.cluster import contingency_matrix

from core.encoder.vectors import squared_distances

SILHOUETTE_SAMPLE = 5_000
_BLOCK = 1_000
_CUT = 10


def external_metrics(truth: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Compare with true labels; rows whose true label is blank or that are in no cluster are left aside."""
    known = (truth != "") & (labels >= 0)
    truth, labels = truth[known].astype(str), labels[known]
    if not len(truth):
        return {}
    return {
        "acc": accuracy(truth, labels),
        "nmi": _nmi(truth, labels, "arithmetic"),
        "nmi_geometric": _nmi(truth, labels, "geometric"),
        "ari": float(adjusted_rand_score(truth, labels)),
        "purity": purity(truth, labels),
    }


def accuracy(truth: np.ndarray, labels: np.ndarray) -> float:
    """Share of rows right under the best one-to-one matching (Hungarian); unmatched clusters count as wrong."""
    table = contingency_matrix(truth, labels)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / table.sum())


def purity(truth: np.ndarray, labels: np.ndarray) -> float:
    """Share of rows that have their cluster's most common label; grows with the number of clusters."""
    table = contingency_matrix(truth, labels)
    return float(table.max(0).sum() / table.sum())


def _nmi(truth: np.ndarray, labels: np.ndarray, mean: str) -> float:
    """Normalised mutual information; with one constant side it is 0, with two 1, whichever the mean."""
    constant = (len(np.unique(truth)) == 1, len(np.unique(labels)) == 1)
    if any(constant):
        return float(all(constant))
    return float(normalized_mutual_info_score(truth, labels, average_method=mean))


def silhouette(vectors: np.ndarray, labels: np.ndarray, seed: int) -> tuple[float | None, int]:
    """Mean silhouette (Euclidean) of a random sample, with the sample's size; None where it has no meaning."""
    rows = np.flatnonzero(labels >= 0)
    if len(rows) > SILHOUETTE_SAMPLE:
        rows = np.sort(np.random.default_rng(seed).choice(rows, SILHOUETTE_SAMPLE, replace=False))
    found = len(np.unique(labels[rows]))
    if not 2 <= found < len(rows):
        return None, len(rows)
    return float(silhouette_score(np.asarray(vectors[rows]), labels[rows])), len(rows)


def dunn(vectors: np.ndarray, labels: np.ndarray) -> float | None:
    """Smallest distance between two clusters over the largest within one: exact, in blocks; None where undefined.

    One outlier decides it, and one text that lies in two clusters makes it 0: for papers' tables, not for choosing.
    """
    if len(np.unique(labels)) < 2:
        return None
    apart, wide = np.inf, 0.0
    for start in range(0, len(vectors), _BLOCK):
        squared = squared_distances(vectors[start : start + _BLOCK], vectors)
        squared[np.arange(len(squared)), np.arange(start, start + len(squared))] = 0.0  # not what rounding leaves
        same = labels[start : start + _BLOCK, None] == labels[None]
        apart = min(apart, float(squared[~same].min(initial=np.inf)))
        wide = max(wide, float(squared[same].max(initial=0.0)))
    nothing = 1e-12 * float(np.square(vectors, dtype=np.float64).sum(1).max(initial=0.0))
    return float(np.sqrt(apart / wide)) if wide > nothing else None


def retrieval(lists: Iterable[tuple[np.ndarray, np.ndarray]]) -> dict[str, float | int]:
    """Mean average precision and mean reciprocal rank (of the first ten) over queries' candidate lists.

    Each list holds the candidates' similarities to the query and whether they are relevant; a query without any
    relevant candidate says nothing and is left out.
    """
    precisions, ranks = [], []
    for alike, relevant in lists:
        if not relevant.any():
            continue
        precisions.append(float(average_precision_score(relevant, alike)))
        # Behind everything that is as similar: where a file lists candidates must not make a rank better.
        first = int((alike[~relevant] >= alike[relevant].max()).sum())
        ranks.append(1 / (first + 1) if first < _CUT else 0.0)
    if not precisions:
        return {"queries": 0}
    return {"map": float(np.mean(precisions)), "mrr": float(np.mean(ranks)), "queries": len(precisions)}
