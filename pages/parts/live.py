"""What a training looks like: the live map, its replay, and the curves of losses and quality."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from core.runs.frames import ENDED, Frame, numbered_as_at_the_end
from core.runs.labelling import curated
from core.runs.store import Run
from core.topics.describe import unique_topic_names
from core.topics.words import Words
from pages.parts.curves import Figures, curves_figure
from pages.parts.figures import Colouring
from pages.parts.replay import live_figure, replay_figure
from pages.parts.services import plain, worker

_LAYOUTS = {"umap": "UMAP", "tsne": "t-SNE"}
_QUALITY = {
    "acc": "accuracy by your labels",
    "nmi": "NMI by your labels",
    "silhouette": "clearness (silhouette)",
    "dunn": "narrowest gap between clusters (Dunn)",
    "entropy": "evenness of sizes",
    "changed": "texts that changed cluster",
}
_BY_CLUSTER = "(current cluster)"
_READ = 1_000  # letters of a text that are enough to name its cluster while it is being found


def shown_layout() -> str:
    """Return the layout that this tab shows."""
    return str(st.session_state.get("live-layout") or "umap")


def draw_training(run: Run) -> None:
    """Show the map as it forms, beside the curves."""
    story = run.story()
    if story.measured:
        _draw(run, live=True)
    elif len(story.road) > 4 and story.phase == "running":
        st.caption("The first picture of the topics appears when training begins.")


def draw_replay(run: Run) -> None:
    """Show how the map formed once the run is over; pictures that are still missing are drawn meanwhile."""
    if not run.story().measured:
        return
    frames = run.frames()
    if missing := len(frames.missing()):
        wanted, shown = len(_LAYOUTS) * len(frames.snapshots), bool(frames.names(shown_layout()))
        _wait_for_pictures(run, missing, wanted, shown)
    _draw(run, live=False)


def _wait_for_pictures(run: Run, missing: int, wanted: int, shown: bool) -> None:
    """Say how many pictures there are, until the first of all or the last of many calls for a new replay."""

    @st.fragment(run_every=3.0)
    def wait() -> None:
        left, at_work = len(run.frames().missing()), worker().paint(run.id)
        if not left or (left < missing and not shown and run.frames().names(shown_layout())):
            st.rerun()
        told = "Pictures are being drawn"
        if not at_work:
            busy = not worker().is_idle()
            told = "Those missing are drawn when the run at work has ended" if busy else "Some cannot be drawn"
        st.caption(f":material/brush: {told}: {wanted - left} of {wanted} are there.")

    wait()


def _draw(run: Run, live: bool) -> None:
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _draw_map(run, live)
    with right:
        _draw_curves(run)


def _draw_map(run: Run, live: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        layout = st.segmented_control(
            "Layout",
            list(_LAYOUTS),
            default="umap",
            required=True,
            format_func=_LAYOUTS.__getitem__,
            key="live-layout",
            help="Two ways to draw the same texts: UMAP shows how groups lie to each other, t-SNE what lies within.",
        )
        columns = [name for name in run.corpus_columns() if name != run.config.text]
        colour = st.selectbox("Colour by", [_BY_CLUSTER, *columns], key=f"live-colour-{run.id}", width=240)
    frames = run.frames()
    names = frames.names(layout or "umap")
    if not names:
        if live:  # of a run that is over the line above says how many there are
            elsewhere = not worker().owns(run.id)
            told = "Pictures are drawn here when the run has ended" if elsewhere else "The first picture is being drawn"
            st.info(f"{told}.", icon=":material/brush:")
        return
    shown = numbered_as_at_the_end([frames.open(*name, layout or "umap") for name in (names[-1:] if live else names)])
    last = shown[-1]
    if live:
        drawn = frames.drawn_at(*names[-1], last.layout) or 0.0
        figure = _newest_figure(run.id, last.layout, drawn, colour or _BY_CLUSTER, run, last)
        st.plotly_chart(figure, width="stretch", key="live-map", config={"displayModeBar": False})
    else:
        drawn_at = tuple(frames.drawn_at(*name, last.layout) for name in names)
        figure = _replay(run.id, last.layout, drawn_at, colour or _BY_CLUSTER, run.status(), run, shown)
        st.plotly_chart(figure, width="stretch", key=f"replay-{layout}-{colour}", config={"displayModeBar": False})
    meaning = "the cluster it is in at that moment, named by the words that set it apart"
    if colour and colour != _BY_CLUSTER:
        meaning = f"its {plain(colour)}"
    st.caption(f"Each dot is a text, its colour {meaning}. Like texts draw together as it learns.")
    st.caption(_about(run, last, len(names), live))
    if not live and len(shown) > 1:
        st.download_button(
            "Take the replay away",
            lambda: figure.to_html(include_plotlyjs=True, full_html=True).encode(),
            file_name=f"{run.id}-{layout}.html",
            mime="text/html",
            icon=":material/movie:",
            help="One HTML file that plays in any browser, without this program.",
        )


# Plotly takes its time, and the training needs the CPU: a picture is made once for all tabs.
@st.cache_resource(max_entries=20, show_spinner=False)
def _newest_figure(run: str, layout: str, drawn: float, by: str, _run: Run, _frame: Frame) -> go.Figure:
    return live_figure(_frame.points, _colouring(_run, _frame, by))


@st.cache_resource(max_entries=5, show_spinner=False)
def _replay(
    run: str, layout: str, drawn: tuple[float | None, ...], by: str, status: str, _run: Run, _frames: list[Frame]
) -> go.Figure:
    colours = [_colouring(_run, frame, by) for frame in _frames]
    return replay_figure([frame.points for frame in _frames], colours, [_title(frame) for frame in _frames])


@st.cache_resource(max_entries=20, show_spinner=False)
def _curves(
    run: str, known: str, names: tuple[tuple[str, str], ...], logarithmic: bool, _measured: Figures
) -> go.Figure:
    return curves_figure(_measured, dict(names), logarithmic)


def _about(run: Run, frame: Frame, count: int, live: bool) -> str:
    many = _rows_used(run.id, run)
    part = f"all {many:,}" if len(frame.rows) == many else f"a fixed sample of {len(frame.rows):,} of {many:,}"
    share = run.frames().moved(frame.stage, frame.step, frame.layout)
    moved = f" Texts that stayed in their cluster moved by {share:.0%} of the map." if share else ""
    pictures = f"{count} picture{'s' if count > 1 else ''}" + (" so far" if live else "")
    return f"{_title(frame)}: {part} texts, {pictures}.{moved}"


def _title(frame: Frame) -> str:
    if not frame.step:
        return "The end" if frame.stage == ENDED else f"Before {frame.stage}"
    return f"{frame.stage.capitalize()}, step {frame.step:,}"


def _colouring(run: Run, frame: Frame, by: str) -> Colouring:
    if by == _BY_CLUSTER:
        return Colouring.by_cluster(frame.labels, _cluster_names(run, frame))
    return _by_column(run.id, by, run, frame.rows)


def _cluster_names(run: Run, frame: Frame) -> list[str]:
    """Name clusters by their topic words; before the end, when they are others, by those of the sample at that moment.

    Only the last frame counts clusters as the result does.
    """
    if frame.stage == ENDED and run.status() == "finished":
        return [topic.name for topic in curated(run.results.topics(), run.ledger().fold())]
    words = _words(run.id, run, frame.rows).ranked(frame.labels, 1 + int(frame.labels.max(initial=0)))
    return unique_topic_names([[word for word, _ in pairs] for pairs in words])


# The sample is the same in all frames, and a table may be large: it is read once for all tabs.
@st.cache_resource(max_entries=20, show_spinner=False)
def _by_column(run: str, column: str, _run: Run, _rows: np.ndarray) -> Colouring:
    return Colouring.by_column(_run.clustered_rows()[column].iloc[_rows])


@st.cache_resource(max_entries=5, show_spinner=False)
def _words(run: str, _run: Run, _rows: np.ndarray) -> Words:
    texts = _run.clustered_rows()[_run.config.text].iloc[_rows]
    return Words.of([text[:_READ] for text in texts])


@st.cache_resource(max_entries=200, show_spinner=False)
def _rows_used(run: str, _run: Run) -> int:
    return len(_run.clustered_rows())


def _draw_curves(run: Run) -> None:
    measured = {  # at a stage's first look nothing can have changed yet
        (stage, step): {name: value for name, value in values.items() if step or name != "changed"}
        for (stage, step), values in run.story().measured.items()
    }
    known = repr(measured)
    terms = sorted({name for values in measured.values() for name in values} - _NO_TERMS, key=_whole_first)
    if terms:
        logarithmic = st.toggle("Losses on a logarithmic scale", key="live-log")
        st.plotly_chart(
            _curves(run.id, known, tuple((name, name) for name in terms), logarithmic, measured),
            width="stretch",
            key="live-losses",
            config={"displayModeBar": False},
        )
        stages = len({stage for stage, _ in measured})
        told = "Each stage counts in its own way." if stages > 1 else "A part may rise while the whole falls."
        st.caption(f"How much it still gets wrong, in all and by part. In all it should fall and level out. {told}")
    st.plotly_chart(
        _curves(run.id, known, tuple(_QUALITY.items()), False, measured),
        width="stretch",
        key="live-quality",
        config={"displayModeBar": False},
    )
    st.caption(
        "Clearness rises as clusters draw apart; the share of texts that change cluster falls as they settle. "
        "A single odd text can close the narrowest gap."
    )


_NO_TERMS = {*_QUALITY, "clusters", "before", "intra", "inter"}


def _whole_first(term: str) -> tuple[bool, str]:
    return term != "loss", term
