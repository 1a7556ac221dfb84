"""Words, topic words, typical texts and names."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from core.clusters.clustering import Clustering
from core.encoder.vectors import normalised
from core.topics.describe import describe, typical_rows, unique_topic_names
from core.topics.words import Words, class_tfidf, stop_words


def test_class_tfidf_by_hand() -> None:
    counts = np.array([[3.0, 1.0], [0.0, 4.0]])
    # Four words a cluster on average; word totals 3 and 5.
    expected = [[0.75 * np.log(1 + 4 / 3), 0.25 * np.log(1 + 4 / 5)], [0, 1.0 * np.log(1 + 4 / 5)]]
    np.testing.assert_allclose(class_tfidf(sparse.csr_matrix(counts)).toarray(), expected)


def test_topic_words_set_clusters_apart() -> None:
    texts = ["the refund for my order", "refund of the order please", "the app crashes", "app order crashes again 42"]
    words = Words.of(texts).ranked(np.array([0, 0, 1, 1]), 2)
    assert words[0][0][0] == "refund" and {word for word, _ in words[1][:2]} == {"app", "crashes"}
    assert all(weight > 0 and not word.isdigit() for row in words for word, weight in row)
    assert Words.of(["the", "and"]).ranked(np.array([0, 1]), 2) == [[], []]


def test_words_counted_once_describe_any_division() -> None:
    words = Words.of(["red apple", "green apple", "fast car", "slow car"])
    assert [word for word, _ in words.ranked(np.array([0, 0, 1, 1]), 3)[0]] == ["apple", "green", "red"]
    assert words.ranked(np.array([1, 0, -1, 1]), 3)[2] == [], "a cluster without a text has no words"
    assert [word for word, _ in words.ranked(np.array([-1, 0, -1, -1]), 1)[0]] == ["apple", "green"]


def test_counts_and_lexical_view_agree_with_scikit_learn() -> None:
    texts = ["Ein Baum, ein Haus", "a tree and a house", "trees don't grow", "", "house house TREE 12"] * 3
    words = Words.of(texts)
    theirs = CountVectorizer(token_pattern=r"(?u)\w+").fit(texts)
    np.testing.assert_array_equal(words.vocabulary, theirs.get_feature_names_out())
    np.testing.assert_array_equal(words.counts.toarray(), theirs.transform(texts).toarray())
    weighted = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
    lexical = words.lexical(0)
    assert lexical is not None and lexical is words.lexical(0), "made once"
    # All but one direction is kept here, so likenesses are nearly those of the whole.
    alike = normalised(weighted.toarray()) @ normalised(weighted.toarray()).T
    np.testing.assert_allclose(lexical @ lexical.T, alike, atol=0.06)


@pytest.mark.parametrize("texts", [[], [""], ["one"], ["one", "two"], ["...", "!!"]])
def test_texts_that_share_no_words_have_no_lexical_view(texts: list[str]) -> None:
    words = Words.of(texts)
    assert words.lexical(0) is None and words.counts.shape[0] == len(texts)
    assert words.ranked(np.zeros(len(texts), int), 1) == [words.ranked(np.zeros(len(texts), int), 1)[0]]


def test_stop_words_follow_the_language() -> None:
    german = ["Die Lieferung ist nicht gekommen und ich warte auf das Paket"] * 30
    english = ["They die of laughter when the parcel is not here and we wait"] * 70
    assert "die" in stop_words(german) and "und" in stop_words(german)
    assert "die" not in stop_words(english) and "the" in stop_words(english)
    mixed = stop_words(german + english)
    assert {"und", "the", "nicht"} <= mixed


def test_typical_rows_are_central_and_distinct() -> None:
    vectors = np.array([[1, 0], [1, 0.1], [1, 0.1], [0, 1]], np.float32)
    clustering = Clustering.from_soft(vectors, np.array([[1, 0], [1, 0], [1, 0], [0.4, 0.6]], np.float32))
    rows = typical_rows(["far", "middle", "Middle ", "other"], clustering, 0)
    assert rows == [1, 0]
    texts = ["far", "middle", "Middle ", "other"]
    topics = describe(texts, Words.of(texts), clustering)
    assert [topic.size for topic in topics] == [3, 1]


def test_names_are_unique() -> None:
    assert unique_topic_names([["a", "b"], ["a", "b"], []]) == ["a, b (0)", "a, b (1)", "cluster 2"]
