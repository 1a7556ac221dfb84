"""The corpus as a bag of words, counted once per run: neighbours, partitions and topic words all read it."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfTransformer
from threadpoolctl import threadpool_limits

from core.encoder.vectors import normalised
from core.work import T, Work

WORD = re.compile(r"\w+")
_LEXICAL_COLUMNS = 150
_TOPIC_VOCABULARY = 50_000
_AT_ONCE = 5_000  # texts counted between two moments at which a person may stop
_LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "sv", "da", "no", "fi", "pl", "cs", "ru", "tr")
_CONTRACTIONS = frozenset(  # with the pieces they fall into at the apostrophe, and as hasty fingers write them
    "m ve d ll s t re don doesn didn isn aren wasn weren haven hasn hadn couldn wouldn shouldn won let "
    "got like did does doing im ive id dont doesnt didnt cant wont isnt wasnt thats youre".split()
)


@dataclass(frozen=True)
class Words:
    """Which word occurs how often in which text. Stop words are a mask, so that counting need not know them."""

    vocabulary: np.ndarray  # of words, in the order of the alphabet
    counts: sparse.csr_matrix  # texts by words
    stop: np.ndarray  # whether each word is a stop word of the corpus's languages
    _views: dict[int, np.ndarray | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Words":
        """Count at once."""
        return finished(count_words(texts))

    def lexical(self, seed: int) -> np.ndarray | None:
        """Return the lexical view: TF-IDF of words that occur in two texts or more, by SVD to 150 unit columns.

        None where the texts share too few words for one.
        """
        if seed not in self._views:
            self._views[seed] = self._lexical(seed)
        return self._views[seed]

    def _lexical(self, seed: int) -> np.ndarray | None:
        texts = self.counts.shape[0]
        shared = np.diff(self.counts.tocsc().indptr) >= min(2, texts)
        counts = self.counts[:, shared & (np.char.str_len(self.vocabulary) > 1)] if len(self.vocabulary) else None
        columns = 0 if counts is None else min(_LEXICAL_COLUMNS, counts.shape[1] - 1, texts - 1)
        if counts is None or columns < 2:
            return None
        weighted = TfidfTransformer(sublinear_tf=True).fit_transform(counts.astype(np.float32))
        with threadpool_limits(1):
            return normalised(TruncatedSVD(columns, random_state=seed).fit_transform(weighted))

    def ranked(self, labels: np.ndarray, clusters: int, most: int = 30) -> list[list[tuple[str, float]]]:
        """Return the words that set each cluster apart by c-TF-IDF, the strongest first; no stop words, no numbers."""
        inside = np.flatnonzero(labels >= 0)
        counts, words = self._nameable()
        member = sparse.csr_matrix((np.ones(len(inside)), (labels[inside], inside)), shape=(clusters, len(labels)))
        scores = class_tfidf(member @ counts)
        scores.sort_indices()  # of equal scores the first in the alphabet
        found = []
        for begin, end in zip(scores.indptr[:-1], scores.indptr[1:], strict=True):
            best = begin + np.argsort(-scores.data[begin:end], kind="stable")[:most]
            found.append([(str(words[scores.indices[at]]), float(scores.data[at])) for at in best])
        return found

    def _nameable(self) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Return the counts of words that may name a cluster, the most frequent ones if they are very many."""
        begins = np.array([word[:1].isalpha() for word in self.vocabulary], bool)
        chosen = np.flatnonzero(begins & ~self.stop)
        if len(chosen) > _TOPIC_VOCABULARY:
            total = np.asarray(self.counts[:, chosen].sum(0)).ravel()
            chosen = np.sort(chosen[np.argsort(-total, kind="stable")[:_TOPIC_VOCABULARY]])
        return self.counts[:, chosen], self.vocabulary[chosen]


def count_words(texts: Sequence[str]) -> Work[Words]:
    """Count the words of all texts; may be stopped between pieces of the corpus."""
    place: dict[str, int] = {}
    columns, offsets, numbers = [], [0], []
    for start in range(0, len(texts), _AT_ONCE):
        for text in texts[start : start + _AT_ONCE]:
            counted = Counter(WORD.findall(text.lower()))
            columns.append(np.fromiter((place.setdefault(word, len(place)) for word in counted), np.int64))
            numbers.append(np.fromiter(counted.values(), np.int32))
            offsets.append(offsets[-1] + len(counted))
        yield None
    vocabulary = np.array(list(place), dtype=str) if place else np.empty(0, dtype="<U1")
    order = np.argsort(vocabulary, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    indices = rank[np.concatenate(columns)] if columns else np.empty(0, np.int64)
    data = np.concatenate(numbers) if numbers else np.empty(0, np.int32)
    counts = sparse.csr_matrix((data, indices, np.array(offsets)), shape=(len(texts), len(order)))
    counts.sort_indices()
    vocabulary = vocabulary[order]
    return Words(vocabulary, counts, np.isin(vocabulary, sorted(stop_words(texts))))


def finished(work: Work[T]) -> T:
    """Do work at once, passing over what it tells."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


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
        words = set(WORD.findall(text.lower()))
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
