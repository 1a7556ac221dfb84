"""The guard: what it sees of a healthy training, of one that collapses and of one that stands still."""

import numpy as np

from core.events import Checkpoint
from core.learning.guard import Guard, inhabited, stratified

CLUSTERS = 8


def blobs(spread: float, seed: int = 0, rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(CLUSTERS, 12))
    truth = np.arange(rows) % CLUSTERS
    return centres[truth] + spread * random.normal(size=(rows, 12)), centres


def test_a_training_that_makes_clusters_clearer_is_followed_to_its_end() -> None:
    guard = Guard(np.arange(400), CLUSTERS)
    for step, spread in enumerate((0.9, 0.8, 0.6, 0.4)):
        vectors, centres = blobs(spread)
        guard.look(step * 10, vectors[guard.sample], centres)
    assert guard.best.step == 30 and [look.clusters for look in guard.looks] == [CLUSTERS] * 4
    silhouettes = [look.silhouette for look in guard.looks]
    assert silhouettes == sorted(silhouettes)
    text, level = guard.sentence("train")
    assert level == "info" and "Step 30 of train is kept" in text


def test_a_collapse_is_seen_although_the_trained_space_flatters_it() -> None:
    """All texts run into two points: the silhouette there is nearly one, and the guard is not deceived."""
    guard = Guard(np.arange(400), CLUSTERS)
    vectors, centres = blobs(0.6)
    guard.look(0, vectors[guard.sample], centres)
    better, _ = blobs(0.5)
    guard.look(10, better[guard.sample], centres)
    assert not guard.verdict
    truth = np.arange(400) % CLUSTERS
    fallen = np.where((truth < 6)[:, None], centres[0], centres[7]) + 1e-3 * vectors
    seen = guard.look(20, fallen[guard.sample], centres)
    assert seen.silhouette > 0.9 and guard.score(seen) < guard.score(guard.looks[1])
    assert guard.verdict == "collapsed" and guard.best.step == 10
    text, level = guard.sentence("train")
    assert level == "warning" and "fall together" in text and "Step 10 of train is kept" in text


def test_a_cluster_that_a_head_gave_up_is_not_filled_again() -> None:
    guard = Guard(np.arange(400), CLUSTERS)
    vectors, centres = blobs(0.4)
    truth = np.arange(400) % CLUSTERS
    guard.look(0, vectors[guard.sample], inhabited(centres, truth))
    assert guard.looks[0].clusters == CLUSTERS
    seen = guard.look(10, vectors[guard.sample], inhabited(centres, truth % 3))
    assert seen.clusters == 3 and guard.verdict == "collapsed" and guard.best.step == 0
    text, level = guard.sentence("form")
    assert "3 of 8 left at step 10" in text and level == "warning"


def look_with(guard: Guard, step: int, clusters: int) -> None:
    """Look at blobs of which a head knows only some."""
    vectors, centres = blobs(0.3)
    guard.look(step, vectors[guard.sample], inhabited(centres, np.arange(clusters)))


def later_stage(begins: int) -> Guard:
    """Return the guard of a stage that begins with so many clusters, after one that began with all."""
    first = Guard(np.arange(400), CLUSTERS)
    look_with(first, 0, CLUSTERS)
    second = first.follow()
    look_with(second, 0, begins)
    return second


def test_losses_of_one_stage_after_another_add_up() -> None:
    """Each stage alone keeps more than half of what it began with, both together do not."""
    later, alone = later_stage(6), Guard(np.arange(400), CLUSTERS)
    look_with(alone, 0, 6)
    for guard in (later, alone):
        look_with(guard, 10, 5)
    assert not alone.collapsed and later.collapsed and later.best.step == 0


def test_a_stage_that_begins_fallen_together_is_left_as_it_began() -> None:
    later = later_stage(2)
    assert later.verdict == "collapsed" and later.best is later.looks[0]


def test_clusters_that_lose_their_order_and_not_their_number_are_told_so() -> None:
    vectors, centres = blobs(0.3)
    guard = Guard(np.arange(400), CLUSTERS)
    guard.look(0, vectors[guard.sample], centres)
    guard.look(5, np.random.default_rng(3).normal(size=vectors.shape)[guard.sample], centres)
    assert guard.looks[1].clusters == CLUSTERS and guard.verdict == "collapsed"
    assert "of their order left at step 5" in guard.sentence("train")[0]


def test_one_point_is_no_division_by_zero() -> None:
    guard = Guard(np.arange(50), 3)
    guard.look(0, np.random.default_rng(0).normal(size=(50, 4)), np.eye(3, 4))
    seen = guard.look(10, np.ones((50, 4)), np.eye(3, 4))
    assert seen.clusters == 1 and seen.entropy == 0 and guard.verdict == "collapsed"
    assert "dunn" in guard.looks[0].figures() and "dunn" not in seen.figures()  # none is not nought


def test_a_start_in_one_cluster_is_no_collapse() -> None:
    guard = Guard(np.arange(50), 3)
    for step in (0, 10):
        guard.look(step, np.ones((50, 4)), np.eye(3, 4))
    assert guard.looks[0].clusters == 1 and not guard.collapsed and guard.best.step == 10


def test_it_stops_when_nothing_changes_or_nothing_improves() -> None:
    settled = Guard(np.arange(400), CLUSTERS)
    vectors, centres = blobs(0.4)
    for step in range(3):
        settled.look(step, vectors[settled.sample], centres)
    assert settled.verdict == "settled"
    stalled = Guard(np.arange(400), CLUSTERS, tolerance=-1, patience=2)
    for step, spread in enumerate((0.5, 0.6, 0.7)):
        vectors, _ = blobs(spread, seed=step)
        stalled.look(step, vectors[stalled.sample], centres)
    assert stalled.verdict == "stalled" and stalled.best.step == 0


def test_it_goes_on_from_a_checkpoint_as_if_it_had_never_stopped() -> None:
    straight, resumed = Guard(np.arange(400), CLUSTERS), Guard(np.arange(400), CLUSTERS)
    for step, spread in enumerate((0.9, 0.7)):
        vectors, centres = blobs(spread)
        straight.look(step, vectors[straight.sample], centres)
    resumed.restore(Checkpoint("train", straight.arrays(), straight.values()))
    later, _ = blobs(0.5)
    assert straight.look(2, later[straight.sample], centres) == resumed.look(2, later[resumed.sample], centres)


def test_distances_by_hand() -> None:
    """Two clusters on a circle, each of two equal points: nothing within, the chord between."""
    guard = Guard(np.arange(4), 2)
    seen = guard.look(0, np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]), np.eye(2))
    assert seen.intra == 0 and abs(seen.inter - np.sqrt(2)) < 1e-6 and seen.entropy == 1


def test_a_sample_has_every_cluster_in_its_share() -> None:
    labels = np.repeat(np.arange(4), [9_000, 900, 99, 1])
    sample = stratified(labels, 500, seed=3)
    counts = np.bincount(labels[sample])
    assert (np.diff(sample) > 0).all() and abs(counts[0] - 450) <= 1 and abs(counts[1] - 45) <= 1
    assert abs(counts[2] - 5) <= 1 and counts[3] == 1  # too small for a share, and still there
    assert (stratified(labels, 500, seed=3) == sample).all() and not np.isin(stratified(labels, 500, 4), sample).all()
    assert (stratified(labels[:40], 500, seed=3) == np.arange(40)).all()
