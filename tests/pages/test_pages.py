"""Every page in every state, without a browser."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from streamlit.testing.v1 import AppTest

from core.corpus import Corpus
from core.events import Ended, Queued, StageStarted
from core.methods import METHODS
from core.painter import Painter, paint
from core.runs.store import Run, Store
from core.steps.projector import Projector
from core.worker import drive
from pages.parts import progress, services
from pages.parts.figures import Colouring, live_figure
from tests.conftest import make_config, obvious_table
from tests.core.test_worker import slowly, wait_for

APP = str(Path(__file__).parents[2] / "app.py")
PAGES = ("corpus", "train", "explore", "export")
HOSTILE = "**bold** <script>alert(1)</script> $x$ :red[no] [a](javascript:b)"


@pytest.fixture(autouse=True)
def fresh_server(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give every test a server of its own with an empty run folder."""
    monkeypatch.setenv("TOPICSCOPE_RUNS", str(store.folder))
    services.worker.clear()
    yield
    services.worker().close()
    services.worker.clear()


def open_page(page: str, run: str | None = None) -> AppTest:
    """Open a page as a new tab does."""
    tab = AppTest.from_file(APP, default_timeout=60)
    if run:
        tab.query_params["run"] = run
    tab.run()
    if page != "corpus":
        tab.switch_page(f"pages/{page}.py").run()
    return tab


def words_on(tab: AppTest) -> str:
    """Return everything a page says in its own words."""
    assert not tab.exception, tab.exception
    kinds = (tab.title, tab.subheader, tab.markdown, tab.caption, tab.info, tab.success, tab.warning, tab.error)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def bring(tab: AppTest, frame: pd.DataFrame, name: str = "table.csv") -> AppTest:
    """Put a file into the session as the uploader would."""
    data = frame.to_csv(index=False).encode()
    for key, value in {"file": name, "data": data, "sha256": hashlib.sha256(data).hexdigest(), "reading": {}}.items():
        tab.session_state[key] = value
    return tab.run()


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_server_says_what_to_do(page: str) -> None:
    words = words_on(open_page(page))
    assert {"corpus": "Bring a table", "train": "There is no table yet", "explore": "no run", "export": "no run"}[
        page
    ] in words


def prepared(run: Run, state: str) -> FileLock | None:
    """Bring a run into a state, as a worker would have left it."""
    lock = run.claim() if state in ("queued", "running") else None
    events = {
        "queued": [Queued()],
        "running": [Queued(), StageStarted("count words", 3)],
        "interrupted": [Queued(), StageStarted("count words", 3)],
        "stopped": [StageStarted("count words", 3), Ended("stopped", "The run was stopped.")],
        "failed": [StageStarted("count words", 3), Ended("failed", "It *went* wrong.", "Traceback: here")],
    }[state]
    for event in events:
        run.record(event)
    return lock


EXPECTED: dict[str, Callable[[AppTest], bool]] = {
    "queued": lambda tab: "Waiting in another process" in words_on(tab),
    "running": lambda tab: "at work" in words_on(tab),
    "interrupted": lambda tab: (
        "The server ended" in words_on(tab) and "· at work" not in words_on(tab) and has_button(tab, "Resume")
    ),
    "stopped": lambda tab: "stopped" in words_on(tab) and has_button(tab, "Resume"),
    "failed": lambda tab: tab.error[0].value == r"It \*went\* wrong\." and "Traceback: here" in tab.code[0].value,
}


def has_button(tab: AppTest, label: str) -> bool:
    """Say whether the page offers something."""
    return any(button.label == label for button in tab.button)


@pytest.mark.parametrize("state", EXPECTED)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_in_every_state_of_a_run(page: str, state: str, run: Run) -> None:
    lock = prepared(run, state)
    tab = open_page(page, run.id)
    words = words_on(tab)
    if page == "train":
        assert EXPECTED[state](tab)
    elif page in ("explore", "export"):
        assert f"This run is {state}" in words
    if lock:
        lock.release()


@pytest.fixture
def finished(store: Store, projector: Projector) -> Run:
    """Return a finished run whose table is hostile to whoever renders it."""
    table = obvious_table(8)
    table["cluster_name"] = HOSTILE
    table["number"] = [str(i * 1.5) for i in range(24)]
    table["day"] = [f"2024-01-{i + 1:02d}" for i in range(24)]
    table[HOSTILE] = [f"{HOSTILE} {i}" for i in range(24)]
    table.loc[0, "text"] = f"rocket planet orbit moon {HOSTILE}"
    table.loc[1, "text"] = ""
    corpus = Corpus(table, "text", "group")
    run = store.create(make_config(corpus), corpus)
    assert drive(run, projector, lambda: False) == "finished"
    return run


