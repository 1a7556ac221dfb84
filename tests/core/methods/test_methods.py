"""The battery every method goes through, by name."""

from pathlib import Path

import numpy as np
import pytest

from core.bench.forecast import rough_forecast
from core.clusters.evaluate import accuracy
from core.errors import BadInput
from core.events import Checkpoint, Event, Measured, Progress, StageStarted
from core.maps.projector import Projector
from core.methods import METHODS, find_method
from core.methods.deep import Deep
from core.runs.pipeline import prepare, road
from core.runs.store import Run, Store
from core.runs.worker import drive
from core.tables.corpus import Corpus
from tests.conftest import TINY, make_config, obvious_table

QUICK: dict[str, dict[str, object]] = {
    "sccl": {"steps": 6, "every": 2, "depth": "1"},
    "tsdae": {"batch": 8, "every": 2, "depth": "1"},
    "uft": {"batch": 8, "every": 2, "depth": "1", "epochs": 2, "warm_up": 3},
    "clusterbert": {"batch": 8, "every": 2, "depth": "1"},
}


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store all tests of this file share, so that vectors are encoded once."""
    return Store(tmp_path_factory.mktemp("runs"))


def finish(store: Store, corpus: Corpus, projector: Projector, **options: object) -> tuple[Run, list[Event]]:
    """Make a run and drive it to its end."""
    run = store.create(make_config(corpus, **(QUICK.get(str(options.get("method")), {}) | options)), corpus)
    told: list[Event] = []
    status = drive(run, projector, lambda: False, told.append)
    assert status == "finished", run.story().traceback
    return run, told


@pytest.mark.parametrize("method", METHODS)
def test_finds_obvious_groups_the_same_way_with_every_seed(
    method: str, corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    truth = corpus.truth()
    assert truth is not None
    first, told = finish(shared_store, corpus, projector, method=method)
    again, _ = finish(shared_store, corpus, projector, method=method)
    other, _ = finish(shared_store, corpus, projector, method=method, seed=7)
    np.testing.assert_array_equal(first.results.clustering().labels, again.results.clustering().labels)
    np.testing.assert_array_equal(first.results.clustering().soft, again.results.clustering().soft)
    for run in (first, other):
        clustering = run.results.clustering()
        assert accuracy(truth.astype(str), clustering.labels) > (0.95 if method == "embed" else 0.6)
        assert (clustering.labels == clustering.soft.argmax(1)).all()
        np.testing.assert_allclose(clustering.soft.sum(1), 1, atol=1e-5)
        assert clustering.vectors.dtype == np.float32 and len(clustering.vectors) == len(corpus.used)
    _check_progress(method, told)


def _check_progress(method: str, told: list[Event]) -> None:
    """Every stage that the method names is begun in that order and reaches its total."""
    begun = [event.stage for event in told if isinstance(event, StageStarted)]
    assert begun == [*METHODS[method].stages, "map", "describe"]
    for stage in begun:
        progress = [event for event in told if isinstance(event, Progress) and event.stage == stage]
        assert progress[-1].done == progress[-1].total
        assert [event.done for event in progress] == sorted(event.done for event in progress)


@pytest.mark.parametrize("method", METHODS)
def test_umap_before_kmeans_is_a_knob_of_every_method(
    method: str, corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    run, _ = finish(shared_store, corpus, projector, method=method, partition="umap+kmeans")
    clustering = run.results.clustering()
    assert clustering.centres is None and (clustering.labels == clustering.soft.argmax(1)).all()


@pytest.mark.parametrize("method", METHODS)
def test_stopped_within_any_stage_it_opens_and_resumes_to_the_same_result(
    method: str, corpus: Corpus, shared_store: Store, projector: Projector
) -> None:
    """Every stage is cut at its beginning, in its middle and before its end, on a tiny encoder."""
    finish(shared_store, corpus, projector, method=method, encoder=TINY)  # later runs find what the first has cached
    whole, told = finish(shared_store, corpus, projector, method=method, encoder=TINY)
    stages = [0, *(place for place, event in enumerate(told) if isinstance(event, StageStarted)), len(told)]
    spans = list(zip(stages[:-1], stages[1:], strict=True))
    for stop_at in sorted({place for begin, end in spans for place in (begin + 1, (begin + end) // 2, end - 1)}):
        if not 0 < stop_at < len(told):
            continue
        run = shared_store.create(make_config(corpus, method, encoder=TINY, **QUICK.get(method, {})), corpus)
        seen: list[Event] = []
        status = drive(run, projector, lambda seen=seen, stop_at=stop_at: len(seen) >= stop_at, seen.append)
        opened = shared_store.open(run.id)
        assert status == opened.status() == "stopped"
        assert opened.config.method == method and len(opened.corpus().table) == len(corpus.table)
        assert drive(opened, projector, lambda: False) == "finished", opened.story().traceback
        found, expected = opened.results.clustering(), whole.results.clustering()
        np.testing.assert_array_equal(found.labels, expected.labels, str(told[stop_at - 1]))
        np.testing.assert_array_equal(found.soft, expected.soft)
    assert any(isinstance(event, Checkpoint) for event in told)


@pytest.mark.parametrize("method", [name for name, kind in METHODS.items() if issubclass(kind, Deep)])
def test_training_does_not_end_below_its_own_start(method: str, shared_store: Store, projector: Projector) -> None:
    """On groups that a language model tells apart only in part, with every seed."""
    table = obvious_table(40)
    shared = [
        f"{text} in the morning of a long and rainy day number {row % 7}" for row, text in enumerate(table["text"])
    ]
    corpus = Corpus(table.assign(text=shared).astype("str"), "text", "group")
    for seed in (0, 1):
        run, told = finish(shared_store, corpus, projector, method=method, seed=seed)
        judged = [event.values["acc"] for event in told if isinstance(event, Measured) and "acc" in event.values]
        assert run.results.clustering().before.shape == run.results.clustering().vectors.shape, (
            "for pairs before and after"
        )
        assert len(judged) > 1 and run.results.metrics()["acc"] >= judged[0] - 0.02, (judged, run.results.metrics())


@pytest.mark.parametrize("method", METHODS)
def test_every_knob_has_help_and_bounds_and_refuses_in_words(method: str) -> None:
    kind = METHODS[method]
    assert kind.knobs()[0].name == "clusters"
    for knob in kind.knobs():
        assert knob.help.endswith(".") and len(knob.help) > 10
        assert knob.read(knob.default) == knob.default == knob.read(str(knob.default))
        assert knob.kind is bool or knob.choices or (knob.low is not None and knob.high is not None)
        free_text = knob.kind is str and not knob.choices
        outside = [knob.low - 1, knob.high + 1] if knob.low is not None and knob.high else []
        for bad in ["x" * 999 if free_text else "nonsense", None, [], *outside]:
            with pytest.raises(BadInput, match=knob.name) as refusal:
                kind.from_knobs({knob.name: bad})
            assert "\n" not in str(refusal.value)
    with pytest.raises(BadInput, match="has no knob"):
        kind.from_knobs({"nonsense": 1})


@pytest.mark.parametrize("method", METHODS)
def test_every_preset_sets_knobs_that_are_there_to_values_they_take(method: str) -> None:
    kind = METHODS[method]
    for name, knobs in kind.presets.items():
        assert name and kind.from_knobs(knobs)
    assert not kind.presets or [name for name, knobs in kind.presets.items() if not knobs] == ["balanced"]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_when_to_choose_it_and_what_it_is_related_to(method: str) -> None:
    about = METHODS[method].__doc__ or ""
    assert "Choose it" in about and "Relations:" in about


@pytest.mark.parametrize("method", METHODS)
def test_too_few_texts_are_refused_before_anything_starts(method: str, tmp_path: Path, projector: Projector) -> None:
    corpus = Corpus(obvious_table(2), "text")
    with pytest.raises(BadInput, match="6 different texts and 40 clusters"):
        prepare(make_config(corpus, method, clusters=40), corpus, tmp_path, projector)


@pytest.mark.parametrize("method", METHODS)
def test_the_road_is_known_before_it_is_walked(
    method: str, corpus: Corpus, tmp_path: Path, projector: Projector
) -> None:
    bench, built = prepare(make_config(corpus, method), corpus, tmp_path, projector)
    stages = road(built, rough_forecast(bench))
    assert [stage.name for stage in stages] == [*built.stages, "map", "describe"]
    assert all(stage.seconds > 0 for stage in stages)
    assert all(built.about[stage.name].endswith(".") for stage in stages)


def test_the_bench_holds_no_labels(corpus: Corpus, tmp_path: Path, projector: Projector) -> None:
    bench, _ = prepare(make_config(corpus), corpus, tmp_path, projector)
    assert not {"label", "labels", "truth", "corpus", "table"} & set(vars(bench))


def test_files_and_registry_agree() -> None:
    folder = Path(__file__).parents[3] / "core" / "methods"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "base", "deep"}
    assert files == set(METHODS), "a method file and the registry disagree"
    for name, method in METHODS.items():
        assert method.name == name and method.__module__ == f"core.methods.{name}"


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(BadInput, match="there are embed, sccl, clusterbert, uft, tsdae, tfidf, bow"):
        find_method("nonsense")


def test_more_texts_than_the_map_samples_are_placed_beside_their_neighbours(
    shared_store: Store, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.runs.config.MAP_SAMPLE", 30)
    corpus = Corpus(obvious_table(20), "text")
    run, _ = finish(shared_store, corpus, projector)
    sample, points = run.results.map("umap")
    assert len(sample) == 30 and points.shape == (60, 2) and np.isfinite(points).all()
    low, high = points[sample].min(0), points[sample].max(0)
    assert (points >= low - 1e-3).all() and (points <= high + 1e-3).all()
