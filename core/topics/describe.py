"""What a cluster is about: its topic words by c-TF-IDF, its typical texts, its name."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from core.clusters.clustering import Clustering
from core.encoder.vectors import normalised

TOPIC_WORDS = 10  # shown; more are kept, so that some remain when a person strikes words
_KEPT_WORDS = 30
TYPICAL_TEXTS = 5
WORD = r"(?u)[^\W\d_](?:[\w'’]*\w)?"
_VOCABULARY = 50_000
_LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "sv", "da", "no", "fi", "pl", "cs", "ru", "tr")
_CONTRACTIONS = frozenset(
    "i'm i've i'd i'll it's that's don't doesn't didn't can't won't isn't aren't wasn't weren't haven't hasn't hadn't "
    "couldn't wouldn't shouldn't you're you've you'll we're we've we'll they're they've there's what's let's "
    "he's she's got like did does doing im ive id dont doesnt didnt cant wont isnt wasnt thats youre s t m re".split()
)


@dataclass(frozen=True)
class Topic:
    """One cluster in words. ``typical`` holds positions among the used rows, the most central first."""

    name: str
    size: int
    words: tuple[str, ...]
    weights: tuple[float, ...]
    typical: tuple[int, ...]


def describe(texts: Sequence[str], clustering: Clustering) -> list[Topic]:
    """Describe every cluster, in the order of its label."""
    words = topic_words(texts, clustering.labels, len(clustering.sizes))
    names = unique_topic_names([[word for word, _ in pairs] for pairs in words])
    return [
        Topic(
            names[label],
            int(size),
            tuple(word for word, _ in words[label]),
            tuple(round(weight, 6) for _, weight in words[label]),
            tuple(typical_rows(texts, clustering, label)),
        )
        for label, size in enumerate(clustering.sizes)
    ]


def topic_words(texts: Sequence[str], labels: np.ndarray, clusters: int) -> list[list[tuple[str, float]]]:
    """Rank each cluster's words by c-TF-IDF."""
    return Wording.of(texts).ranked(labels, clusters)


@dataclass(frozen=True)
class Wording:
    """The words of a corpus, counted once; any division of it into clusters can then be put into words at once."""

    counts: sparse.csr_matrix
    words: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Wording":
        """Count the words of every text but for stop words."""
        try:
            counter = CountVectorizer(
                token_pattern=WORD, stop_words=sorted(stop_words(texts)), max_features=_VOCABULARY
            )
            counts = counter.fit_transform(texts)
        except ValueError:  # nothing but stop words
            return cls(sparse.csr_matrix((len(texts), 0)), np.empty(0, str))
        return cls(counts, counter.get_feature_names_out())

    def ranked(self, labels: np.ndarray, clusters: int) -> list[list[tuple[str, float]]]:
        """Return the words that set each cluster apart, the strongest first; plain counts would name the same often."""
        inside = np.flatnonzero(labels >= 0)
        shape = clusters, len(labels)
        scores = class_tfidf(
            sparse.csr_matrix((np.ones(len(inside)), (labels[inside], inside)), shape=shape) @ self.counts
        )
        scores.sort_indices()  # of equal scores the first in the alphabet
        found = []
        for begin, end in zip(scores.indptr[:-1], scores.indptr[1:], strict=True):
            weights = scores.data[begin:end]
            best = begin + np.argsort(-weights, kind="stable")[:_KEPT_WORDS]
            found.append([(str(self.words[scores.indices[at]]), float(scores.data[at])) for at in best])
        return found


def class_tfidf(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Weigh a (clusters, words) table of counts as BERTopic does, without the room that its zeros would take.

    The share of a word in its cluster, times log(1 + mean words per cluster / times it occurs in all).
    """
    counts = sparse.csr_matrix(counts, dtype=np.float64)
    per_cluster = np.asarray(counts.sum(1)).ravel()
    rarity = np.log1p(per_cluster.mean() / np.maximum(np.asarray(counts.sum(0)).ravel(), 1))
    return sparse.csr_matrix(sparse.diags(1 / np.maximum(per_cluster, 1)) @ counts @ sparse.diags(rarity))


def stop_words(texts: Sequence[str]) -> set[str]:
    """Choose stop words by what the corpus is written in: its main language, and others that some texts are in.

    A foreign stop word counts only where it is used more in its own language: «die» is an article in German
    complaints and a verb in English ones.
    """
    import stopwordsiso

    lists = {language: set(stopwordsiso.stopwords(language)) for language in _LANGUAGES}
    lists["en"] = set(ENGLISH_STOP_WORDS) | _CONTRACTIONS
    usage: dict[str, Counter[str]] = {language: Counter() for language in _LANGUAGES}
    votes: Counter[str] = Counter()
    for text in texts[:: max(1, len(texts) // 3_000)]:
        words = set(re.findall(WORD, text.lower()))
        hits = {language: len(words & known) for language, known in lists.items()}
        spoken = max(_LANGUAGES, key=hits.__getitem__)
        if hits[spoken] >= 2:
            votes[spoken] += 1
            usage[spoken].update(words)
    main = votes.most_common(1)[0][0] if votes else "en"
    chosen = set(lists[main])
    for language, count in votes.items():
        if language != main and count >= 0.002 * votes.total():
            chosen |= {word for word in lists[language] if usage[language][word] > usage[main][word]}
    return chosen


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
