"""The trunk gives what the transformer itself gives, wherever it is entered; the prefix is kept and found again."""

from pathlib import Path

import numpy as np
import pytest
import torch

from core.encoder.packing import Pack
from core.encoder.tokens import Tokens
from core.encoder.trunk import Trunk
from core.learning import prefix
from core.learning.prefix import Prefix, fits, keep_prefix
from tests.benchmarks.timing import drained
from tests.core.learning.tiny import tiny_model, tiny_tokens

KINDS = ("bert", "roberta", "distilbert", "mpnet", "albert")
SPLIT = KINDS[:4]


def flat_ids(tokens: Tokens, pack: Pack) -> torch.Tensor:
    return torch.from_numpy(tokens.flat(pack.order).astype(np.int64))


def singly(model: object, tokens: Tokens, pooling: str) -> torch.Tensor:
    """Run one text at a time through the transformer's own forward: nothing to pad, nothing to mask."""
    found = []
    for row in range(len(tokens)):
        ids = torch.from_numpy(tokens[row].astype(np.int64))[None]
        states = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state  # type: ignore[operator]
        found.append(states[0, 0] if pooling == "first" else states[0].mean(0))
    return torch.stack(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_packed_texts_give_what_each_text_gives_alone(kind: str, pooling: str) -> None:
    model, tokens = tiny_model(kind), tiny_tokens()
    pack = Pack(tokens.lengths)
    with torch.no_grad():
        ours = pack.pooled(Trunk(model)(flat_ids(tokens, pack), pack), pooling)
        torch.testing.assert_close(ours, singly(model, tokens, pooling), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", SPLIT)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_entered_at_any_height_it_ends_the_same(kind: str, depth: int) -> None:
    model, tokens = tiny_model(kind), tiny_tokens()
    trunk, pack = Trunk(model, depth), Pack(tokens.lengths)
    with torch.no_grad():
        whole = trunk(flat_ids(tokens, pack), pack)
        below = trunk(flat_ids(tokens, pack), pack, stop=trunk.start)
        torch.testing.assert_close(trunk(below, pack), whole)


@pytest.mark.parametrize("kind", SPLIT)
def test_depth_says_what_learns(kind: str) -> None:
    names = {depth: {name for name, _ in Trunk(tiny_model(kind), depth).learning()} for depth in range(4)}
    assert not names[0]
    assert all(".2." in name for name in names[1])
    assert names[1] < names[2] < names[3]
    assert any("word_embeddings" in name for name in names[3]) and not any("pooler" in name for name in names[3])


def test_a_gradient_reaches_what_learns_and_nothing_else() -> None:
    trunk, tokens = Trunk(tiny_model("bert"), 1), tiny_tokens()
    pack = Pack(tokens.lengths)
    pack.pooled(trunk(flat_ids(tokens, pack), pack), "mean").square().sum().backward()
    learning = dict(trunk.learning())
    for name, value in trunk.model.named_parameters():
        assert (value.grad is not None) == (name in learning), name


def test_an_architecture_that_cannot_be_split_learns_whole_or_not_at_all() -> None:
    assert not Trunk(tiny_model("albert")).shape.splits
    with pytest.raises(ValueError, match="cannot learn at depth 1"):
        Trunk(tiny_model("albert"), 1)
    with pytest.raises(ValueError, match="cannot learn at depth 4"):
        Trunk(tiny_model("bert"), 4)


@pytest.mark.parametrize("kind", ["albert", "bert"])
def test_at_depth_0_what_was_kept_is_the_end(kind: str, tmp_path: Path) -> None:
    trunk, tokens = Trunk(tiny_model(kind), 0), tiny_tokens()
    found, pack = kept(trunk, tokens, tmp_path), Pack(tokens.lengths)
    again = trunk(torch.from_numpy(found.flat(pack.order)).float(), pack)
    with torch.no_grad():
        torch.testing.assert_close(again, trunk(flat_ids(tokens, pack), pack), atol=5e-3, rtol=1e-3)


def kept(trunk: Trunk, tokens: Tokens, folder: Path) -> Prefix:
    return drained(keep_prefix(trunk, tokens, 8, folder, "cpu", "float32", "frozen layers"))


def test_a_kept_prefix_holds_what_enters_the_first_learning_layer(tmp_path: Path) -> None:
    tokens = Tokens.joined([tiny_tokens(12), tiny_tokens(12), tiny_tokens(8, seed=1)])
    trunk = Trunk(tiny_model("bert"), 1)
    found = kept(trunk, tokens, tmp_path / "prefix")
    assert len(found.offsets) - 1 < len(tokens), "equal texts are kept once"
    rows = np.array([30, 3, 3, 14])
    np.testing.assert_array_equal(found.lengths, tokens.lengths)
    pack = Pack(tokens.lengths[rows])
    with torch.no_grad():
        direct = trunk(torch.from_numpy(tokens.flat(rows[pack.order]).astype(np.int64)), pack, stop=2)
    np.testing.assert_allclose(found.flat(rows[pack.order]), direct.numpy(), atol=5e-3)


def test_a_stopped_prefix_goes_on_where_it_was_and_a_torn_one_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix, "_SYNCED_EVERY", 1)
    trunk, tokens = Trunk(tiny_model("bert"), 1), tiny_tokens(20)
    whole = kept(trunk, tokens, tmp_path / "whole")
    work = keep_prefix(trunk, tokens, 8, tmp_path / "cut", "cpu", "float32", "frozen layers")
    for _ in range(6):
        next(work)
    work.close()
    with (tmp_path / "cut" / "states.part").open("ab") as file:
        file.write(b"torn by a kill")
    again = keep_prefix(trunk, tokens, 8, tmp_path / "cut", "cpu", "float32", "frozen layers")
    next(again)
    first = next(again)
    assert first is not None and first.done > 8, "it does not begin anew"  # type: ignore[union-attr]
    np.testing.assert_array_equal(drained(again).states, whole.states)
    assert kept(trunk, tokens, tmp_path / "cut").states.shape == whole.states.shape


def test_frozen_layers_survive_short_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trunk, tokens = Trunk(tiny_model("bert"), 1), tiny_tokens(20)
    whole = drained(keep_prefix(trunk, tokens, 64, tmp_path / "roomy", "cpu", "float32", "frozen layers"))
    original = prefix._states

    def scarce(trunk: Trunk, some: Tokens, device: str, precision: str, causal: bool) -> np.ndarray:
        if len(some) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(trunk, some, device, precision, causal)

    monkeypatch.setattr(prefix, "_states", scarce)
    short = drained(keep_prefix(trunk, tokens, 64, tmp_path / "short", "cpu", "float32", "frozen layers"))
    np.testing.assert_allclose(short.states, whole.states, atol=5e-3)


def test_the_oldest_prefixes_make_room_and_too_large_a_one_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trunk, tokens = Trunk(tiny_model("bert"), 1), tiny_tokens(20)
    kept(trunk, tokens, tmp_path / "a")
    size = sum(file.stat().st_size for file in (tmp_path / "a").iterdir())
    monkeypatch.setattr(prefix, "LARGEST_PREFIX", int(1.5 * size))
    kept(trunk, tokens, tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert fits(tmp_path, 1, 16) and not fits(tmp_path, size, 16)
