"""The shared steps: partition, projection, description, evaluation."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score

from core.bench import Bench
from core.clusters.clustering import Clustering
from core.clusters.evaluate import accuracy, dunn, external_metrics, purity, retrieval, silhouette
from core.clusters.neighbours import joined_views, near_rows, smoothed
from core.clusters.partition import PARTITIONS, kmeans, partition
from core.clusters.start import find_start
from core.encoder.vectors import normalised
from core.events import Checkpoint, Note
from core.maps.project import principal_components, project
from core.maps.projector import Projector
from core.methods.embed import Embed
from core.topics.describe import (
    Wording,
    class_tfidf,
    describe,
    stop_words,
    topic_words,
    typical_rows,
    unique_topic_names,
)
from tests.conftest import drained


def blobs(clusters: int = 4, each: int = 30, dims: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Return well separated groups with their labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(clusters), each)
    return (8 * rng.normal(size=(clusters, dims))[labels] + rng.normal(size=(len(labels), dims))).astype(
        np.float32
    ), labels


@pytest.mark.parametrize("how", PARTITIONS)
@pytest.mark.parametrize("normalise", [True, False])
def test_partition_finds_blobs_again_and_again(how: str, normalise: bool, projector: Projector) -> None:
    vectors, truth = blobs()
    results = [
        drained(partition(vectors, 4, how, normalise=normalise, seed=1, projector=projector))[0] for _ in range(2)
    ]
    assert accuracy(truth.astype(str), results[0].labels) > 0.97
    np.testing.assert_array_equal(results[0].labels, results[1].labels)
    assert (results[0].labels == results[0].soft.argmax(1)).all()
    assert results[0].probability.mean() > 0.9
    assert (results[0].assign(results[0].vectors).argmax(1) == results[0].labels).mean() > 0.97


def test_smoothing_starts_from_what_was_learnt_and_fills_thin_ground(projector: Projector) -> None:
    vectors, truth = blobs()
    texts = [f"group{label} text{row}" for row, label in enumerate(truth)]
    learnt = np.stack([vectors[truth == cluster].mean(0) for cluster in (2, 0, 3, 1)])
    options = {"normalise": True, "seed": 1, "projector": projector, "texts": texts}
    found, _ = drained(partition(vectors, 4, "smooth+kmeans", start=learnt, **options))  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.labels, np.array([1, 3, 0, 2])[truth])
    rows = np.arange(len(vectors))
    space, near = normalised(vectors), np.stack([(rows + 1) % len(rows), (rows * 7 + 3) % len(rows)], 1)
    near[near == rows[:, None]] = 5
    links = np.eye(len(vectors))
    for row in range(len(vectors)):
        links[row, near[row]] = links[near[row], row] = 1
    naive = links / links.sum(1, keepdims=True) @ space
    np.testing.assert_allclose(smoothed(space, near, 4, hops=1), normalised(naive), atol=1e-5)


def test_uneven_groups_are_linked_and_even_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    sizes = [900] + [6] * 11
    truth = np.repeat(np.arange(12), sizes)
    vectors = (3 * np.eye(12)[truth] + 0.5 * rng.normal(size=(len(truth), 12))).astype(np.float32)
    texts = [f"word{label} text{row}" for row, label in enumerate(truth)]
    for rows, linked in ((np.arange(len(truth)), True), (np.flatnonzero(truth > 0), False)):
        space = joined_views(vectors[rows], [texts[row] for row in rows], 0)
        near, _ = drained(near_rows(space, 5, 0))
        clusters = len(np.unique(truth[rows]))
        found, told = drained(find_start(vectors[rows], [texts[row] for row in rows], clusters, 0, "similar", near))
        assert any("differ much in size" in event.text for event in told if isinstance(event, Note)) is linked
        assert found.uneven is linked and accuracy(truth[rows].astype(str), found.labels) > 0.95


@pytest.mark.parametrize(("width", "starts"), [(14, True), (12, False)])
def test_groups_that_touch_are_never_linked_at_the_end(width: int, starts: bool) -> None:
    """Of noise a linkage may be a little clearer, or much so and be where it starts; it never divides."""
    truth = np.repeat(np.arange(8), [900] + [6] * 7)
    noise = 0.8 * np.random.default_rng(0).normal(size=(len(truth), width))
    vectors = (3 * np.eye(width)[truth] + noise).astype(np.float32)
    found, notes = drained(find_start(vectors, [f"text{row}" for row in range(len(truth))], 8, 0, "similar"))
    assert not found.uneven
    assert any("clearer to start from" in note.text for note in notes if isinstance(note, Note)) is starts


def test_where_groups_are_uneven_smoothing_gives_way_to_linkage(projector: Projector, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(12), [300] + [4] * 11)
    vectors = (3 * np.eye(12)[truth] + 0.5 * rng.normal(size=(len(truth), 12))).astype(np.float32)
    bench = Bench([f"word{label} text" for label in truth], 0, "", "cpu", 256, "float32", tmp_path, projector)
    found = {
        (how, uneven): drained(Embed(12, how).cluster(bench, vectors, {}, uneven=uneven))[0]
        for how in ("smooth+kmeans", "linkage", "kmeans")
        for uneven in (False, True)
    }
    linked = found["linkage", False]
    assert accuracy(truth.astype(str), linked.labels) == 1 and (linked.labels == linked.soft.argmax(1)).all()
    np.testing.assert_array_equal(found["smooth+kmeans", True].labels, linked.labels)
    np.testing.assert_array_equal(found["kmeans", True].labels, found["kmeans", False].labels)
    assert accuracy(truth.astype(str), found["smooth+kmeans", False].labels) < 0.9


def test_kmeans_resumes_to_the_same_centres() -> None:
    vectors, _ = blobs(7)
    whole, told = drained(kmeans(vectors, 7, seed=3))
    states = [event for event in told if isinstance(event, Checkpoint)]
    for state in (states[0], states[4], states[-1]):
        resumed, _ = drained(kmeans(vectors, 7, seed=3, state=state))
        np.testing.assert_array_equal(whole, resumed)


def test_principal_components_agree_with_scikit_learn() -> None:
    vectors, _ = blobs()
    theirs = PCA(3).fit_transform(vectors)
    np.testing.assert_allclose(np.abs(principal_components(vectors, 3)), np.abs(theirs), atol=1e-3)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 20])
@pytest.mark.parametrize("layout", ["umap", "tsne"])
def test_small_tables_have_a_map_too(rows: int, layout: str, projector: Projector) -> None:
    vectors = np.random.default_rng(0).normal(size=(rows, 5)).astype(np.float32)
    points, _ = drained(projector.project(vectors, layout=layout, dims=2, seed=0))
    assert points.shape == (rows, 2) and np.isfinite(points).all()


def test_a_map_is_the_same_tomorrow() -> None:
    vectors, _ = blobs(3, 10)
    for layout in ("umap", "tsne"):
        np.testing.assert_array_equal(project(vectors, layout, 2, 7), project(vectors, layout, 2, 7))


def test_a_projection_does_not_hold_up_its_caller_and_can_be_killed() -> None:
    projector = Projector()
    vectors = np.random.default_rng(0).normal(size=(8_000, 50)).astype(np.float32)
    work = projector.project(vectors, layout="umap", dims=2, seed=0)
    next(work)
    assert projector._child is not None
    pid = projector._child.pid
    work.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    points, _ = drained(projector.project(vectors[:20], layout="tsne", dims=2, seed=0))
    assert points.shape == (20, 2), "the next request starts a new child"
    projector.close()


def test_a_projection_that_fails_says_why(projector: Projector) -> None:
    with pytest.raises(RuntimeError, match="projection failed"):
        drained(projector.project(np.full((20, 3), np.nan, np.float32), layout="umap", dims=2, seed=0))


def test_a_child_ends_with_its_parent() -> None:
    projector = Projector()
    projector.start()
    assert projector._child is not None and projector._child.stdin is not None
    projector._child.stdin.close()
    until = time.monotonic() + 60
    while projector._child.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    assert projector._child.returncode == 0


def test_class_tfidf_by_hand() -> None:
    counts = np.array([[3.0, 1.0], [0.0, 4.0]])
    # Four words a cluster on average; word totals 3 and 5.
    expected = [[0.75 * np.log(1 + 4 / 3), 0.25 * np.log(1 + 4 / 5)], [0, 1.0 * np.log(1 + 4 / 5)]]
    np.testing.assert_allclose(class_tfidf(sparse.csr_matrix(counts)).toarray(), expected)


def test_topic_words_set_clusters_apart() -> None:
    texts = ["the refund for my order", "refund of the order please", "the app crashes", "app order crashes again"]
    words = topic_words(texts, np.array([0, 0, 1, 1]), 2)
    assert words[0][0][0] == "refund" and {word for word, _ in words[1][:2]} == {"app", "crashes"}
    assert all(weight > 0 for row in words for _, weight in row)
    assert topic_words(["the", "and"], np.array([0, 1]), 2) == [[], []]


def test_words_counted_once_describe_any_division() -> None:
    texts = ["red apple", "green apple", "fast car", "slow car"]
    wording = Wording.of(texts)
    for labels in ([0, 0, 1, 1], [1, 0, -1, 1], [2, 2, 2, 2]):
        assert wording.ranked(np.array(labels), 3) == topic_words(texts, np.array(labels), 3)
    assert [word for word, _ in wording.ranked(np.array([0, 0, 1, 1]), 3)[0]] == ["apple", "green", "red"]


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
    topics = describe(["far", "middle", "Middle ", "other"], clustering)
    assert [topic.size for topic in topics] == [3, 1]


def test_names_are_unique() -> None:
    assert unique_topic_names([["a", "b"], ["a", "b"], []]) == ["a, b (0)", "a, b (1)", "cluster 2"]


def test_metrics_by_hand() -> None:
    truth = np.array(["a", "a", "a", "b", "b", "c"], dtype=object)
    labels = np.array([0, 0, 1, 1, 1, 2])
    metrics = external_metrics(truth, labels)
    assert metrics["acc"] == pytest.approx(5 / 6) and metrics["purity"] == pytest.approx(5 / 6)
    assert metrics["nmi"] <= metrics["nmi_geometric"] <= 1


def test_metrics_have_the_properties_they_should() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        truth, labels = rng.integers(0, 5, 60).astype(str).astype(object), rng.integers(0, 7, 60)
        metrics = external_metrics(truth, labels)
        relabelled = external_metrics(truth, rng.permutation(7)[labels])
        assert metrics == pytest.approx(relabelled)
        largest = np.unique(truth, return_counts=True)[1].max() / 60
        assert largest <= metrics["purity"] + 1e-12 and metrics["acc"] <= metrics["purity"] + 1e-12
        assert metrics["nmi"] == pytest.approx(
            external_metrics(labels.astype(str).astype(object), truth.astype(int))["nmi"]
        )
    assert purity(np.arange(9), np.arange(9)) == 1
    assert accuracy(np.array(["a", "b"]), np.array([1, 0])) == 1


def test_constant_partitions_and_blank_truth() -> None:
    truth = np.array(["a", "b", ""], dtype=object)
    assert external_metrics(truth, np.array([0, 0, 0]))["nmi"] == 0
    assert external_metrics(np.array(["a", "a"], dtype=object), np.array([0, 0]))["nmi_geometric"] == 1
    assert external_metrics(truth, np.array([0, 1, 0]))["acc"] == 1
    assert external_metrics(np.array(["", ""], dtype=object), np.array([0, 1])) == {}


def test_silhouette_is_scikit_learns_and_says_its_sample() -> None:
    vectors, labels = blobs()
    assert silhouette(vectors, labels, 0) == (pytest.approx(silhouette_score(vectors, labels)), len(labels))
    assert silhouette(vectors, np.zeros(len(labels), int), 0)[0] is None


def test_dunn_is_the_naive_ratio_and_0_where_a_text_is_in_two_clusters() -> None:
    vectors, labels = blobs(3, 40)
    between, within = [], []
    for i in range(len(vectors)):
        for j in range(i):
            (within if labels[i] == labels[j] else between).append(float(np.linalg.norm(vectors[i] - vectors[j])))
    assert dunn(vectors, labels) == pytest.approx(min(between) / max(within), rel=1e-5)
    vectors[1], labels[1] = vectors[0], 2
    assert dunn(vectors, labels) == pytest.approx(0.0, abs=1e-6)
    assert dunn(vectors, np.zeros(len(vectors), int)) is None
    assert dunn(vectors, np.arange(len(vectors))) is None  # nothing within a cluster of one


def test_retrieval_of_a_list_done_by_hand() -> None:
    first = (np.array([0.9, 0.8, 0.7, 0.1]), np.array([False, True, False, True]))  # ranks 2 and 4
    second = (np.array([0.2, 0.9]), np.array([False, True]))  # rank 1
    idle = (np.array([0.5]), np.array([False]))
    found = retrieval([first, second, idle])
    assert found["queries"] == 2
    assert found["map"] == pytest.approx(((1 / 2 + 2 / 4) / 2 + 1) / 2)
    assert found["mrr"] == pytest.approx((1 / 2 + 1) / 2)
    alike = np.ones(4)
    for place in range(4):  # where all are alike it does not matter which the file lists first
        assert retrieval([(alike, np.eye(4, dtype=bool)[place])])["mrr"] == pytest.approx(1 / 4)
    late = (np.linspace(1, 0, 11), np.eye(11, dtype=bool)[10])
    assert retrieval([late])["mrr"] == 0.0 and retrieval([idle]) == {"queries": 0}
