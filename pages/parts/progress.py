"""What follows a run while it works, reading its folder every few seconds."""

import time
from contextlib import suppress
from itertools import count
from uuid import uuid4

import streamlit as st

from core.errors import BadInput
from core.methods import find_method
from core.runs.log import Story
from core.runs.store import Run
from core.stages import ENDING
from pages.parts.live import draw_training, shown_layout
from pages.parts.services import plain, run_title, worker

LIVE = ("new", "queued", "running")
SOONEST, LATEST = 2.0, 3.0  # seconds between two looks of a tab: a frame should be seen within five of its snapshot
GONE = 15.0  # seconds after which a tab that has not looked counts as closed


def watch(run: Run) -> None:
    """Show stages, progress, time left and the live map. When there is more to see, the whole page is drawn anew.

    Only one line changes with time: a browser that drew maps, curves and badges as often would take from the training
    what it needs itself. To look costs a browser a quarter of what it costs to draw even that line.
    """
    known, looks, tabs = _what_is_known(run), count(), _tabs_watching()

    @st.fragment(run_every=_seconds_between_looks(tabs))
    def look() -> None:
        _tabs_watching()
        # Not in the first look, which is the page's own: a rerun there would swallow a click on a button below.
        if next(looks) and (known[0] not in LIVE or _what_is_known(run) != known):
            st.rerun()

    @st.fragment(run_every=_seconds_between_lines(tabs))
    def line() -> None:
        _draw_progress(run)

    @st.fragment
    def pictures() -> None:
        draw_training(run)

    draw_road(run)
    look()
    line()
    draw_warnings(run)
    _draw_steering(run)
    draw_queue()
    pictures()
    draw_notes(run)


@st.cache_resource
def _last_looks() -> dict[str, float]:
    """Return when each tab, by a name of its own, last looked at a run at work."""
    return {}


def _tabs_watching() -> int:
    """Note that this tab looks, and return how many do."""
    now = time.monotonic()
    looks = _last_looks()
    looks[st.session_state.setdefault("tab", uuid4().hex)] = now
    for tab, last in list(looks.items()):
        if now - last > GONE:
            looks.pop(tab, None)
    return len(looks)


def _seconds_between_looks(tabs: int) -> float:
    """Let each of many tabs look less often, so that together they take little more than a few."""
    return min(max(SOONEST, float(tabs)), LATEST)


def _seconds_between_lines(tabs: int) -> float:
    """Let each of many tabs draw its line of progress less often."""
    return SOONEST * tabs


def _what_is_known(run: Run) -> tuple[object, ...]:
    """Return what everything beside the progress depends on.

    Figures are drawn together with the picture that follows them, or with the next ones if that takes long: to draw
    takes from the training, so it is done once for each look.
    """
    story, frames, layout = run.story(), run.frames(), shown_layout()
    names = frames.names(layout)
    drawn = frames.drawn_at(*names[-1], layout) if names else None
    asked = worker().is_stopping(run.id), worker().is_stopping_after_stage(run.id)
    looks = max(len(names), len(story.measured) - 1)
    return run.status(), story.stage, looks, drawn, len(story.notes), asked, worker().queue()


def _draw_progress(run: Run) -> None:
    story = run.story()
    ahead, ours = worker().ahead_of(run.id), worker().owns(run.id)
    if story.phase == "queued" and (ahead or not ours):
        told = f"Waiting for {ahead} run{'s' if ahead != 1 else ''} to end." if ours else "Waiting in another process."
        st.info(told, icon=":material/hourglass_empty:")
        return
    here, left = story.seconds_left_here(time.time()), story.seconds_left(time.time())
    text = (story.stage or "starting").capitalize()
    text += f": {story.done:,} of {story.total:,}" if story.total > 1 else ""
    if here is not None and left is not None:
        text += f" · {spoken_time(here)} left here, {spoken_time(left)} in all"
    st.progress(min(story.done / max(story.total, 1), 1.0), text)
    if about := find_method(run.config.method).about.get(story.stage or ""):
        st.caption(about)


def _draw_steering(run: Run) -> None:
    """Offer what can be done about a run that waits or works."""
    name, about = run.id, "What was reached is kept; the run can be resumed."
    if worker().is_stopping(name):
        st.button("Stopping after this step …", disabled=True, icon=":material/stop_circle:")
    elif not worker().owns(name):
        st.caption("This run is being worked on by another process, which alone can stop it.")
    else:
        with st.container(horizontal=True):
            waiting = worker().ahead_of(name) > 0
            label = "Withdraw" if waiting else "Stop"
            if st.button(label, icon=":material/stop_circle:", help=about):
                worker().stop(name)
                st.rerun()
            if worker().is_stopping_after_stage(name):
                st.button("Stopping after this stage …", disabled=True, icon=":material/flag:")
            elif not waiting and st.button("Stop after this stage", icon=":material/flag:", help=about):
                worker().stop_after_stage(name)
                st.rerun()


def draw_queue() -> None:
    """List the runs that wait for their turn, each of which can be withdrawn or looked at."""
    at_work, *waiting = worker().queue() or [""]
    for name in waiting:
        with st.container(horizontal=True, vertical_alignment="center"), suppress(BadInput):  # its folder may be gone
            st.caption(f":material/hourglass_empty: Waiting: {plain(run_title(worker().store.open(name)))}")
            if st.button("Withdraw", key=f"withdraw-{name}", type="tertiary"):
                worker().stop(name)
                st.rerun()


def draw_warnings(run: Run) -> None:
    """Show what a person must know."""
    for level, note in run.story().notes:
        if level == "warning":
            st.warning(plain(note), icon=":material/warning:")


def draw_notes(run: Run) -> None:
    """Show why things are as they are, and what happened, in plain words."""
    notes = [note for level, note in run.story().notes if level != "warning"]
    for told in (*run.config.reasons.values(), *notes):
        st.caption(plain(told))


def draw_road(run: Run) -> None:
    """Show the stages in their order: walked, at work, to come."""
    story = run.story()
    road = list(story.road) or [*find_method(run.config.method).stages, *ENDING]
    reached = road.index(story.stage) if story.stage in road else len(road) if story.phase == "finished" else -1
    live = run.status() == "running"  # the log of a run whose server was killed says so for ever
    # Badges in one paragraph wrap where the window is narrow, and leave the room to the map.
    st.markdown(" ".join(_stage_badge(stage, position - reached, story, live) for position, stage in enumerate(road)))


def _stage_badge(stage: str, ahead: int, story: Story, live: bool) -> str:
    name = stage.capitalize()
    if ahead < 0:
        spent = f" · {spoken_time(story.seconds[stage])}" if stage in story.seconds else ""
        return f":green-badge[:material/check_circle: {name}{spent}]"
    if ahead == 0:
        icon, told = ("autorenew", "at work") if live else ("pause_circle", "reached")
        return f":primary-badge[:material/{icon}: **{name} · {told}**]"
    planned = story.road.get(stage)
    return f":gray-badge[{name}{f' · about {spoken_time(max(planned, 1))}' if planned else ''}]"


def spoken_time(seconds: float) -> str:
    """Say a time as people do."""
    if seconds < 1:
        return "< 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 600:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
