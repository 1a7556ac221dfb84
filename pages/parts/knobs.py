"""The form of a method, drawn from its fields."""

from typing import Any

import streamlit as st

from core.methods.base import Knob, Method


def draw_knobs(method: type[Method]) -> dict[str, Any]:
    """Draw every knob, the advanced ones folded, and return the values."""
    plain = [knob for knob in method.knobs() if not knob.advanced]
    advanced = [knob for knob in method.knobs() if knob.advanced]
    if method.presets:
        st.segmented_control(
            "Preset",
            list(method.presets),
            default=next(iter(name for name, knobs in method.presets.items() if not knobs), None),
            format_func=str.capitalize,
            key=f"preset-{method.name}",
            persist_state="session",
            on_change=_apply_preset,
            args=(method,),
            help="Sets the knobs below; turn any of them afterwards.",
        )
    values = _draw_all(method, plain)
    if advanced:
        with st.expander("Advanced", icon=":material/tune:"):
            values |= _draw_all(method, advanced)
    return values


def knob_values(method: type[Method]) -> dict[str, Any]:
    """Return the values that the form holds now, also where it has not been drawn again since they changed."""
    return {knob.name: st.session_state.get(_key(method, knob.name), knob.default) for knob in method.knobs()}


def _apply_preset(method: type[Method]) -> None:
    chosen = st.session_state.get(f"preset-{method.name}")
    if chosen:
        set_to = {knob.name: knob.default for knob in method.knobs()} | dict(method.presets[chosen])
        for name, value in set_to.items():
            if name != "clusters":  # how many clusters is the person's own business
                st.session_state[_key(method, name)] = value


def _key(method: type[Method], name: str) -> str:
    return f"knob-{method.name}-{name}"


def _draw_all(method: type[Method], knobs: list[Knob]) -> dict[str, Any]:
    """Draw knobs three in a row."""
    values = {}
    columns = [column for _ in range(-(-len(knobs) // 3)) for column in st.columns(3, vertical_alignment="bottom")]
    for column, knob in zip(columns, knobs, strict=False):
        with column:
            values[knob.name] = _draw(method, knob)
    return values


def _draw(method: type[Method], knob: Knob) -> Any:
    label = knob.name.replace("_", " ").capitalize()
    common: dict[str, Any] = {"help": knob.help, "key": _key(method, knob.name), "persist_state": "session"}
    if knob.choices:
        return st.selectbox(label, knob.choices, index=knob.choices.index(knob.default), **common)
    if knob.kind is str:
        return st.text_input(label, knob.default, max_chars=int(knob.high or 200), **common)
    if knob.kind is bool:
        return st.toggle(label, knob.default, **common)
    if knob.kind is int:
        return st.number_input(label, int(knob.low or 0), int(knob.high or 10**9), knob.default, **common)
    # Streamlit wants all three of one type, and a bound may be written as a whole number.
    bounds = [None if bound is None else float(bound) for bound in (knob.low, knob.high)]
    return st.number_input(label, *bounds, float(knob.default), format="%g", **common)