@pytest.mark.parametrize("page", PAGES)
def test_every_page_of_a_finished_run(page: str, finished: Run) -> None:
    tab = open_page(page, finished.id)
    words = words_on(tab)
    if page == "train":
        assert "Finished in" in words and "python -m core run table.csv" in tab.code[0].value
    if page == "explore":
        assert {metric.label for metric in tab.metric} >= {
            "Silhouette",
            "ACC",
            "NMI",
            "ARI",
            "Purity",
        }
        assert "23 of 23 texts are drawn" in words
        for column in tab.selectbox(key=f"colour-{finished.id}").options:
            assert not tab.selectbox(key=f"colour-{finished.id}").set_value(column).run().exception
    if page == "export":
        assert "cluster\\_name\\_2" in words and len(tab.dataframe[0].value) == 24


def test_peoples_words_are_never_markdown(finished: Run) -> None:
    for page in ("train", "explore", "export"):
        tab = open_page(page, finished.id)
        words = words_on(tab)
        assert "<script>" not in words and "**bold**" not in words and ":red[no]" not in words


@pytest.mark.parametrize("name", ["../../etc/passwd", "nonsense", "20260101-000000-tfidf-abcdef"])
def test_a_run_that_is_not_here_is_forgotten(name: str, finished: Run) -> None:
    assert "Explore" in words_on(open_page("explore", name))


def test_with_no_run_named_the_newest_is_shown(finished: Run) -> None:
    assert "tfidf" in words_on(open_page("explore"))


def test_the_sample_is_one_click_away() -> None:
    tab = open_page("corpus")
    tab.button[0].click().run()
    assert "rows will be used" in words_on(tab)
    assert [box.value for box in tab.selectbox if box.label in ("Text to cluster", "True label")] == [
        "message",
        "theme",
    ]


def test_the_corpus_page_counts_what_is_left_out_and_takes_corrections() -> None:
    frame = pd.DataFrame({"a": ["x"] * 6, "text": ["one thing", "", "12", "one thing", "two things", "last thing"]})
    tab = bring(open_page("corpus"), frame)
    assert "4 of 6 rows will be used. Left out: 1 empty, 1 not text." in words_on(tab)
    next(toggle for toggle in tab.toggle if "duplicates" in toggle.label).set_value(True).run()
    assert "3 of 6 rows will be used." in words_on(tab)
    next(box for box in tab.selectbox if box.label == "Separator").set_value(";").run()
    assert tab.session_state["reading"] == {"separator": ";"}
    assert len(tab.dataframe[-1].value.columns) == 1


@pytest.mark.parametrize("data", [b"", b"text\n", b"%PDF-1.5", b"\x00\x01\x02" * 99])
def test_a_bad_file_is_one_sentence(data: bytes) -> None:
    tab = open_page("corpus")
    for key, value in {"file": "t.csv", "data": data, "sha256": "x", "reading": {}}.items():
        tab.session_state[key] = value
    tab.run()
    assert len(tab.error) == 1 and not tab.exception


def test_hostile_names_do_no_harm_on_the_corpus_page() -> None:
    frame = obvious_table(3).rename(columns={"text": HOSTILE})
    tab = bring(open_page("corpus"), frame, f"{HOSTILE}.csv")
    assert "<script>" not in words_on(tab)


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
    told = words_on(tab)
    assert "**About" in told and "GB of memory" in told and "Measured on this machine" in told
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
    assert run.status() in ("new", "queued", "running", "finished") and "kept-by-a-person" in str(
        list((run.folder / "checkpoints").iterdir())
    )


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
    assert [progress._seconds_between_looks(tabs) for tabs in (1, 2, 3, 5, 50)] == [2, 2, 3, 4, 4]
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
    assert words_on(tab) and "its weights cannot be read" in tab.warning[0].value
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


def test_points_can_be_coloured_by_dates_of_any_century_and_tell_what_they_are() -> None:
    days = [f"{year}-03-0{day}" for year in (1500, 1999, 2020, 9999) for day in range(1, 8)]
    colour = Colouring.by_column(pd.Series([*days, "never"], dtype="str"))
    assert colour.values is not None and np.isfinite(colour.values[:-1]).all() and np.isnan(colour.values[-1])
    assert colour.names_per_point()[[0, 27, 28]].tolist() == ["1500-03-01", "9999-03-07", ""]
    assert live_figure(np.zeros((29, 2)), colour).data[0].hovertext[0] == "1500-03-01"
    hostile = Colouring.by_column(pd.Series([HOSTILE, "b"], dtype="str"))
    assert "<script>" not in "".join(hostile.names_per_point())


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
    assert "The first picture is being drawn." in words and painter is not None and painter.is_at_work()
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
