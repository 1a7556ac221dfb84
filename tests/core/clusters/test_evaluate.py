"""Metrics, by hand and by their properties."""

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from core.clusters.evaluate import accuracy, dunn, external_metrics, purity, retrieval, silhouette
from tests.core.clusters.test_partition import blobs


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
