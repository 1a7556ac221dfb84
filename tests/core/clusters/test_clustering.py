"""The clustering: probabilities people can read, labels that follow from them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.clusters.clustering import Clustering, soft_assignment
from core.encoder.vectors import nearest, normalised, squared_distances

FLOATS = st.floats(-100, 100, width=32)


def test_two_by_two_by_hand() -> None:
    soft = soft_assignment(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [3.0, 0.0]]))
    # Squared distances 1 and 4: weights 1 and 4^-10. On a centre: sure.
    np.testing.assert_allclose(soft, [[1 / (1 + 4.0**-10), 4.0**-10 / (1 + 4.0**-10)], [1, 0]], atol=1e-7)


def test_noise_is_unsure_and_a_sure_thing_is_sure_at_twenty_clusters() -> None:
    rng = np.random.default_rng(0)
    centres = normalised(rng.normal(size=(20, 384)))
    assert soft_assignment(normalised(rng.normal(size=(200, 384))), centres).max(1).mean() < 0.25
    near = normalised(centres[3:4] + 0.5 * normalised(rng.normal(size=(1, 384))))
    assert soft_assignment(near, centres)[0, 3] > 0.95


@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, (7, 3), elements=FLOATS), arrays(np.float32, (4, 3), elements=FLOATS))
def test_rows_sum_to_one_and_the_nearest_centre_wins(vectors: np.ndarray, centres: np.ndarray) -> None:
    soft = soft_assignment(vectors, centres)
    np.testing.assert_allclose(soft.sum(1), 1, atol=1e-5)
    distances = squared_distances(vectors, centres)
    chosen = distances[np.arange(7), soft.argmax(1)]
    assert (chosen <= distances.min(1) * (1 + 1e-5) + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, (6, 3), elements=st.floats(-1e3, 1e3)), arrays(np.float64, (9, 3), elements=st.floats(-1e3, 1e3))
)
def test_distances_and_neighbours_agree_with_the_naive_form(left: np.ndarray, right: np.ndarray) -> None:
    naive = ((left[:, None] - right[None]) ** 2).sum(2)
    np.testing.assert_allclose(squared_distances(left, right), naive, atol=1e-6, rtol=1e-6)
    _, found = nearest(left, right, 4)
    np.testing.assert_allclose(found, np.sort(naive, 1)[:, :4], atol=1e-6, rtol=1e-6)


def test_clusters_are_ordered_by_size_and_labels_follow_soft() -> None:
    soft = np.array([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3]], np.float32)
    clustering = Clustering.from_soft(np.zeros((3, 2)), soft, np.array([[0.0, 0], [1, 1]]))
    assert clustering.labels.tolist() == [0, 0, 1]
    assert clustering.sizes.tolist() == [2, 1]
    assert (clustering.labels == clustering.soft.argmax(1)).all()
    assert clustering.centres is not None and clustering.centres.tolist() == [[1, 1], [0, 0]]
    assert clustering.labels.dtype == np.int32 and clustering.soft.dtype == np.float32


def test_new_rows_are_placed_as_the_old_ones_were() -> None:
    rng = np.random.default_rng(1)
    vectors = np.concatenate([rng.normal(0, 0.1, (20, 2)), rng.normal(5, 0.1, (20, 2))]).astype(np.float32)
    centres = np.array([[0.0, 0], [5, 5]])
    by_centres = Clustering.from_soft(vectors, soft_assignment(vectors, centres), centres)
    by_neighbours = Clustering.from_soft(vectors, soft_assignment(vectors, centres))
    for clustering in (by_centres, by_neighbours):
        assert (clustering.assign(vectors).argmax(1) == clustering.labels).all()


def test_a_zero_row_stays_zero() -> None:
    assert normalised(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist() == [[0, 0], [np.float32(0.6), np.float32(0.8)]]
