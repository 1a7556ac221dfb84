"""Choose a method, turn its knobs, start, watch, stop, resume."""

from typing import Any

import streamlit as st

from core.encoder.source import EMBEDDED
from core.errors import BadInput
from core.methods import METHODS
from core.runs.config import HIGHEST_SEED, TOKEN_LIMIT, resolve
from core.runs.pipeline import prepare
from core.runs.store import Run
from core.tables.corpus import Corpus
from pages.parts.estimate import draw_estimate
from pages.parts.knobs import draw_knobs, knob_values
from pages.parts.live import draw_replay
from pages.parts.methods import choose_method, chosen_name
from pages.parts.progress import LIVE, draw_notes, draw_queue, draw_road, draw_warnings, spoken_time, watch
from pages.parts.services import (
    STATUS_ICONS,
    begin_page,
    choose_run,
    plain,
    run_title,
    show_run,
    start_afresh,
    store,
    worker,
)


def main() -> None:
    """Show the run being looked at, and below it the form for a new one."""
    begin_page("Train")
    corpus: Corpus | None = st.session_state.get("corpus")
    if corpus is not None and "wanted" in st.session_state:
        _start_wanted(corpus)
    run = choose_run()
    if run:
        _show_run(run)
    if corpus is not None and len(corpus.used):
        _draw_form(corpus, folded=run is not None)
    elif not run:
        st.info("There is no table yet.", icon=":material/table:")
        st.page_link("pages/corpus.py", label="Bring a table", icon=":material/arrow_back:")


def _show_run(run: Run) -> None:
    """Show where a run stands and what can be done about it."""
    status = run.status()
    st.subheader(plain(run_title(run)), anchor=False)
    if status in LIVE:
        watch(run)
        return
    draw_road(run)
    story = run.story()
    spent = sum(story.seconds.values())
    icon = STATUS_ICONS[status]
    if status == "finished":
        st.success(f"Finished in {spoken_time(spent)}.", icon=icon)
        with st.container(horizontal=True):
            st.page_link(
                "pages/explore.py",
                label="Explore the clusters",
                icon=":material/scatter_plot:",
                query_params={"run": run.id},
            )
            st.page_link(
                "pages/export.py", label="Export the table", icon=":material/download:", query_params={"run": run.id}
            )
    elif status == "failed":
        st.error(plain(story.message), icon=icon)
        with st.expander("What the program said"):
            st.code(story.traceback, language=None)
    elif status == "stopped":
        st.warning(plain(story.message), icon=icon)
    else:
        st.warning("This run was cut off: its server ended, or had no room left to write.", icon=icon)
    if status != "finished":
        began = story.road or story.stage
        label, about = ("Resume", "Goes on from what was reached.") if began else ("Begin", "It never began.")
        if st.button(label, icon=":material/play_arrow:", help=about):
            _start(run)
    draw_warnings(run)
    draw_queue()
    draw_replay(run)
    draw_notes(run)
    _draw_keeping(run)
    if "corpus" not in st.session_state and st.button("New run with this table", icon=":material/add:"):
        config = run.config
        st.session_state.update(
            corpus=run.corpus(), file=config.file, sha256=config.file_sha256, reading=config.reading
        )
        start_afresh()
        st.rerun()
    with st.expander("Repeat this run on the command line", icon=":material/terminal:"):
        st.code(run.settled_config().command(), language="bash", wrap_lines=True)
        st.caption("In the folder of this program; the table's name may need its folder in front.")
    _draw_deletion(run)


def _draw_deletion(run: Run) -> None:
    """Let the person delete the run; it asks once."""
    with st.popover("Delete this run", icon=":material/delete:"):
        st.caption("Its results, checkpoints and copy of the table are deleted for good. Your own file is not touched.")
        if st.button("Delete it", icon=":material/delete_forever:", type="primary"):
            try:
                store().delete(run.id)
            except (BadInput, OSError) as refusal:
                st.error(plain(str(refusal)), icon=":material/error:")
                return
            start_afresh()
            st.rerun()


