"""Tabs without a browser: open a page as a person would, read what it says, bring a table."""

import hashlib
from pathlib import Path

import pandas as pd
from filelock import FileLock
from streamlit.testing.v1 import AppTest

from core.events import Ended, Queued, StageStarted
from core.runs.store import Run

APP = str(Path(__file__).parents[2] / "app.py")
HOSTILE = "**bold** <script>alert(1)</script> $x$ :red[no] [a](javascript:b)"


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


def has_button(tab: AppTest, label: str) -> bool:
    """Say whether the page offers something."""
    return any(button.label == label for button in tab.button)


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
