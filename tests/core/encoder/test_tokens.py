"""Tokens kept ragged, and vectors kept by text."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.encoder.cache import VectorCache, prune
from core.encoder.tokens import Tokens, length_batches, length_packs, text_digest
from core.files import forget_oldest

LISTS = st.lists(st.lists(st.integers(1, 30_000), max_size=9), max_size=12)


@settings(max_examples=80, deadline=None)
@given(LISTS, st.randoms(use_true_random=False))
def test_ragged_tokens_are_the_lists_they_came_from(lists: list[list[int]], random: object) -> None:
    tokens = Tokens.from_lists(lists)
    assert [tokens[row].tolist() for row in range(len(tokens))] == lists
    half = len(lists) // 2
    joined = Tokens.joined([Tokens.from_lists(lists[:half]), Tokens.from_lists(lists[half:])])
    assert joined.ids.tolist() == tokens.ids.tolist() and joined.offsets.tolist() == tokens.offsets.tolist()
    rows = np.array(sorted(range(len(lists)), key=lambda _: random.random()), int)  # type: ignore[attr-defined]
    taken = tokens.taken(rows)
    assert [taken[row].tolist() for row in range(len(taken))] == [lists[row] for row in rows]
    digests = tokens.digests()
    for left in range(len(lists)):
        for right in range(len(lists)):
            assert (digests[left] == digests[right]) == (lists[left] == lists[right])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.integers(1, 500))
def test_batches_hold_every_row_once_and_keep_to_the_budget(lengths: list[int], budget: int) -> None:
    sizes = np.array(lengths)
    batches = list(length_batches(sizes, budget))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(len(rows) == 1 or sizes[rows].sum() <= budget for rows in batches)
    assert all(len(set(sizes[rows])) == 1 for rows in batches)
    packs = list(length_packs(sizes, budget))
    assert sorted(np.concatenate(packs).tolist()) == list(range(len(lengths))) and len(packs) <= len(batches)
    assert all(len(rows) == 1 or sizes[rows].sum() <= budget for rows in packs)


def test_tokens_come_back_whole_or_not_at_all(tmp_path: Path) -> None:
    assert Tokens.load(tmp_path) is None
    tokens = Tokens.from_lists([[1, 2], [], [3]])
    tokens.save(tmp_path)
    loaded = Tokens.load(tmp_path)
    assert loaded is not None and loaded.ids.tolist() == [1, 2, 3] and loaded.offsets.tolist() == [0, 2, 2, 3]


def test_digests_tell_order_and_borders_apart() -> None:
    assert (
        len(
            {
                text_digest(["ab", "c"]),
                text_digest(["a", "bc"]),
                text_digest(["c", "ab"]),
                text_digest(["ab", "c"], "x"),
            }
        )
        == 4
    )


def vectors_of(digests: np.ndarray) -> np.ndarray:
    """Return vectors that follow from their digests, so that a mix-up shows."""
    return np.array([np.frombuffer(digest.tobytes(), np.uint8)[:4] for digest in digests], np.float32)


def test_the_cache_gives_back_what_it_was_given_and_says_what_is_missing(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "v")
    digests = Tokens.from_lists([[i, i + 1] for i in range(40)]).digests()
    assert not cache.find(digests)[0].any()
    for start in range(0, 30, 1):  # many small pieces are merged on the way
        cache.keep(digests[start : start + 1], vectors_of(digests[start : start + 1]))
    known, vectors = cache.find(digests)
    assert known.tolist() == [True] * 30 + [False] * 10 and vectors is not None
    np.testing.assert_array_equal(vectors[:30], vectors_of(digests[:30]))
    assert len(list((tmp_path / "v").glob("*.keys.npy"))) < 28


def test_a_damaged_piece_is_passed_over(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    digests = Tokens.from_lists([[1], [2]]).digests()
    cache.keep(digests, vectors_of(digests))
    for path in tmp_path.glob("*.vectors.npy"):
        path.write_bytes(b"broken")
    assert not cache.find(digests)[0].any()


def test_a_damaged_or_vanished_piece_does_not_stop_later_ones_from_being_kept(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    digests = Tokens.from_lists([[i] for i in range(60)]).digests()
    for row in range(60):
        cache.keep(digests[row : row + 1], vectors_of(digests[row : row + 1]))
        if row == 3:
            next(tmp_path.glob("*.vectors.npy")).write_bytes(b"broken")
        if row == 30:
            next(tmp_path.glob("*.vectors.npy")).unlink()
    known, vectors = cache.find(digests)
    assert known[40:].all() and vectors is not None
    np.testing.assert_array_equal(vectors[known], vectors_of(digests[known]))


def test_two_processes_may_tidy_a_cache_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = VectorCache(tmp_path)
    digests = Tokens.from_lists([[1], [2]]).digests()
    for row in (0, 1):
        cache.keep(digests[row : row + 1], np.zeros((1, 1_000)))
    stat, gone = Path.stat, []

    def vanishing(path: Path, **options: object) -> os.stat_result:
        if path.name.endswith(".vectors.npy") and not gone:
            gone.append(path)
            path.unlink()  # the other process was faster
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", vanishing)
    prune(tmp_path, 10)
    assert gone and not list(tmp_path.glob("*.keys.npy"))


def test_the_cache_is_bounded_and_the_least_used_goes_first(tmp_path: Path) -> None:
    import os

    cache = VectorCache(tmp_path / "v")
    old, new = Tokens.from_lists([[1], [2]]).digests()[:1], Tokens.from_lists([[3], [4]]).digests()[:1]
    cache.keep(old, np.zeros((1, 1_000)))
    for path in (tmp_path / "v").glob("*.keys.npy"):
        os.utime(path, (1, 1))
    cache.keep(new, np.zeros((1, 1_000)))
    prune(tmp_path, 6_000)
    assert cache.find(np.concatenate([old, new]))[0].tolist() == [False, True]


@pytest.mark.parametrize("rows", [0, 1])
def test_nothing_to_tokenise_is_no_error(rows: int) -> None:
    assert len(Tokens.joined([Tokens.from_lists([[1]] * rows)])) == rows


def test_a_cache_forgets_what_was_not_used_for_longest(tmp_path: Path) -> None:
    for age, name in enumerate(["newest", "middle", "oldest", "wanted"]):
        entry = tmp_path / name
        if age % 2:
            entry.mkdir()
            (entry / "ids.npy").write_bytes(bytes(100))
        else:
            entry.write_bytes(bytes(100))
        os.utime(entry, (1e9 - age, 1e9 - age))
    forget_oldest(tmp_path, 300, keep=tmp_path / "wanted")
    assert {path.name for path in tmp_path.iterdir()} == {"newest", "middle", "wanted"}
    forget_oldest(tmp_path, 50, keep=tmp_path / "wanted")
    assert [path.name for path in tmp_path.iterdir()] == ["wanted"]
