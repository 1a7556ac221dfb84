"""What a run would take, told before it is started."""

from typing import Any

import streamlit as st

from core.bench import Bench
from core.bench.forecast import Forecast, measured_forecast, rough_forecast
from core.encoder.encoder import is_here
from core.errors import BadInput
from core.methods.base import Method
from core.runs.config import RunConfig, resolve
from core.runs.pipeline import prepare, road
from core.tables.corpus import Corpus
from pages.parts.progress import spoken_time
from pages.parts.services import plain, store, worker

_DEVICES = {"cuda": "the GPU (CUDA)", "mps": "the GPU (Apple)", "cpu": "the CPU"}


def draw_estimate(corpus: Corpus, method: type[Method], values: dict[str, Any], settings: dict[str, Any]) -> None:
    """Show time and memory per stage, or, in a sentence, what stands in the way."""
    try:
        source: dict[str, Any] = {"file": "", "file_sha256": "", "reading": {}}
        config = resolve(corpus, method.from_knobs(values), **source, **settings)
        bench, built = prepare(config, corpus, store().cache, worker().projector)
        forecast, how = _forecast(bench, config, corpus)
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
            st.caption(reason)


def _forecast(bench: Bench, config: RunConfig, corpus: Corpus) -> tuple[Forecast, str]:
    """Measure this machine, unless it is at work or the encoder would have to be fetched for that."""
    if not worker().is_idle():
        return rough_forecast(bench), "A rough guess, because a run is at work"
    if not config.encoder:
        return rough_forecast(bench), "A rough guess from the number of words"
    if not is_here(config.encoder):
        return rough_forecast(bench), "A rough guess, because the encoder is still to be fetched"
    key = (config.encoder, config.token_limit, config.precision, config.threads)
    measured = _remembered(corpus, key, lambda: measured_forecast(bench, config.threads))
    return measured, "Measured on this machine just now"


def _remembered(corpus: Corpus, key: tuple[Any, ...], make: Any) -> Forecast:
    """Measure once per table and encoder; turning knobs is then only arithmetic."""
    kept = st.session_state.get("forecast")
    if kept is None or kept[0] is not corpus or kept[1] != key:
        with st.spinner("Measuring this machine"):
            kept = (corpus, key, make())
        st.session_state["forecast"] = kept
    return kept[2]
