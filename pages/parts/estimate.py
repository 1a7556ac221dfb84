"""What a run would take, told before it is started."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import streamlit as st

from core.bench import Bench
from core.bench.forecast import Forecast, measured_forecast, rough_forecast
from core.encoder.source import is_here
from core.errors import BadInput
from core.methods.base import Method
from core.runs.config import RunConfig, resolve
from core.runs.pipeline import prepare, road
from core.tables.corpus import Corpus
from pages.parts.progress import spoken_time
from pages.parts.services import plain, store, worker

_DEVICES = {"cuda": "the GPU (CUDA)", "mps": "the GPU (Apple)", "cpu": "the CPU"}
_POLL_SECONDS = 1.0


def draw_estimate(corpus: Corpus, method: type[Method], values: dict[str, Any], settings: dict[str, Any]) -> None:
    """Show time and memory per stage, or, in a sentence, what stands in the way.

    The machine is measured in a thread of its own: a page that measures in its own script answers no click meanwhile.
    """
    try:
        source: dict[str, Any] = {"file": "", "file_sha256": "", "reading": {}}
        config = resolve(corpus, method.from_knobs(values), **source, **settings)
        bench, built = prepare(config, corpus, store().cache, worker().projector)
        forecast, how, measuring = _forecast(bench, config, corpus)
        stages = road(built, forecast)
    except (BadInput, OSError) as refusal:
        st.warning(plain(str(refusal)), icon=":material/block:")
        return
    total, most = sum(stage.seconds for stage in stages), max(stage.memory for stage in stages)
    with st.container(border=True):
        st.markdown(f":material/timer: **About {spoken_time(total)}** and at most {most / 1e9:.1f} GB of memory")
        parts = " · ".join(
            f"{stage.name} {spoken_time(stage.seconds)}, {stage.memory / 1e9:.1f} GB" for stage in stages
        )
        where = f"on {_DEVICES[config.device]} with {config.threads} thread{'s' if config.threads > 1 else ''}"
        st.caption(f"{parts}. {how}, {where}.")
        for reason in config.reasons.values():
            st.caption(plain(reason))
    if measuring is not None:
        _wait_for(measuring)


def _forecast(bench: Bench, config: RunConfig, corpus: Corpus) -> tuple[Forecast, str, Future[Forecast] | None]:
    """Return a forecast, how it came about, and the measurement that will soon give a better one."""
    rough = rough_forecast(bench)
    if not config.encoder:
        return rough, "A rough guess from the number of words", None
    if not is_here(config.encoder):
        return rough, "A rough guess, because the encoder is still to be fetched", None
    key = (config.encoder, config.token_limit, config.precision, config.threads)
    kept = st.session_state.get("forecast")
    if kept is None or kept[0] is not corpus or kept[1] != key:
        if not worker().is_idle():
            return rough, "A rough guess, because a run is at work", None
        kept = (corpus, key, _measurer().submit(measured_forecast, bench, config.threads))
        st.session_state["forecast"] = kept
    measuring: Future[Forecast] = kept[2]
    if not measuring.done():
        return rough, "A rough guess; this machine is being measured", measuring
    if isinstance(fault := measuring.exception(), BadInput):
        raise fault
    if fault is not None:  # whatever it was will be told when the run is started
        return rough, "A rough guess from the number of words", None
    return measuring.result(), "Measured on this machine just now", None


@st.cache_resource
def _measurer() -> ThreadPoolExecutor:
    """Return the one thread that measures: two at once would measure each other."""
    return ThreadPoolExecutor(1, "topicscope-measurer")


def _wait_for(measuring: "Future[Forecast]") -> None:
    """Draw the page anew once the measurement is there."""

    @st.fragment(run_every=_POLL_SECONDS)
    def wait() -> None:
        if measuring.done():
            st.rerun()

    wait()
