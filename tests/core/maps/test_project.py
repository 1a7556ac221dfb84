"""Projections: the same tomorrow, and in a process that can be killed."""

import os
import time

import numpy as np
import pytest
from sklearn.decomposition import PCA

from core.maps.project import principal_components, project
from core.maps.projector import Projector
from tests.conftest import drained
from tests.core.clusters.test_partition import blobs


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
