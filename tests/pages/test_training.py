"""The train page: forms, estimates, starting, watching, the queue and the replay."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.events import Queued, StageStarted
from core.maps.projector import Projector
from core.methods import METHODS
from core.runs.frames import ENDED
from core.runs.labelling import Labelling
from core.runs.painter import Painter, paint
from core.runs.store import Run, Store
from core.runs.worker import drive
from core.tables.corpus import Corpus
from pages.parts import live, progress, services
from pages.parts.curves import curves_figure
from pages.parts.figures import Colouring
from pages.parts.replay import live_figure, replay_figure
from tests.conftest import make_config, obvious_table
from tests.core.runs.test_worker import slowly, wait_for
from tests.pages.tabs import HOSTILE, bring, has_button, open_page, prepared, words_on


def test_starting_a_run_walks_to_the_end_and_a_refusal_starts_nothing(store: Store) -> None:
    import time

    tab = bring(open_page("corpus"), obvious_table(6))
    tab.switch_page("pages/train.py").run()
    tab.button(key="choose-tfidf").click().run()
    tab.number_input(key="knob-tfidf-clusters").set_value(500).run()
    next(button for button in tab.button if button.label == "Start").click().run()
    assert "18 different texts and 500 clusters" in tab.error[0].value and not store.runs()
    tab.number_input(key="knob-tfidf-clusters").set_value(3).run()
    next(button for button in tab.button if button.label == "Start").click().run()
    run = store.runs()[0]
    until = time.monotonic() + 120
    while run.status() != "finished" and time.monotonic() < until:
        time.sleep(0.1)
    assert "Finished in" in words_on(tab.run()) and run.id in tab.query_params["run"]


def test_before_a_run_is_started_its_time_and_memory_are_told(projector: Projector) -> None:
    tab = bring(open_page("corpus"), obvious_table())
    tab.switch_page("pages/train.py").run()
    assert "**About" in words_on(tab) and "GB of memory" in words_on(tab)
    wait_for(lambda: "Measured on this machine" in words_on(tab.run()), 60)
    tab.button(key="choose-sccl").click().run()
    told = words_on(tab)
    assert "train" in told and "layers learn" in told
    next(field for field in tab.number_input if field.label == "Clusters").set_value(2_000).run()
    assert "**About" not in words_on(tab), "what cannot be run has no forecast"


def deep_run(store: Store, corpus: Corpus, projector: Projector) -> Run:
    """Train for a moment, so that there are snapshots, curves and checkpoints."""
    run = store.create(make_config(corpus, "sccl", steps=4, every=2, depth="1", rate=1e-3), corpus)
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    return run


def test_a_finished_training_shows_its_replay_curves_and_what_can_be_kept(
    corpus: Corpus, store: Store, projector: Projector
) -> None:
    run = deep_run(store, corpus, projector)
    painter = Painter(run, projector)
    painter.finish()
    while painter.is_at_work():
        time.sleep(0.1)
    tab = open_page("train", run.id)
    words = words_on(tab)
    assert "4 pictures" in words and "all 36 texts" in words
    assert any("Keep it" in button.label for button in tab.button)
    chosen = next(box for box in tab.selectbox if box.label == "Colour by")
    chosen.select("group").run()
    words_on(tab)
    next(box for box in tab.selectbox if box.label == "Moment").select_index(0).run()
    next(button for button in tab.button if button.label == "Keep it").click().run()
    words_on(tab)
    assert run.status() in ("new", "queued", "running", "finished")
    assert run.state().choice is not None


def test_pages_show_the_results_that_were_made_last(corpus: Corpus, store: Store, projector: Projector) -> None:
    run = deep_run(store, corpus, projector)
    tables = []
    for look in (run.looks()[0], run.looks()[-1]):
        run.choose(*look)
        assert drive(run, projector, lambda: False) == "finished", run.story().traceback
        tables.append(open_page("export", run.id).dataframe[0].value)
        assert tables[-1]["x"].tolist() == Labelling.of(run).table()["x"].tolist()
        words_on(open_page("explore", run.id))
    assert tables[0]["x"].tolist() != tables[1]["x"].tolist()


def test_a_training_at_work_shows_its_newest_picture(corpus: Corpus, store: Store, projector: Projector) -> None:
    run = deep_run(store, corpus, projector)
    for _ in paint(run, projector, "train", 0, "umap"):
        pass
    lock = run.claim()
    run.record(Queued())
    run.record(StageStarted("train", 4))
    words = words_on(open_page("train", run.id))
    assert "Before train: all 36 texts, 1 picture so far" in words
    lock.release()


def test_many_tabs_look_less_often_each_and_closed_ones_are_forgotten(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = prepared(run, "running")
    progress._last_looks.clear()
    for _ in range(3):
        words_on(open_page("train", run.id))
    assert len(progress._last_looks()) == 3
    monkeypatch.setattr(progress, "GONE", 0.0)
    words_on(open_page("train", run.id))
    assert len(progress._last_looks()) == 1
    assert [progress._seconds_between_looks(tabs) for tabs in (1, 2, 3, 5, 50)] == [2, 2, 3, 3, 3]
    assert [progress._seconds_between_lines(tabs) for tabs in (1, 5)] == [2, 10]
    assert lock is not None
    lock.release()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_form(method: str, corpus: Corpus) -> None:
    tab = bring(open_page("corpus"), corpus.table)
    tab.switch_page("pages/train.py").run()
    tab.button(key=f"choose-{method}").click().run()
    words = words_on(tab)
    assert has_button(tab, "Start") and "About" in words and "GB" in words
    assert {item.key for item in (*tab.number_input, *tab.selectbox, *tab.toggle, *tab.text_input)} >= {
        f"knob-{method}-{knob.name}" for knob in METHODS[method].knobs()
    }


def test_what_stands_in_the_way_is_told_before_the_start(corpus: Corpus, store: Store, tmp_path: Path) -> None:
    tab = bring(open_page("corpus"), corpus.table)
    tab.switch_page("pages/train.py").run()
    tab.button(key="choose-sccl").click().run()
    tab.selectbox(key="knob-sccl-augmenter").set_value("contextual").run()
    assert "The augmenter contextual is not available here" in tab.warning[0].value
    tab.button(key="choose-embed").click().run()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"nothing")
    tab.text_input(key="encoder").set_value(str(tmp_path / "broken")).run()
    wait_for(lambda: "its weights cannot be read" in words_on(tab.run()), 60)
    next(button for button in tab.button if button.label == "Start").click().run()
    wait_for(lambda: store.runs()[0].status() == "failed", 60)
    assert "its weights cannot be read" in store.runs()[0].story().message


def test_runs_that_wait_are_listed_and_can_be_withdrawn(
    corpus: Corpus, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly(monkeypatch)
    at_work, waiting = (store.create(make_config(corpus, "bow"), corpus) for _ in range(2))
    for run in (at_work, waiting):
        services.worker().start(run.id)
    wait_for(lambda: at_work.status() == "running")
    assert "Waiting for 1 run to end" in words_on(open_page("train", waiting.id))
    tab = open_page("train", at_work.id)
    assert ":material/hourglass_empty: Waiting: bow" in words_on(tab)
    tab.button(key=f"withdraw-{waiting.id}").click().run()
    assert waiting.status() == "stopped" and services.worker().queue() == [at_work.id]
    assert "withdrawn from the queue" in words_on(open_page("train", waiting.id))


def test_runs_of_one_minute_can_be_told_apart(corpus: Corpus, store: Store) -> None:
    """A menu sends back what it shows: of two equal titles the first would be opened, whichever was meant."""
    names = [store.create(make_config(corpus, "bow"), corpus).id for _ in range(3)]
    for name in names:
        tab = open_page("train", name)
        assert len(set(tab.sidebar.selectbox[0].options)) == 3
        assert tab.run().query_params["run"] in (name, [name])


def test_points_can_be_coloured_by_dates_of_any_century_and_tell_what_they_are() -> None:
    days = [f"{year}-03-0{day}" for year in (1500, 1999, 2020, 9999) for day in range(1, 8)]
    colour = Colouring.by_column(pd.Series([*days, "never"], dtype="str"))
    assert colour.values is not None and np.isfinite(colour.values[:-1]).all() and np.isnan(colour.values[-1])
    assert colour.names_per_point()[[0, 27, 28]].tolist() == ["1500-03-01", "9999-03-07", ""]
    assert live_figure(np.zeros((29, 2)), colour).data[0].hovertext[0] == "1500-03-01"
    hostile = Colouring.by_column(pd.Series([HOSTILE, "b"], dtype="str"))
    assert "<script>" not in "".join(hostile.names_per_point())


def test_clusters_bear_their_names_where_their_points_lie() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, 3], [50, 40, 30, 3])
    middles = np.array([[0, 0], [10, 0], [0, 10], [0.1, 0.0]])
    points = middles[labels] + 0.3 * random.normal(size=(len(labels), 2))
    colour = Colouring.by_cluster(labels, ["<b>delivery</b>", "refund", "app", "delivery again"])
    names = {note.text: (note.x, note.y) for note in live_figure(points, colour).layout.annotations}
    assert list(names) == ["&lt;b&gt;delivery&lt;/b&gt;", "refund", "app", "delivery again"], "the largest first"
    assert np.hypot(names["refund"][0] - 10, names["refund"][1]) < 1
    assert abs(names["delivery again"][1] - names["&lt;b&gt;delivery&lt;/b&gt;"][1]) > 0.3, "moved out of the way"
    assert not live_figure(points, Colouring.by_column(pd.Series(labels.astype(str)))).layout.annotations


def test_no_name_of_one_moment_stays_on_the_map_of_another() -> None:
    """Plotly lays a frame's names over those there are, one by one: what a frame lacks would stay."""
    apart, heaped = np.array([[0.0, 0], [9, 9], [0, 9], [9, 0]]), np.zeros((4, 2))
    colour = Colouring.by_cluster(np.arange(4), ["one", "two", "three", "four"])
    replay = replay_figure([heaped, apart], [colour, colour], ["Before", "The end"])
    before, end = (frame.layout.annotations for frame in replay.frames if frame.name in ("0", "1"))
    assert len(before) == len(end) == 4 and end == replay.layout.annotations
    assert sum(note.visible for note in end) == 4 > sum(note.visible for note in before)


