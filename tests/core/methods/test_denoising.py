"""TSDAE, ClusterBERT and UFT as whole methods: ablations, golden curves, what they refuse."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import RobertaConfig, RobertaForMaskedLM, RobertaTokenizerFast

from core.clusters.clustering import matched_numbers
from core.encoder.shape import Shape
from core.errors import BadInput
from core.events import Checkpoint, Event, Measured, Note, Slot, Snapshot
from core.maps.projector import Projector
from core.methods import find_method
from core.methods.clusterbert import ClusterBert
from core.methods.tsdae import Tsdae
from core.runs.config import resolve
from core.runs.pipeline import prepare
from core.runs.store import Run, Store
from core.runs.worker import drive
from core.tables.corpus import Corpus
from tests.conftest import make_config, obvious_table

QUICK: dict[str, dict[str, object]] = {
    "tsdae": {"batch": 9, "every": 2, "depth": "1"},
    "clusterbert": {"batch": 9, "every": 3, "depth": "1", "rounds": 2, "form_epochs": 1, "adapt_epochs": 1.0},
    "uft": {"batch": 9, "every": 3, "depth": "1", "epochs": 2, "warm_up": 4},
}
GOLDEN = {
    "tsdae": [3.560925, 2.316388],
    "clusterbert": [3.195072, 2.16941, 0.613179, 0.630305, 0.614987, 0.600437, 0.613251],
    "uft": [4.225666, 3.785496, 4.036387],
}


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store all tests of this file share."""
    return Store(tmp_path_factory.mktemp("runs"))


def finish(store: Store, corpus: Corpus, projector: Projector, method: str, **knobs: object) -> tuple[Run, list[Event]]:
    run = store.create(make_config(corpus, method, **(QUICK[method] | knobs)), corpus)
    told: list[Event] = []
    assert drive(run, projector, lambda: False, told.append) == "finished", run.story().traceback
    return run, told


def terms(told: list[Event], stage: str) -> set[str]:
    named = {"loss", "clustering", "reconstruction", "masked words"}
    return {
        name for event in told if isinstance(event, Measured) and event.stage == stage for name in event.values
    } & named


def says_head_is_new(told: list[Event]) -> bool:
    return any("has no masked-language-model head" in event.text for event in told if isinstance(event, Note))


