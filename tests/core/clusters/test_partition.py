"""Partitions: they find what is there, resume, and say what was decided."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from core.bench import Bench
from core.clusters.evaluate import accuracy
from core.clusters.neighbours import joined_views, near_rows, smoothed
from core.clusters.partition import PARTITIONS, kmeans, partition
from core.clusters.start import find_start
from core.encoder.vectors import normalised
from core.events import Checkpoint, Note, Resolved
from core.maps.projector import Projector
from core.methods.embed import Embed
from core.state import AFRESH
from core.topics.words import Words
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
    options = {"normalise": True, "seed": 1, "projector": projector, "lexical": Words.of(texts).lexical(1)}
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


def test_groups_that_stand_apart_are_linked_and_others_are_not() -> None:
    rng = np.random.default_rng(0)
    sizes = [900] + [6] * 11
    truth = np.repeat(np.arange(12), sizes)
    vectors = (3 * np.eye(12)[truth] + 0.5 * rng.normal(size=(len(truth), 12))).astype(np.float32)
    texts = [f"word{label} text{row}" for row, label in enumerate(truth)]
    for rows, linked in ((np.arange(len(truth)), True), (np.flatnonzero(truth > 0), False)):
        lexical = Words.of([texts[row] for row in rows]).lexical(0)
        near, _ = drained(near_rows(joined_views(vectors[rows], lexical), 5, 0))
        clusters = len(np.unique(truth[rows]))
        found, told = drained(find_start(vectors[rows], lexical, clusters, 0, "similar", near))
        assert any("stand apart" in event.text for event in told if isinstance(event, Note)) is linked
        assert found.apart is linked and accuracy(truth[rows].astype(str), found.labels) > 0.95


@pytest.mark.parametrize(("width", "starts"), [(14, True), (12, False)])
def test_groups_that_touch_are_never_linked_at_the_end(width: int, starts: bool) -> None:
    """Of noise a linkage may be a little clearer, or much so and be where it starts; it never divides."""
    truth = np.repeat(np.arange(8), [900] + [6] * 7)
    noise = 0.8 * np.random.default_rng(0).normal(size=(len(truth), width))
    vectors = (3 * np.eye(width)[truth] + noise).astype(np.float32)
    found, notes = drained(find_start(vectors, None, 8, 0, "similar"))
    assert not found.apart
    assert any("to start from" in note.text for note in notes if isinstance(note, Note)) is starts


def test_auto_links_groups_that_stand_apart_and_says_so(projector: Projector, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(12), [300] + [4] * 11)
    vectors = (3 * np.eye(12)[truth] + 0.5 * rng.normal(size=(len(truth), 12))).astype(np.float32)
    bench = Bench([f"word{label} text" for label in truth], 0, "", "cpu", 256, "float32", tmp_path, projector)
    found = {
        how: drained(Embed(12, how).cluster(bench, vectors, AFRESH)) for how in ("auto", "smooth+kmeans", "linkage")
    }
    linked = found["linkage"][0]
    assert accuracy(truth.astype(str), linked.labels) == 1 and (linked.labels == linked.soft.argmax(1)).all()
    np.testing.assert_array_equal(found["auto"][0].labels, linked.labels)
    decided = [event for event in found["auto"][1] if isinstance(event, Resolved)]
    assert [(one.name, one.value) for one in decided] == [("partition", "linkage")] and "stand apart" in decided[
        0
    ].reason
    assert accuracy(truth.astype(str), found["smooth+kmeans"][0].labels) < 0.9, "what was chosen is what is done"


def test_auto_smooths_groups_that_touch_as_smoothing_does(projector: Projector, tmp_path: Path) -> None:
    truth = np.repeat(np.arange(8), 50)
    vectors = (3 * np.eye(24)[truth] + 0.9 * np.random.default_rng(0).normal(size=(400, 24))).astype(np.float32)
    bench = Bench([f"text{row}" for row in range(len(truth))], 0, "", "cpu", 256, "float32", tmp_path, projector)
    auto, told = drained(Embed(8, "auto").cluster(bench, vectors, AFRESH))
    smooth, _ = drained(Embed(8, "smooth+kmeans").cluster(bench, vectors, AFRESH))
    assert [event.value for event in told if isinstance(event, Resolved)] == ["smooth+kmeans"]
    assert adjusted_rand_score(auto.labels, smooth.labels) > 0.95


def test_kmeans_resumes_to_the_same_centres() -> None:
    vectors, _ = blobs(7)
    whole, told = drained(kmeans(vectors, 7, seed=3))
    states = [event for event in told if isinstance(event, Checkpoint)]
    for state in (states[0], states[4], states[-1]):
        resumed, _ = drained(kmeans(vectors, 7, seed=3, state=state))
        np.testing.assert_array_equal(whole, resumed)