def test_names_cut_short_are_told_apart() -> None:
    points = np.array([[0.0, 0], [9, 9], [0, 9]])
    colour = Colouring.by_cluster(np.arange(3), ["customer, service, agent", "customer, service, phone", "app, login"])
    names = {note.text for note in live_figure(points, colour).layout.annotations}
    assert names == {"customer, agent", "customer, phone", "app, login"}


def test_each_curve_has_a_panel_of_its_own_that_tells_where_it_began() -> None:
    measured = {
        ("adapt", 0): {"silhouette": 0.05},
        ("adapt", 10): {"silhouette": 0.06, "loss": 9.0},
        ("form", 0): {"silhouette": 0.06},
        ("form", 20): {"silhouette": 0.07, "loss": 40.0},
        ("form", 40): {"silhouette": 0.08, "loss": 40.1},
    }
    figure = curves_figure(measured, {"loss": "loss", "silhouette": "clearness", "acc": "accuracy"})
    assert [tuple(curve.x) for curve in figure.data] == [(10,), (30, 50), (0, 10), (10, 30, 50)], "stages follow"
    assert figure.data[1].customdata[1] == "form, step 40"
    told = [note.text for note in figure.layout.annotations]
    assert told[:2] == ["loss: <b>40.1</b>, at first 40", "clearness: <b>0.08</b>, at first 0.06"]
    assert told[2:] == ["adapt", "form"]
    short = {("adapt", 0): {"loss": 9.0}, ("adapt", 2): {"loss": 8.0}, ("form", 0): {"loss": 7.0}}
    short |= {("form", 30): {"loss": 6.0}, ("harden", 0): {"loss": 6.0}, ("harden", 30): {"loss": 5.0}}
    names = curves_figure(short, {"loss": "loss"}).layout.annotations[1:]
    assert [name.yshift < 0 for name in names] == [False, True, False], "names of short stages do not run together"


