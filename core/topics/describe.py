"""What a cluster is about: its topic words by c-TF-IDF, its typical texts, its name."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.clusters.clustering import Clustering
from core.encoder.vectors import normalised
from core.topics.words import Words

TOPIC_WORDS = 10  # shown; more are kept, so that some remain when a person strikes words
TYPICAL_TEXTS = 5


@dataclass(frozen=True)
class Topic:
    """One cluster in words. ``typical`` holds positions among the used rows, the most central first."""

    name: str
    size: int
    words: tuple[str, ...]
    weights: tuple[float, ...]
    typical: tuple[int, ...]


def describe(texts: Sequence[str], words: Words, clustering: Clustering) -> list[Topic]:
    """Describe every cluster, in the order of its label."""
    ranked = words.ranked(clustering.labels, len(clustering.sizes))
    names = unique_topic_names([[word for word, _ in pairs] for pairs in ranked])
    return [
        Topic(
            names[label],
            int(size),
            tuple(word for word, _ in ranked[label]),
            tuple(round(weight, 6) for _, weight in ranked[label]),
            tuple(typical_rows(texts, clustering, label)),
        )
        for label, size in enumerate(clustering.sizes)
    ]


def typical_rows(texts: Sequence[str], clustering: Clustering, label: int) -> list[int]:
    """Return the rows nearest to the middle of their cluster, each text once."""
    rows = np.flatnonzero(clustering.labels == label)
    if not len(rows):
        return []
    vectors = normalised(np.asarray(clustering.vectors[rows]))
    ranked = rows[np.argsort(-(vectors @ vectors.mean(0)), kind="stable")]
    seen: set[str] = set()
    chosen = []
    for row in ranked:
        text = " ".join(texts[row].casefold().split())
        if text not in seen:
            seen.add(text)
            chosen.append(int(row))
        if len(chosen) == TYPICAL_TEXTS:
            break
    return chosen


def unique_topic_names(words: list[list[str]]) -> list[str]:
    """Name clusters by their first three words; equal names get the cluster's number."""
    names = [", ".join(row[:3]) or f"cluster {label}" for label, row in enumerate(words)]
    repeated = {name for name, count in Counter(names).items() if count > 1}
    return [f"{name} ({label})" if name in repeated else name for label, name in enumerate(names)]
