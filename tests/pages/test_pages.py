"""Every page in every state, without a browser."""

from collections.abc import Callable

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.maps.projector import Projector
from core.runs.store import Run, Store
from core.runs.worker import drive
from core.tables.corpus import Corpus
from tests.conftest import make_config, obvious_table
from tests.pages.tabs import HOSTILE, bring, has_button, open_page, prepared, words_on

PAGES = ("corpus", "train", "explore", "export")


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_server_says_what_to_do(page: str) -> None:
    words = words_on(open_page(page))
    assert {"corpus": "Bring a table", "train": "There is no table yet", "explore": "no run", "export": "no run"}[
        page
    ] in words


EXPECTED: dict[str, Callable[[AppTest], bool]] = {
    "queued": lambda tab: "Waiting in another process" in words_on(tab),
    "running": lambda tab: "at work" in words_on(tab),
    "interrupted": lambda tab: (
        "This run was cut off" in words_on(tab) and "· at work" not in words_on(tab) and has_button(tab, "Resume")
    ),
    "stopped": lambda tab: "stopped" in words_on(tab) and has_button(tab, "Resume"),
    "failed": lambda tab: tab.error[0].value == r"It \*went\* wrong\." and "Traceback: here" in tab.code[0].value,
}


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