def _draw_keeping(run: Run) -> None:
    """Let the person make another look of the training the result."""
    looks = run.looks()
    if len(looks) < 2:
        return
    with st.expander("Keep another moment of the training as the result", icon=":material/bookmark:"):
        st.caption("If the replay shows you a moment that you like better, make it the result.")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            name = st.selectbox(
                "Moment", looks, index=len(looks) - 1, format_func=lambda at: f"{at[0]}, step {at[1]:,}", width=240
            )
            if st.button("Keep it", icon=":material/bookmark_added:", help="Clusters, map and words are made anew."):
                _start(run, keep=name)


def _draw_form(corpus: Corpus, folded: bool) -> None:
    """Let the person set up a run and start it."""
    kind = "folded" if folded else "open"
    box = st.expander("A new run", icon=":material/add:", expanded=not folded, on_change="rerun", key=f"new-run-{kind}")
    with box:
        st.caption(f"{len(corpus.used):,} texts of {plain(st.session_state['file'])}, column {plain(corpus.text)}.")
        method = choose_method()
        values = draw_knobs(method)
        left, middle, right = st.columns(3)
        left.number_input(
            "Seed",
            0,
            HIGHEST_SEED,
            0,
            key="seed",
            persist_state="session",
            help="The same seed gives the same clusters, today and tomorrow.",
        )
        if method.needs_encoder:
            middle.text_input(
                "Encoder",
                EMBEDDED,
                key="encoder",
                persist_state="session",
                help="The embedded one, any Hugging Face name, or a folder on this machine.",
            )
            right.number_input(
                "Token limit",
                8,
                8_192,
                TOKEN_LIMIT,
                key="token-limit",
                persist_state="session",
                help="How many tokens of a text are read; a token is a word or a part of one.",
            )
        st.button("Start", type="primary", icon=":material/play_arrow:", on_click=_ask)
        asked = _asked()
        if (refused := st.session_state.get("refused")) and refused[0] == asked:
            st.error(plain(refused[1]), icon=":material/error:")
        if box.open:  # nothing is measured for a form that nobody looks at
            draw_estimate(corpus, method, values, asked[2])


def _asked() -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return what the form asks for at this moment: method, knobs and the other settings."""
    state, method = st.session_state, METHODS[chosen_name()]
    settings: dict[str, Any] = {"seed": int(state.get("seed", 0))}
    if method.needs_encoder:
        settings["encoder"] = str(state.get("encoder") or EMBEDDED).strip()
        settings["token_limit"] = int(state.get("token-limit", TOKEN_LIMIT))
    return method.name, knob_values(method), settings


def _ask() -> None:
    """Remember that Start was pressed, and what the form said at that moment.

    This runs before anything is drawn. A page that is drawn anew before it has come to its button, as after Enter in a
    field, would forget that the button was pressed.
    """
    st.session_state["wanted"] = _asked()


def _start_wanted(corpus: Corpus) -> None:
    """Make the run that was asked for and queue it, or keep the sentence that says why not."""
    state = st.session_state
    wanted = state["wanted"]
    name, values, settings = wanted
    source = {"file": state["file"], "file_sha256": state["sha256"], "reading": state["reading"]}
    try:
        with st.spinner("Checking"):
            config = resolve(corpus, METHODS[name].from_knobs(values), **source, **settings)
            prepare(config, corpus, store().cache, worker().projector)
        run = store().create(config, corpus)
    except (BadInput, OSError) as refusal:
        state["refused"] = wanted, str(refusal)
        del state["wanted"]
        return
    del state["wanted"]  # nothing can interrupt the page since the run was made, so there is one run for one click
    _start(run)


def _start(run: Run, keep: tuple[str, int] | None = None) -> None:
    try:
        worker().start(run.id, keep)
    except (BadInput, OSError) as refusal:
        st.error(plain(str(refusal)), icon=":material/error:")
        return
    show_run(run.id)
    st.rerun()


main()