def test_a_curve_that_hardly_moves_looks_flat_on_either_scale() -> None:
    measured = {("train", step): {"loss": 40 + step / 1_000, "odd": step - 1.0} for step in (1, 2)}
    for logarithmic in (False, True):
        axis = curves_figure(measured, {"loss": "loss"}, logarithmic).layout.yaxis
        low, high = 10 ** np.array(axis.range) if logarithmic else axis.range
        assert axis.type == ("log" if logarithmic else None) and low < 39.5 and high > 40.5
    assert curves_figure(measured, {"odd": "odd"}, logarithmic=True).layout.yaxis.type is None, "0 has no logarithm"
    assert not curves_figure({}, {"loss": "loss"}).data


def test_every_moment_bears_the_names_of_its_own_texts(corpus: Corpus, store: Store, projector: Projector) -> None:
    """The result counts clusters anew, by size: its names would be wrong on pictures of the training."""
    run = deep_run(store, corpus, projector)
    painter = Painter(run, projector)
    painter.finish()
    painter.wait()
    for stage, step in run.snapshots():
        frame = run.frames().open(stage, step, "umap")
        if stage != ENDED:  # a training may count clusters in any order
            frame = replace(frame, labels=(frame.labels + 1) % (frame.labels.max() + 1))
        names = live._cluster_names(run, frame)
        texts = run.clustered_rows()[run.config.text].iloc[frame.rows].str.lower()
        for label in np.unique(frame.labels):
            first = names[label].split(", ")[0]
            share = [texts[frame.labels == other].str.contains(first).mean() for other in np.unique(frame.labels)]
            assert np.argmax(share) == list(np.unique(frame.labels)).index(label)


