"""The decoder and the masks: against the library's own decoder, against naive loops, and by their properties."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertLMHeadModel,
    BertModel,
    RobertaConfig,
    RobertaForCausalLM,
    RobertaModel,
)

from core.encoder.packing import Pack
from core.encoder.source import EMBEDDED, find_folder
from core.encoder.tokens import Tokens
from core.encoder.trunk import Trunk
from core.learning.decoder import Decoder, TokenHead, pretrained_token_head
from core.learning.learner import Learner
from core.learning.networks import ClusterHead, DenoisingHeads, UftHeads
from core.learning.noise import without_words
from core.learning.prefix import keep_prefix
from tests.benchmarks.timing import drained
from tests.core.learning.tiny import plain_vocabulary

SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 40, "vocab_size": 60}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def trunk_of(depth: int = 3, **more: float) -> Trunk:
    torch.manual_seed(0)
    return Trunk(BertModel(BertConfig(**SIZES, **(STILL | more)), add_pooling_layer=False), depth)


def some_texts(count: int = 7) -> Tokens:
    random = np.random.default_rng(0)
    return Tokens.from_lists([[1, *random.integers(5, 60, random.integers(1, 9)), 2] for _ in range(count)])


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_decoder_is_the_librarys_decoder_with_one_key(kind: str) -> None:
    """At full depth: same states as a decoder that attends to one vector, and query and key get no gradient."""
    torch.manual_seed(0)
    config, model, head = {
        "bert": (BertConfig, BertModel, BertLMHeadModel),
        "roberta": (RobertaConfig, RobertaModel, RobertaForCausalLM),
    }[kind]
    sizes = SIZES | STILL | {"max_position_embeddings": 40, "pad_token_id": 1}
    trunk = Trunk(model(config(**sizes), add_pooling_layer=False), 3)
    decoder = Decoder(trunk, TokenHead(trunk)).eval()
    theirs = getattr(head(config(**sizes, is_decoder=True, add_cross_attention=True)).eval(), kind)
    theirs.load_state_dict(trunk.model.state_dict(), strict=False)
    for place, layer in enumerate(theirs.encoder.layer):
        layer.crossattention.self.value.load_state_dict(decoder.value[place].state_dict())
        layer.crossattention.output.dense.load_state_dict(decoder.out[place].state_dict())
        layer.crossattention.output.LayerNorm.load_state_dict(decoder.norm[place].state_dict())
    ids, z = torch.randint(5, 60, (4, 6)), torch.randn(4, 24)
    ours = decoder.states(z, ids.reshape(-1), Pack(np.full(4, 6), causal=True)).view(4, 6, -1)
    expected = theirs(ids, encoder_hidden_states=z[:, None]).last_hidden_state
    torch.testing.assert_close(ours, expected, atol=2e-5, rtol=1e-4)
    expected.square().sum().backward()
    for layer in theirs.encoder.layer:
        for idle in (layer.crossattention.self.query, layer.crossattention.self.key):
            assert idle.weight.grad is None or idle.weight.grad.abs().max() < 1e-6


@pytest.mark.parametrize("depth", [1, 3])
def test_no_token_sees_a_later_one_and_every_token_sees_the_vector(depth: int) -> None:
    trunk = trunk_of(depth)
    decoder = Decoder(trunk, TokenHead(trunk)).eval()
    ids, z, pack = torch.randint(5, 60, (8,)), torch.randn(1, 24), Pack(np.array([8]), causal=True)
    before = decoder.states(z, ids, pack)
    changed = ids.clone()
    changed[5] = (ids[5] + 1) % 55 + 5
    after = decoder.states(z, changed, pack)
    torch.testing.assert_close(before[:5], after[:5])
    assert (before[5:] - after[5:]).abs().max() > 1e-4
    assert (decoder.states(z + 1, ids, pack) - before).abs().amax(1).min() > 1e-4


def test_storage_is_tied_to_the_live_encoder_and_counted_once() -> None:
    trunk = trunk_of(2)
    heads = DenoisingHeads(trunk, 4, None, Path("nowhere"), 0)
    own = {value.data_ptr() for value in heads.parameters()}
    assert heads.decoder.trunk is trunk and heads.decoder.words.embeddings is trunk.model.embeddings.word_embeddings
    assert not own & {value.data_ptr() for value in trunk.parameters()}
    texts = some_texts()
    heads.decoder.loss(torch.randn(len(texts), 24), texts).backward()
    learnt = {name for name, value in trunk.model.named_parameters() if value.grad is not None}
    assert learnt and all("layer.1" in name or "layer.2" in name for name in learnt)


def test_the_loss_is_the_sum_over_all_tokens_but_the_first() -> None:
    trunk = trunk_of()
    decoder, texts = Decoder(trunk, TokenHead(trunk)).eval(), some_texts()
    z = torch.randn(len(texts), 24)
    naive = 0.0
    for row in range(len(texts)):
        ids = torch.from_numpy(texts[row].astype(np.int64))
        pack = Pack(np.array([len(ids) - 1]), causal=True)
        logits = decoder.words.logits(decoder.states(z[row : row + 1], ids[:-1], pack))
        naive += torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum")
    torch.testing.assert_close(decoder.loss(z, texts), naive, rtol=1e-5, atol=1e-4)
    alone = Tokens.from_lists([[1]])
    assert float(decoder.loss(z[:1], alone)) == 0.0


def test_a_softmax_over_the_corpus_is_the_full_one_without_the_tokens_that_never_occur() -> None:
    trunk = trunk_of()
    used = np.array([1, 2, 7, 9, 30])
    some, full = TokenHead(trunk, used), TokenHead(trunk)
    full.load_state_dict(some.state_dict())
    states, ids = torch.randn(6, 24), torch.tensor([7, 30, 9, 1, 2, 7])
    expected = full.logits(states)[:, used].log_softmax(1)
    wanted = torch.tensor([list(used).index(token) for token in ids])
    torch.testing.assert_close(some.loss(states, ids), -expected[torch.arange(6), wanted].sum())


def test_kept_states_of_the_frozen_layers_give_the_same_loss_and_gradient(tmp_path: Path) -> None:
    """In training too: layers that do not learn drop nothing out."""
    texts, losses, gradients = some_texts(), [], []
    trunk = trunk_of(1, hidden_dropout_prob=0.2)
    decoder = Decoder(trunk, TokenHead(trunk, np.unique(texts.ids)))
    prefix = drained(keep_prefix(trunk, texts, 20, tmp_path / "kept", "cpu", "float32", "s", causal=True))
    rows = np.array([4, 0, 2])
    trunk.train()
    for kept in (None, prefix.flat(rows)):
        torch.manual_seed(0)
        z = torch.ones(len(rows), 24, requires_grad=True)
        loss = decoder.loss(z, texts.taken(rows), kept)
        loss.backward()
        losses.append(loss.detach())
        gradients.append(z.grad)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=2e-2, atol=2e-3)


def test_pieces_add_up_to_the_gradient_of_the_whole_batch() -> None:
    texts, found = some_texts(), []
    wanted = torch.eye(4)[torch.arange(len(texts)) % 4]
    left = without_words(texts, plain_vocabulary(), 0.5, np.random.default_rng(0))
    for piece_tokens in (10_000, 12):
        trunk = trunk_of(2)
        heads = DenoisingHeads(trunk, 4, np.unique(texts.ids), Path("nowhere"), 0)
        learner = Learner(
            trunk, heads, texts, pooling="mean", rate=1e-2, head_rate=1e-2, seed=0, piece_tokens=piece_tokens
        )

        def share(
            rows: np.ndarray, vectors: torch.Tensor, *_: object, heads: DenoisingHeads = heads
        ) -> dict[str, torch.Tensor]:
            again = heads.decoder.loss(vectors, texts.taken(rows)) / 40
            told = heads.cross_entropy(vectors, wanted[torch.from_numpy(rows)]) / len(texts)
            return {"loss": 0.8 * told + 0.2 * again, "clustering": told, "reconstruction": again}

        learner.step_apart(left, share)
        found.append(learner.told()["loss"])
        found.append({name: value.detach().clone() for name, value in trunk.learning()})
    assert found[0] == pytest.approx(found[2], rel=1e-5)
    for name, value in found[1].items():
        torch.testing.assert_close(value, found[3][name], atol=1e-4, rtol=1e-3)


def test_where_nothing_is_masked_there_is_no_loss() -> None:
    heads = UftHeads(trunk_of(), np.zeros((2, 24)), 1.0, None, Path("nowhere"), 0)
    nothing = heads.words.loss(torch.zeros(0, 24), torch.zeros(0, dtype=torch.long))
    assert nothing.item() == 0.0


def test_the_head_points_at_the_nearest_centre() -> None:
    random = np.random.default_rng(0)
    vectors, labels = random.normal(size=(50, 6)).astype(np.float32), random.integers(4, size=50)
    head = ClusterHead(6, 4)
    head.point_at(vectors, labels)
    centres = np.stack([vectors[labels == c].mean(0) for c in range(4)])
    nearest = ((vectors[:, None] - centres) ** 2).sum(2).argmin(1)
    with torch.no_grad():
        np.testing.assert_array_equal(head(torch.from_numpy(vectors)).argmax(1).numpy(), nearest)


def test_the_head_is_not_sure_of_what_is_wrong_where_noise_moves_vectors_far() -> None:
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    vectors = (np.eye(3)[labels] + 0.1 * random.normal(size=(60, 3))).astype(np.float32)
    pointed, noisy = ClusterHead(3, 3), ClusterHead(3, 3)
    pointed.point_at(vectors, labels)
    noisy.point_at(vectors, labels, (vectors + np.float32(0.1), labels))
    torch.testing.assert_close(noisy.weight, pointed.weight)  # noise that misleads nobody changes nothing
    far = torch.from_numpy(vectors + np.array([50, 0, 0], np.float32))  # every text seems to be of the first cluster
    wanted = torch.from_numpy(labels)
    assert F.cross_entropy(pointed(far), wanted) > 10
    noisy.point_at(vectors, labels, (far.numpy(), labels))
    assert F.cross_entropy(noisy(far), wanted) < np.log(3) + 0.11
    with torch.no_grad():
        assert (noisy(torch.from_numpy(vectors)).argmax(1).numpy() == labels).all()


def test_the_targets_over_the_whole_set_are_those_of_a_naive_loop() -> None:
    heads = DenoisingHeads(trunk_of(), 4, None, Path("nowhere"), 0)
    vectors = np.random.default_rng(0).normal(size=(30, 24)).astype(np.float32) * 40
    p = heads.soft(vectors).astype(np.float64)
    frequency = p.sum(0)
    naive = np.empty_like(p)
    for i in range(len(p)):
        for k in range(4):
            naive[i, k] = p[i, k] ** 2 / frequency[k]
        naive[i] /= naive[i].sum()
    np.testing.assert_allclose(heads.sharpened(vectors), naive, atol=1e-5)
    order = np.random.default_rng(1).permutation(len(p))
    np.testing.assert_allclose(heads.sharpened(vectors[order]), heads.sharpened(vectors)[order], atol=1e-5)


def test_uft_draws_texts_to_their_target() -> None:
    heads = UftHeads(trunk_of(), np.random.default_rng(0).normal(size=(3, 24)), 1.0, None, Path("nowhere"), 0)
    vectors = np.random.default_rng(1).normal(size=(5, 24)).astype(np.float32)
    p, q = heads.sharpened(vectors).astype(np.float64), heads.soft(vectors).astype(np.float64)
    naive = (p * np.log(p / q)).sum()
    assert heads.divergence(torch.from_numpy(vectors), torch.from_numpy(p).float()).item() == pytest.approx(
        naive, abs=1e-5
    )
    sure = torch.eye(3)[[0, 1, 2, 0, 1]]
    assert torch.isfinite(heads.divergence(torch.from_numpy(vectors), sure)).all()


def test_an_encoders_own_head_is_used_where_it_has_one(tmp_path: Path) -> None:
    model = BertForMaskedLM(BertConfig(**SIZES))
    model.save_pretrained(tmp_path)
    found = pretrained_token_head(tmp_path)
    assert found is not None
    trunk = Trunk(model.bert, 1)
    words, states = TokenHead(trunk, None, found).eval(), torch.randn(3, 24)
    torch.testing.assert_close(words.logits(states), model.cls(states), atol=1e-5, rtol=1e-4)
    assert words.is_pretrained and not TokenHead(trunk).is_pretrained
    assert not TokenHead(trunk, None, found | {"bias": torch.zeros(61)}).is_pretrained  # of another vocabulary
    assert pretrained_token_head(find_folder(EMBEDDED)) is None
