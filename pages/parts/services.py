"""What pages share with the server: the one worker, the store, and which run is being looked at."""

import atexit
import re
import threading
import time
from collections import Counter
from pathlib import Path

import streamlit as st

from core.errors import BadInput
from core.runs import default_folder
from core.runs.store import Run, Store
from core.runs.worker import Worker

SCRIPT_THREAD = "ScriptRunner.scriptThread"  # Streamlit's name for a thread that draws a page
LAST_LOOK = 10.0  # seconds a page may take to end

STATUS_ICONS = {
    "queued": ":material/hourglass_empty:",
    "running": ":material/autorenew:",
    "finished": ":material/check_circle:",
    "stopped": ":material/stop_circle:",
    "failed": ":material/error:",
    "interrupted": ":material/power_off:",
}


def begin_page(title: str) -> None:
    """Begin a page, making sure that app.py has listed it."""
    if "listed" not in st.session_state:
        # If the first address a server is asked for names a page, Streamlit takes pages/ for an old-style app and
        # passes app.py by. Any call of st.navigation that lists this page ends that.
        st.navigation(sorted(Path(__file__).parents[1].glob("*.py")), position="hidden")
        st.rerun()
    st.title(title)


@st.cache_resource
def worker() -> Worker:
    """Return the server's one worker."""
    atexit.register(let_pages_end)
    return Worker(Store(default_folder().resolve()))


def let_pages_end() -> None:
    """Wait for pages that are still being drawn when the server ends.

    Streamlit draws them in daemon threads. Python ends such a thread wherever it is, and if that is within torch, as
    when a page estimates a training, the whole process aborts.
    """
    for thread in threading.enumerate():
        if thread.name == SCRIPT_THREAD and thread is not threading.current_thread():
            thread.join(LAST_LOOK)


def store() -> Store:
    """Return the store the worker works in."""
    return worker().store


def plain(text: str) -> str:
    """Escape a person's words so that Markdown shows them as they are."""
    return re.sub(r"([\\`*_{}\[\]()#+\-.!|<>~$:&@])", r"\\\1", " ".join(text.split()))


def run_title(run: Run) -> str:
    """Name a run as a person would: its method, its file, when. The short parts come first: a menu cuts the end."""
    config = run.config
    moment = time.strptime(run.id[:15], "%Y%m%d-%H%M%S")
    when = f"{moment.tm_mday} {time.strftime('%b %H:%M', moment)}"
    return f"{config.method}, {run.clusters()} clusters · {when} · {Path(config.file).name}"


def show_run(name: str) -> None:
    """Make a run the one being looked at, in the address too, so that a reload or another tab finds it."""
    st.session_state["run"] = name
    st.query_params["run"] = name


def start_afresh() -> None:
    """Look at no run: the person wants to set up a new one."""
    st.session_state["run"] = ""
    st.query_params.pop("run", None)


def current_run() -> Run | None:
    """Return the run being looked at: by the address, else by this session. An unknown one is forgotten."""
    name = st.query_params.get("run") or st.session_state.get("run")
    if not name:
        return None
    try:
        run = store().open(str(name))
    except BadInput as refusal:
        st.session_state.pop("run", None)
        st.query_params.pop("run", None)
        st.toast(plain(str(refusal)), icon=":material/search_off:")
        return None
    show_run(run.id)
    return run


def choose_run() -> Run | None:
    """Offer all runs in the sidebar and return the one being looked at; with none chosen, the newest."""
    runs = {run.id: run for run in store().runs()}
    run = current_run()
    if run is None and runs and "run" not in st.session_state:
        run = next(iter(runs.values()))
        show_run(run.id)
    _list_unreadable()
    if not runs:
        return None
    titles = told_apart({name: run_title(item) for name, item in runs.items()})
    names = list(titles)
    index = names.index(run.id) if run and run.id in titles else None
    chosen = st.sidebar.selectbox(
        "Run",
        names,
        index=index,
        format_func=titles.__getitem__,
        placeholder="Choose a run",
        key=f"runs-{index}-{len(names)}",
    )
    if chosen and (run is None or chosen != run.id):
        show_run(chosen)
        st.rerun()
    return runs.get(run.id) if run else None


def _list_unreadable() -> None:
    """Name the runs that cannot be read: a run is never hidden."""
    if unreadable := store().unreadable():
        with st.sidebar.expander(f"{len(unreadable)} unreadable", icon=":material/broken_image:"):
            for name, reason in unreadable.items():
                st.caption(plain(f"{name}: {reason}"))


def told_apart(titles: dict[str, str]) -> dict[str, str]:
    """Give equal titles numbers: a menu sends back what it shows, and would take two that read alike for each other."""
    seen: Counter[str] = Counter()
    found = {}
    for name, title in titles.items():
        seen[title] += 1
        found[name] = title if seen[title] == 1 else f"{title} ({seen[title]})"
    return found


def finished_run(icon: str) -> Run | None:
    """Return the run being looked at if it has finished; otherwise say what there is to do first."""
    run = choose_run()
    if run is None:
        st.info("There is no run yet.", icon=icon)
        st.page_link("pages/corpus.py", label="Bring a table", icon=":material/arrow_back:")
        return None
    st.subheader(plain(run_title(run)), anchor=False)
    if (status := run.status()) == "finished":
        return run
    st.info(f"This run is {status}; there is nothing to see here before it has finished.", icon=":material/info:")
    st.page_link(
        "pages/train.py", label="Go to the run", icon=":material/model_training:", query_params={"run": run.id}
    )
    return None
