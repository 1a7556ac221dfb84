"""The result of a method: who belongs where, how surely, and how new rows would be placed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from core.encoder.vectors import nearest, squared_distances

_SHARPNESS = 10.0
_NEIGHBOURS = 15


@dataclass(frozen=True)
class ClusterTopic:
    """One topic that a method has found in a cluster: its share of the cluster, and its words with their weights."""

    cluster: int
    weight: float
    words: tuple[str, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Clustering:
    """Labels with the soft assignment they follow from: ``labels == soft.argmax(1)`` wherever labels are not -1.

    ``vectors`` are what was partitioned (normalised if so asked). ``centres`` are in their space; a partition
    found elsewhere (after UMAP) has none and places new rows by their neighbours. ``beside`` holds what else a method
    found, such as the soft assignment of a head of its own, ``before`` the encoder's vectors before it was trained, and
    ``topics`` those that the method itself has found, any number for each cluster.
    """

    vectors: np.ndarray
    soft: np.ndarray
    labels: np.ndarray
    centres: np.ndarray | None = None
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)
    before: np.ndarray | None = None
    topics: tuple[ClusterTopic, ...] = ()

    @classmethod
    def from_soft(cls, vectors: np.ndarray, soft: np.ndarray, centres: np.ndarray | None = None) -> "Clustering":
        """Order clusters by size, largest first, and read the labels off the soft assignment."""
        sizes = np.bincount(soft.argmax(1), minlength=soft.shape[1])
        order = np.argsort(-sizes, kind="stable")
        soft = np.ascontiguousarray(soft[:, order], dtype=np.float32)
        centres = None if centres is None else np.ascontiguousarray(centres[order], dtype=np.float32)
        return cls(np.asarray(vectors, np.float32), soft, soft.argmax(1).astype(np.int32), centres)

    def with_beside(self, name: str, soft: np.ndarray) -> "Clustering":
        """Keep another soft assignment, its columns in the order of the clusters here that they overlap most."""
        number = matched_numbers(self.labels, soft.argmax(1), soft.shape[1])
        return replace(self, beside={**self.beside, name: np.ascontiguousarray(soft[:, np.argsort(number)])})

    @property
    def probability(self) -> np.ndarray:
        """How surely each row belongs to its cluster."""
        return self.soft.max(1)

    @property
    def outlier(self) -> np.ndarray:
        """Rows that belong to no cluster."""
        return self.labels < 0

    @property
    def sizes(self) -> np.ndarray:
        """How many rows each cluster has."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.soft.shape[1])

    def assign(self, vectors: np.ndarray) -> np.ndarray:
        """Return the soft assignment of new rows, given their vectors in the same space."""
        if self.centres is not None:
            return soft_assignment(vectors, self.centres)
        near, _ = nearest(vectors, self.vectors, min(_NEIGHBOURS, len(self.vectors)))
        return np.asarray(self.soft[near].mean(1), dtype=np.float32)


def soft_assignment(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Turn distances to centres into probabilities that a person can read.

    p_k is proportional to d_k^(-20), fuzzy c-means with m = 1.1. It has no scale: noise, whose distances are all
    alike, gets 1/K each, and a point much nearer to one centre gets nearly 1, in two dimensions as in four hundred
    (a raw Student-t says 0.07 for a sure thing among twenty clusters). The largest is always the nearest centre.
    """
    logits = -_SHARPNESS * np.log(np.maximum(squared_distances(vectors, centres), 1e-12))
    logits -= logits.max(1, keepdims=True)
    weights = np.exp(logits)
    return np.asarray(weights / weights.sum(1, keepdims=True), dtype=np.float32)


def cluster_means(vectors: np.ndarray, labels: np.ndarray, clusters: int) -> np.ndarray:
    """Return the mean vector of every cluster; an empty one gets the mean of all."""
    places = [np.flatnonzero(labels == cluster) for cluster in range(clusters)]
    return np.stack([vectors[rows].mean(0) if len(rows) else vectors.mean(0) for rows in places])


def renumbered(labels: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return labels with the numbers of other clusters; a row in no cluster stays in none."""
    return np.where(labels >= 0, number[labels], labels)


def matched_numbers(old: np.ndarray, new: np.ndarray, clusters: int) -> np.ndarray:
    """Return, for each cluster of a new labelling, the number of the old one it overlaps most, one to one."""
    from scipy.optimize import linear_sum_assignment

    overlap = np.zeros((clusters, clusters), np.int64)
    inside = (new >= 0) & (old >= 0)
    np.add.at(overlap, (new[inside], old[inside]), 1)
    return np.asarray(linear_sum_assignment(-overlap)[1])
