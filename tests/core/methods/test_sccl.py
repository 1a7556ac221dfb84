"""SCCL: its ablations, its refusals, its views, and the curve it is known to follow."""

from pathlib import Path

import numpy as np
import pytest

from core.clusters.neighbours import joined_views, near_rows
from core.encoder.shape import Shape
from core.errors import BadInput
from core.events import Event, Measured, Note
from core.learning.learner import Learner
from core.learning.networks import ScclHeads
from core.maps.projector import Projector
from core.methods.sccl import CLUSTER_LOSSES, OBJECTIVES, VIEWS, Sccl
from core.runs.pipeline import prepare
from core.runs.store import Run, Store
from core.runs.worker import drive
from core.tables.corpus import Corpus
from core.topics.words import Words
from tests.conftest import TINY, drained, make_config, obvious_table

QUICK = {"steps": 4, "every": 2, "depth": "1", "batch": 16}


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


def finish(store: Store, corpus: Corpus, projector: Projector, **knobs: object) -> tuple[Run, list[Event]]:
    run = store.create(make_config(corpus, "sccl", **(QUICK | knobs)), corpus)
    told: list[Event] = []
    assert drive(run, projector, lambda: False, told.append) == "finished", run.story().traceback
    return run, told


def terms(told: list[Event]) -> set[str]:
    return {name for event in told if isinstance(event, Measured) for name in event.values}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_runs_with_its_own_terms(
    objective: str, corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    run, told = finish(shared_store, corpus, projector, objective=objective)
    wanted = {"joint": {"contrastive", "clustering"}, "sequential": {"contrastive", "clustering"}}
    assert terms(told) & {"contrastive", "clustering"} == wanted.get(objective, {objective})
    q = np.load(run.folder / "clustering" / "beside-q.npy", allow_pickle=False)
    assert q.shape == (len(corpus.used), 3)
    np.testing.assert_allclose(q.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("cluster_loss", CLUSTER_LOSSES)
def test_every_cluster_loss_runs(cluster_loss: str, corpus: Corpus, shared_store: Store, projector: Projector) -> None:
    finish(shared_store, corpus, projector, cluster_loss=cluster_loss, augmenter="worddrop")


@pytest.mark.parametrize(
    "augmenter",
    [view for view in VIEWS if view not in ("columns", "wordnet", "backtranslation") and "contextual" not in view],
)
def test_every_source_of_views_runs(augmenter: str, corpus: Corpus, shared_store: Store, projector: Projector) -> None:
    _, told = finish(shared_store, corpus, projector, augmenter=augmenter)
    assert any(isinstance(event, Note) and "is kept" in event.text for event in told)


def test_views_may_come_from_columns_but_never_from_the_labels(
    corpus: Corpus, shared_store: Store, projector: Projector, tmp_path: Path
) -> None:
    table = obvious_table().assign(other=lambda t: "Really: " + t["text"], more=lambda t: t["text"] + " indeed")
    wide = Corpus(table, "text", "group")
    finish(shared_store, wide, projector, augmenter="columns", first_view="other", second_view="more")
    for views, sentence in (
        ({"first_view": "group", "second_view": "more"}, "no training may see"),
        ({}, "There is no column"),
    ):
        with pytest.raises(BadInput, match=sentence):
            prepare(make_config(wide, "sccl", augmenter="columns", **views), wide, tmp_path, projector)


def test_dropout_at_depth_0_is_refused_in_words(corpus: Corpus, tmp_path: Path, projector: Projector) -> None:
    with pytest.raises(BadInput, match="both views would be equal"):
        prepare(make_config(corpus, "sccl", augmenter="dropout", depth="0"), corpus, tmp_path, projector)


def test_depth_is_settled_when_the_run_is_made_and_its_reason_is_kept(corpus: Corpus) -> None:
    config = make_config(corpus, "sccl")
    assert config.knobs["depth"] == "6" and config.reasons["depth"].startswith("The top 6 of 6 layers learn")
    assert "--set depth=6" in config.command()
    many, _ = Sccl().settled(np.full(200_000, 9.0), Shape("bert", 6, 384, 1_536), "cpu")
    assert 1 <= int(many.depth) < 6  # type: ignore[attr-defined]


def test_the_heads_losses_are_the_papers() -> None:
    import torch

    from core.learning.losses import kl_rows, log_student_t, log_target, nt_xent

    torch.manual_seed(0)
    original, first, second = torch.randn(3, 6, 5)
    made = {}
    for kind in CLUSTER_LOSSES:
        settings = {"weight": 10.0, "temperature": 0.5, "alpha": 1.0, "seed": 0}
        heads = ScclHeads(np.random.default_rng(0).normal(size=(4, 5)), cluster_loss=kind, **settings)
        made[kind] = heads.joint(original, first, second)
    mu = heads.centres.mu
    q, q1, q2 = (log_student_t(view, mu, 1.0) for view in (original, first, second))
    p, p1, p2 = map(log_target, (q, q1, q2))
    pull = nt_xent(heads.contrast(first), heads.contrast(second), 0.5)
    expected = {
        "original": kl_rows(p, q),
        "crossed": kl_rows(p1, q2) + kl_rows(p2, q1),
        "anchored": kl_rows(p, q1) + kl_rows(p, q2),
    }
    for kind, term in expected.items():
        torch.testing.assert_close(made[kind]["loss"], 10 * pull + term)


def test_the_loss_curve_is_the_one_we_know(corpus: Corpus, shared_store: Store, projector: Projector) -> None:
    """Golden: pinned on one CPU thread; a change of maths, batches or seeds shows here first."""
    _, told = finish(shared_store, corpus, projector, seed=3)
    curve = [event.values["loss"] for event in told if isinstance(event, Measured) and "loss" in event.values]
    np.testing.assert_allclose(curve, GOLDEN, rtol=1e-4)


GOLDEN = [14.052307, 11.202215]


def test_near_rows_are_about_the_same_and_never_the_text_itself(corpus: Corpus, projector: Projector) -> None:
    random = np.random.default_rng(0)
    truth = np.array([{"food": 0, "space": 1, "sport": 2}[str(name)] for name in corpus.truth()])  # type: ignore[union-attr]
    vectors = (np.eye(3)[truth] + 0.1 * random.normal(size=(len(truth), 3))).astype(np.float32)
    space = joined_views(vectors, Words.of(corpus.texts).lexical(0))
    near = drained(near_rows(space, 5, 0))[0]
    assert near.shape == (len(truth), 5) and (truth[near] == truth[:, None]).mean() > 0.95
    assert (near != np.arange(len(truth))[:, None]).all()
    np.testing.assert_allclose(np.linalg.norm(space, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(near[:, 0], (space @ space.T - 3 * np.eye(len(space))).argmax(1))


def test_a_loss_that_is_no_number_ends_training_at_the_last_good_checkpoint(
    corpus: Corpus, shared_store: Store, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = ScclHeads.joint, []

    def broken(self: ScclHeads, *views: object) -> dict[str, object]:
        calls.append(1)
        found = original(self, *views)  # type: ignore[arg-type]
        return found if len(calls) < 4 else {name: term * float("nan") for name, term in found.items()}

    monkeypatch.setattr(ScclHeads, "joint", broken)
    run, told = finish(shared_store, corpus, projector, steps=10)
    notes = [event.text for event in told if isinstance(event, Note)]
    assert "The loss became NaN or infinite: training ends as it was at step 2." in notes
    assert np.isfinite(run.results.clustering().vectors).all()


def test_short_memory_in_a_step_is_told_once_and_the_run_goes_on(
    corpus: Corpus, shared_store: Store, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core.learning.learner import Learner, Source

    original = Learner._forward

    def scarce(self: Learner, rows: np.ndarray, source: Source | None = None) -> object:
        if self.trunk.training and self.source.lengths[rows].sum() > 300:
            raise MemoryError
        return original(self, rows, source)

    monkeypatch.setattr(Learner, "_forward", scarce)
    _, told = finish(shared_store, corpus, projector, batch=36, augmenter="worddrop")
    assert len([event for event in told if isinstance(event, Note) and "Memory ran short" in event.text]) == 1


def test_a_step_takes_few_texts_of_a_small_table_where_similar_ones_are_drawn() -> None:
    """The five most similar texts of one must not fill the batch that pushes it from all others."""
    assert [Sccl(batch=256)._size(texts) for texts in (5, 400, 20_000)] == [2, 50, 256]
    assert [Sccl(batch=256, augmenter="worddrop")._size(texts) for texts in (5, 400, 20_000)] == [5, 256, 256]


def test_at_depth_0_only_the_heads_learn(corpus: Corpus, shared_store: Store, projector: Projector) -> None:
    run, told = finish(shared_store, corpus, projector, depth="0")
    before, _ = finish(shared_store, corpus, projector, depth="0", steps=1, every=1)
    np.testing.assert_allclose(run.results.clustering().vectors, before.results.clustering().vectors, atol=1e-6)
    assert not any(name.startswith("trunk.") for name in run.state().find("train").arrays)


def test_a_resumed_run_keeps_the_start_where_nothing_was_better(
    corpus: Corpus, shared_store: Store, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first look stays the best, its weights are what is kept, stopped in between or not."""
    monkeypatch.setattr("core.learning.guard.Guard.score", lambda self, look: -look.step)
    whole, _ = finish(shared_store, corpus, projector, rate=1e-3)
    stopped = shared_store.create(make_config(corpus, "sccl", **(QUICK | {"rate": 1e-3})), corpus)
    seen: list[Event] = []
    assert drive(stopped, projector, lambda: stopped.state().find("train") is not None, seen.append) == "stopped"
    assert drive(stopped, projector, lambda: False) == "finished"
    np.testing.assert_array_equal(stopped.results.clustering().vectors, whole.results.clustering().vectors)
    before, _ = finish(shared_store, corpus, projector, depth="0")
    np.testing.assert_allclose(whole.results.clustering().vectors, before.results.clustering().vectors, atol=2e-3)


@pytest.mark.parametrize("first", [True, False])
def test_vectors_that_are_no_numbers_at_a_look_are_told_in_a_sentence(
    corpus: Corpus, shared_store: Store, projector: Projector, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    vectors = Learner.vectors

    def spoilt(self: Learner, rows: np.ndarray, source: object = None):  # noqa: ANN202 - as it yields
        for places, batch in vectors(self, rows, source):
            yield places, batch * (np.nan if first or self.steps >= 4 else 1)

    monkeypatch.setattr(Learner, "vectors", spoilt)
    run = shared_store.create(make_config(corpus, "sccl", steps=6, every=2, depth="1", encoder=TINY), corpus)
    status = drive(run, projector, lambda: False)
    told = [text for _, text in run.story().notes] + [run.story().message]
    if first:
        assert status == "failed" and "The encoder gives vectors that are not numbers" in told[-1]
    else:
        assert any("training ends as it was at step 2" in text for text in told), told