@pytest.mark.parametrize("method", QUICK)
def test_the_loss_curve_is_the_one_we_know(
    method: str, corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    """Golden: pinned on one CPU thread; a change of maths, noise, batches or seeds shows here first."""
    _, told = finish(shared_store, corpus, projector, method, seed=3)
    curve = [event.values["loss"] for event in told if isinstance(event, Measured) and "loss" in event.values]
    np.testing.assert_allclose(curve, GOLDEN[method], rtol=1e-4)


def test_every_stage_has_its_losses_and_the_ablation_has_none_for_words(
    corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    _, told = finish(shared_store, corpus, projector, "clusterbert")
    assert terms(told, "adapt") == {"loss", "reconstruction"}
    assert terms(told, "form") == terms(told, "harden") == {"loss", "reconstruction", "clustering"}
    _, told = finish(shared_store, corpus, projector, "clusterbert", reconstruct=False)
    assert terms(told, "form") == {"loss", "clustering"}
    _, told = finish(shared_store, corpus, projector, "uft")
    assert terms(told, "warm up") == {"loss", "masked words"}
    assert terms(told, "train") == {"loss", "clustering", "masked words"}
    assert says_head_is_new(told)
    _, told = finish(shared_store, corpus, projector, "uft", mlm=False)
    assert terms(told, "train") == {"loss", "clustering"} and not terms(told, "warm up")
    assert not says_head_is_new(told)


def test_labels_are_those_of_ufts_own_assignment_and_heads_are_kept(
    corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    run, _ = finish(shared_store, corpus, projector, "uft", rate=1e-3)
    clustering = run.results.clustering()
    assert clustering.beside.keys() == {"q"}
    np.testing.assert_array_equal(clustering.beside["q"].argmax(1), clustering.labels)
    np.testing.assert_array_equal(clustering.soft.argmax(1), clustering.labels)
    assert clustering.soft.max(1).mean() > clustering.beside["q"].max(1).mean()  # made readable
    run, _ = finish(shared_store, corpus, projector, "clusterbert", rate=1e-3)
    told = run.results.clustering().beside["p"]
    np.testing.assert_allclose(told.sum(1), 1, atol=1e-5)
    assert (told.argmax(1) == run.results.clustering().labels).mean() > 0.9


def test_a_moment_that_was_kept_has_the_head_it_had(corpus: Corpus, shared_store: Store, projector: Projector) -> None:
    run, _ = finish(shared_store, corpus, projector, "clusterbert")
    run.choose("form", 3)
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    told = run.results.clustering().beside["p"]
    assert np.isfinite(told).all() and (told.argmax(1) == run.results.clustering().labels).mean() > 0.9


def test_while_the_head_warms_up_nothing_else_moves(corpus: Corpus, shared_store: Store, projector: Projector) -> None:
    _, told = finish(shared_store, corpus, projector, "uft", rate=1e-2, head_rate=1e-2)
    before, after = (
        next(
            event
            for event in told
            if isinstance(event, Checkpoint) and (event.stage, event.slot, event.number) == ("warm up", Slot.LOOK, step)
        )
        for step in (0, 4)
    )
    moved = {name for name, array in after.arrays.items() if not np.array_equal(array, before.arrays[name])}
    assert moved and all(name.startswith("heads.words.") for name in moved)


def byte_pair_encoder(folder: Path, texts: list[str]) -> str:
    """Build a tiny RoBERTa with byte pairs learnt from texts, among them the token that looks like WordPiece's."""
    torch.manual_seed(0)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=True)
    tokenizer.train_from_iterator([*texts, "### ###"], 400, 1, special_tokens=special)
    tokenizer.save_model(str(folder))
    RobertaTokenizerFast.from_pretrained(folder, add_prefix_space=True).save_pretrained(folder)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    places = {"max_position_embeddings": 40, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    config = RobertaConfig(vocab_size=tokenizer.get_vocab_size(), **sizes, **places)
    RobertaForMaskedLM(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("method", QUICK)
def test_a_roberta_learns_as_a_bert_does(
    method: str, corpus: Corpus, shared_store: Store, projector: Projector, tmp_path: Path
) -> None:
    encoder = byte_pair_encoder(tmp_path, corpus.texts)
    built = find_method(method).from_knobs({"clusters": 3} | QUICK[method])
    config = resolve(corpus, built, file="t.csv", file_sha256="0" * 64, reading={}, encoder=encoder)
    assert config.knobs["pooling"] == ("mean" if method == "uft" else "first")  # its files do not say
    run = shared_store.create(config, corpus)
    told: list[Event] = []
    assert drive(run, projector, lambda: False, told.append) == "finished", run.story().traceback
    losses = [event.values["loss"] for event in told if isinstance(event, Measured) and "loss" in event.values]
    assert len(losses) > 1 and np.isfinite(losses).all() and not says_head_is_new(told)


def test_snapshots_of_every_stage_are_kept_with_what_labels_say_of_them(
    corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    run, told = finish(shared_store, corpus, projector, "clusterbert")
    names = shared_store.open(run.id).snapshots()
    assert names[0] == ("adapt", 0) and {stage for stage, _ in names} == {"adapt", "form", "harden", "cluster"}
    taken = [event for event in told if isinstance(event, Snapshot)]
    assert [(event.stage, event.step) for event in taken] == names
    kept = run.snapshot(*names[-1])
    np.testing.assert_array_equal(kept.labels, taken[-1].labels)
    np.testing.assert_allclose(kept.vectors, taken[-1].vectors, atol=2e-3)
    judged = [event.values for event in told if isinstance(event, Measured) and "acc" in event.values]
    assert len(judged) == len(taken) - 1 and judged[0]["acc"] > 0.9


def test_without_labels_nothing_is_judged(corpus: Corpus, shared_store: Store, projector: Projector) -> None:
    bare = Corpus(corpus.table, "text")
    seen_with, told_with = finish(shared_store, corpus, projector, "tsdae")
    seen, told = finish(shared_store, bare, projector, "tsdae")
    assert not any("acc" in event.values for event in told if isinstance(event, Measured))
    np.testing.assert_array_equal(seen.results.clustering().vectors, seen_with.results.clustering().vectors)


def test_an_encoder_that_cannot_decode_is_refused_before_anything_starts(
    corpus: Corpus, tmp_path: Path, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.methods.tsdae.read_shape", lambda name: Shape("distilbert", 6, 768, 3_072))
    for method in ("tsdae", "clusterbert"):
        with pytest.raises(BadInput, match="is a distilbert, which cannot serve as a decoder"):
            prepare(make_config(corpus, method, **QUICK[method]), corpus, tmp_path, projector)


def test_new_clusters_take_the_numbers_of_the_old_ones() -> None:
    random = np.random.default_rng(0)
    old = random.integers(6, size=200)
    renamed = random.permutation(6)[old]
    np.testing.assert_array_equal(matched_numbers(old, renamed, 6)[renamed], old)
    new = renamed.copy()
    new[:20] = random.integers(6, size=20)
    assert (matched_numbers(old, new, 6)[new] == old).mean() > 0.85


def test_stages_without_epochs_are_passed_over(corpus: Corpus, shared_store: Store, projector: Projector) -> None:
    run, told = finish(shared_store, corpus, projector, "clusterbert", adapt_epochs=0.0, harden_epochs=0)
    assert not terms(told, "adapt") and not terms(told, "harden") and terms(told, "form")


@pytest.mark.parametrize("softmax", ["corpus", "full"])
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_words_and_pooling_are_knobs(
    softmax: str, pooling: str, corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    knobs = {"softmax": softmax, "pooling": pooling}
    _, told = finish(shared_store, corpus, projector, "tsdae", **knobs)
    _, usual = finish(shared_store, corpus, projector, "tsdae")
    losses, same = (
        [event.values["loss"] for event in some if isinstance(event, Measured) and "loss" in event.values]
        for some in (told, usual)
    )
    assert len(losses) == len(same) > 0 and np.isfinite(losses).all()
    # The embedded encoder was trained with the mean of its tokens; over all tokens a loss is larger.
    assert np.allclose(losses, same, rtol=1e-6) == (knobs == {"softmax": "corpus", "pooling": "mean"})
    assert softmax == "corpus" or losses[0] > same[0]


@pytest.mark.parametrize("method", ["clusterbert", "uft", "tsdae", "sccl"])
@pytest.mark.parametrize(("rows", "clusters"), [(4, 2), (4, 4), (10, 2)])
def test_a_handful_of_texts_is_divided_too(
    method: str, rows: int, clusters: int, shared_store: Store, projector: Projector
) -> None:
    """Every text is near every other in so small a table: nothing may be smoothed into one."""
    table = obvious_table()
    few = Corpus(table[table["group"] != table["group"][0]].iloc[:rows].reset_index(drop=True), "text")
    knobs = {"steps": 4, "every": 2} if method == "sccl" else QUICK[method]
    run = shared_store.create(make_config(few, method, **(knobs | {"clusters": clusters, "depth": "1"})), few)
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    assert len(np.unique(run.results.clustering().labels)) == clusters


def test_a_collapse_while_adapting_is_told_and_undone(
    corpus: Corpus, shared_store: Store, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "core.learning.guard.Guard.health", lambda self, look, first=None: 0.0 if look.step >= 2 else 1.0
    )
    _, told = finish(shared_store, corpus, projector, "tsdae")
    assert any("as it was at step 0" in event.text for event in told if isinstance(event, Note))


@pytest.mark.parametrize("method", QUICK)
def test_a_cpu_says_the_tokens_of_the_corpus_and_a_gpu_all(method: str) -> None:
    shape, lengths = Shape("bert", 6, 384, 1_536), np.full(50, 9.0)
    built = find_method(method).from_knobs({})
    cpu, reasons = built.settled(lengths, shape, "cpu")
    assert cpu.softmax == "corpus" and "corpus's tokens" in reasons["softmax"]
    gpu, reasons = built.settled(lengths, shape, "cuda")
    assert gpu.softmax == "full" and "softmax" not in reasons
    asked, reasons = find_method(method).from_knobs({"softmax": "full"}).settled(lengths, shape, "cpu")
    assert asked.softmax == "full" and "softmax" not in reasons


def test_noise_is_counted_when_depth_is_settled() -> None:
    lengths = np.full(20_000, 12.0)
    frozen, trained = ClusterBert().trained_tokens(lengths)
    assert trained > Tsdae().trained_tokens(lengths)[1] > 0
    assert frozen == pytest.approx((2 + 4.2 * 0.6) * lengths.sum()) and trained == pytest.approx(
        4.2 * 1.6 * lengths.sum()
    )
    assert ClusterBert(reconstruct=False).trained_tokens(lengths)[1] < trained / 2
