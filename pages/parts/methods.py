"""The cards from which a method is chosen: what each does, and when to choose it."""

import streamlit as st

from core.methods import METHODS
from core.methods.base import Method

_CHOSEN = "method"
_ABREAST = 3


def choose_method() -> type[Method]:
    """Draw a card for every method, one below the other in a narrow window; return the chosen, at first the first."""
    chosen = chosen_name()
    names = list(METHODS)
    for first in range(0, len(names), _ABREAST):
        for name, column in zip(names[first:], st.columns(_ABREAST), strict=False):
            with column, st.container(gap="xsmall"):
                st.button(
                    METHODS[name].title,
                    key=f"choose-{name}",
                    type="primary" if name == chosen else "secondary",
                    icon=":material/check:" if name == chosen else None,
                    width="stretch",
                    on_click=_choose,
                    args=(name,),
                )
                st.caption(_advice(METHODS[name]))
    return METHODS[chosen]


def chosen_name() -> str:
    """Return the name of the chosen method."""
    return str(st.session_state.setdefault(_CHOSEN, next(iter(METHODS))))


def _advice(method: type[Method]) -> str:
    """Return what the method does and when to choose it: its docstring up to the relations."""
    paragraphs = (method.__doc__ or "").split("\n\n")[:2]
    return " ".join(" ".join(paragraphs).split())


def _choose(name: str) -> None:
    st.session_state[_CHOSEN] = name