def test_a_preset_turns_the_knobs(corpus: Corpus) -> None:
    tab = bring(open_page("corpus"), corpus.table)
    tab.switch_page("pages/train.py").run()
    tab.button(key="choose-sccl").click().run()
    next(control for control in tab.segmented_control if control.label == "Preset").select("quick look").run()
    words_on(tab)
    values = {box.label: box.value for box in (*tab.number_input, *tab.selectbox)}
    assert values["Steps"] == 40 and values["Depth"] == "1" and values["Clusters"] == 12


def test_a_page_answers_and_asks_for_pictures_while_a_large_projection_is_under_way(
    corpus: Corpus, store: Store, projector: Projector
) -> None:
    run = deep_run(store, corpus, projector)
    shared = services.worker().projector
    large = shared.project(np.random.default_rng(0).normal(size=(20_000, 50)), layout="tsne", dims=2, seed=0)
    next(large)
    child = shared._child
    assert child is not None
    words = words_on(open_page("train", run.id))
    painter = services.worker()._painter
    assert "Pictures are being drawn: 0 of 8" in words and painter is not None and painter.is_at_work()
    next(large)
    assert not run.frames().names("umap"), "it waits its turn, the page does not"
    large.close()
    assert child.poll() is not None, "cancelling kills what is under way"
    painter.wait()
    assert not run.frames().missing(), "and whoever waited has a new child to ask"


def test_a_server_that_ends_waits_for_pages_that_are_being_drawn() -> None:
    page = threading.Thread(target=time.sleep, args=(0.5,), name=services.SCRIPT_THREAD, daemon=True)
    page.start()
    services.let_pages_end()
    assert not page.is_alive()
