"""Average linkage: groups as uneven as they are, where k-means would cut the large ones into even pieces."""

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from core.clusters.clustering import cluster_means


def linked_centres(space: np.ndarray, clusters: int, seed: int, most: int) -> np.ndarray:
    """Link at most so many rows, drawn by the seed, by average distance; return the means of the groups found."""
    rows = np.random.default_rng(seed).permutation(len(space))[: max(most, clusters)]
    sample = space[np.sort(rows)]
    return cluster_means(sample, AgglomerativeClustering(clusters, linkage="average").fit_predict(sample), clusters)
