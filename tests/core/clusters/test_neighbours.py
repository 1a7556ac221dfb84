"""Who is near whom: against a naive loop, and in cells against all compared with all."""

import numpy as np
import pytest

from core.clusters.neighbours import near_rows
from core.encoder.vectors import normalised
from tests.conftest import drained


def scattered(rows: int, width: int = 6) -> np.ndarray:
    return normalised(np.random.default_rng(0).normal(size=(rows, width)))


def found(space: np.ndarray, count: int) -> np.ndarray:
    return drained(near_rows(space, count, 0))[0]


def in_cells(monkeypatch: pytest.MonkeyPatch, size: int, reached: int) -> None:
    """Take the way of large tables with small ones."""
    for name, value in {"_ALL": 10, "_CELL": size, "_CELLS": reached, "_BLOCK": 70}.items():
        monkeypatch.setattr(f"core.clusters.neighbours.{name}", value)


def test_they_are_those_of_a_naive_loop() -> None:
    space = scattered(40)
    near = found(space, 5)
    for row, vector in enumerate(space):
        others = sorted((other for other in range(40) if other != row), key=lambda other: -float(vector @ space[other]))
        assert near[row].tolist() == others[:5]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_of_few_rows_all_others_are_near(rows: int) -> None:
    near = found(scattered(rows), 10)
    assert near.shape == (rows, rows - 1)
    for row in range(rows):
        assert sorted(near[row].tolist()) == [other for other in range(rows) if other != row]


def test_cells_that_reach_everything_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    space = scattered(300)
    everyone = found(space, 8)
    in_cells(monkeypatch, 60, 99)
    np.testing.assert_array_equal(found(space, 8), everyone)


def test_cells_find_nearly_the_same_across_their_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one cell alone a fifth and more would be missed: rows that lie at its border."""
    space = scattered(1_500)
    everyone = found(space, 8)
    shares = []
    for reached in (1, 8):
        in_cells(monkeypatch, 50, reached)
        near = found(space, 8)
        assert not (near == np.arange(len(space))[:, None]).any()
        alike = (space[near] * space[:, None]).sum(2)
        assert (np.diff(alike, axis=1) <= 1e-6).all(), "the nearest come first"
        shares.append(np.mean([len(set(a) & set(b)) / 8 for a, b in zip(near, everyone, strict=True)]))
    assert shares[0] < 0.8 and shares[1] > 0.95


def test_in_a_cell_of_few_a_row_takes_its_nearest_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = normalised(np.repeat(np.eye(12), 2, axis=0) + 0.01 * scattered(24, 12))
    in_cells(monkeypatch, 2, 1)
    rows, near = np.arange(24), found(pairs, 3)
    accompanied = near[:, 0] != rows
    assert accompanied.mean() > 0.5 and (near[accompanied, 0] == rows[accompanied] ^ 1).all()
    assert not (near[accompanied] == rows[accompanied, None]).any()
