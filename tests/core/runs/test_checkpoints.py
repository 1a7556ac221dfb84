"""Checkpoints on the disk: typed, bounded, and enough to go on from."""

from pathlib import Path

import numpy as np
import pytest

from core.errors import BadInput
from core.events import Checkpoint, Slot
from core.learning.loop import Targets
from core.runs.checkpoints import Checkpoints
from core.state import Choice, State
from tests.conftest import drained


def look(step: int, stage: str = "train") -> Checkpoint:
    return Checkpoint(stage, {"weights": np.zeros(1_000, np.float32)}, {}, Slot.LOOK, step)


def test_every_slot_has_a_place_of_its_own(tmp_path: Path) -> None:
    state = Checkpoints(tmp_path)
    for number, slot in enumerate(Slot):
        state.save(Checkpoint("warm up", {"a": np.full(2, number)}, {"n": number}, slot, 7))
    for number, slot in enumerate(Slot):
        found = state.find("warm up", slot, 7)
        assert found is not None and found.values["n"] == number and found.arrays["a"].tolist() == [number, number]
    assert {path.name for path in (tmp_path / "warm-up").iterdir()} == {
        "current.safetensors",
        "best.safetensors",
        "look-7.safetensors",
        "targets-7.safetensors",
    }
    assert state.find("train") is None


def test_a_choice_stands_until_another_is_made(tmp_path: Path) -> None:
    state = Checkpoints(tmp_path)
    assert state.choice is None
    state.choose(Choice("train", 25, ("represent",)))
    assert state.choice == Choice("train", 25, ("represent",))
    assert state.choice.settles("train") and state.choice.settles("represent") and not state.choice.settles("encode")
    state.choose(None)
    assert state.choice is None


def test_looks_beyond_the_budget_are_thinned_evenly_the_chosen_and_the_best_never(tmp_path: Path) -> None:
    state = Checkpoints(tmp_path)
    state.choose(Choice("train", 30))
    state.save(Checkpoint("train", {}, {"look": 50}, Slot.BEST))
    for step in range(0, 201, 10):
        state.save(look(step), budget=8 * 4_200)
    left = [step for step in range(0, 201, 10) if state.has_look("train", step)]
    assert len(left) <= 8 and {0, 30, 50, 200} <= set(left)
    assert max(np.diff(left)) <= 100, "what is left is spread over the training"


def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "current.safetensors").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="damaged"):
        Checkpoints(tmp_path).find("train")


def test_targets_of_the_last_look_outlive_any_number_of_rounds(tmp_path: Path) -> None:
    """Looks may be rarer than rounds: a resumed training still finds the targets it had at its last look."""
    state, made = Checkpoints(tmp_path), []

    def find(number: int):  # noqa: ANN202 - a generator of events
        made.append(number)
        yield None
        return np.full((2, 2), number, np.float32)

    targets = Targets("train", 2, find, State())
    for step in range(9):
        _, told = drained(targets.ready(step))
        for event in told:
            state.save(event)
        if step == 2:
            state.save(Checkpoint("train", {}, {"round": targets.number}))
    assert made == [0, 1, 2, 3, 4]
    resumed = Targets("train", 2, find, state)
    drained(resumed.ready(3))
    assert resumed.values[0, 0] == 1 and made == [0, 1, 2, 3, 4], "those it had, not found anew"
    drained(resumed.ready(4))
    assert made[-1] == 2, "a later round is found with the weights that the resumed training has by then"
    assert state.find("train", Slot.TARGETS, 0) is None, "what no look needs is gone"
