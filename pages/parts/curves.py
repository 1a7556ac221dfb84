"""Curves of a training: each figure over the steps of all stages, in a panel of its own."""

import html
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pages.parts.figures import COLOURS, OTHER

_PANEL = 86  # pixels of height for each
_NAME, _LINE = 0.2, 11  # a stage's name: of the width as it may be, and pixels of height
_FLAT = 0.02  # a change by less than this share is drawn as a nearly flat line

Figures = Mapping[tuple[str, int], Mapping[str, float]]  # by stage and step, by name


def curves_figure(measured: Figures, names: Mapping[str, str], logarithmic: bool = False) -> go.Figure:
    """Draw figures, each with what it is now and what it was at its stage's first look.

    On one scale a small figure that doubles would lie flat beside a large one. Lines are broken where a stage ends:
    what is counted may be another thing in the next.
    """
    places, begins = _placed(measured)
    known = {name: [look for look in measured if name in measured[look]] for name in names}
    drawn = [name for name in names if known[name]]
    figure = make_subplots(max(len(drawn), 1), 1, shared_xaxes=True, vertical_spacing=0.36 / max(len(drawn), 1))
    for number, name in enumerate(drawn):
        where = {"row": number + 1, "col": 1}
        for stage in begins:
            looks = [look for look in known[name] if look[0] == stage]
            figure.add_scatter(
                x=[places[look] for look in looks], y=[measured[look][name] for look in looks],
                customdata=[f"{stage}, step {step:,}" for _, step in looks], mode="lines+markers",
                line_color=COLOURS[number], marker_size=4, cliponaxis=False,
                hovertemplate="%{y:.3g} at %{customdata}<extra></extra>", **where,
            )  # fmt: skip
        values = [measured[look][name] for look in known[name]]
        here = [measured[look][name] for look in known[name] if look[0] == known[name][-1][0]]
        figure.add_annotation(
            text=_told(names[name], here), xref="x domain", yref="y domain", x=0, y=1, xanchor="left",
            yanchor="bottom", showarrow=False, font_size=12, **where,
        )  # fmt: skip
        figure.update_yaxes(**_scale(values, logarithmic), **where)
    if len(begins) > 1 and drawn:
        _mark_stages(figure, begins, max(places.values()))
    height = _PANEL * max(len(drawn), 1) + 24
    figure.update_layout(height=height, margin={"l": 0, "r": 0, "t": 18, "b": 0}, showlegend=False)
    figure.update_yaxes(nticks=3, fixedrange=True)
    figure.update_xaxes(rangemode="tozero", fixedrange=True)
    return figure


def _placed(measured: Figures) -> tuple[dict[tuple[str, int], int], dict[str, int]]:
    """Lay the steps of all stages one after another; return each look's place and where each stage begins."""
    places: dict[tuple[str, int], int] = {}
    begins: dict[str, int] = {}
    last = 0
    for stage, step in measured:
        last = places[stage, step] = begins.setdefault(stage, last) + step
    return places, begins


def _mark_stages(figure: go.Figure, begins: Mapping[str, int], end: int) -> None:
    """Draw a dotted line where a stage begins, and write its name into the first panel.

    The name that follows a short stage goes a line lower, so that it does not run into the one before.
    """
    last, lower = -end, False
    for stage, x in begins.items():
        if x:
            figure.add_vline(x=x, line_dash="dot", line_color=OTHER)
        last, lower = x, not lower and x - last < _NAME * end
        figure.add_annotation(
            text=html.escape(stage, quote=False), x=x, y=1, xref="x", yref="y domain", xanchor="left", yanchor="top",
            showarrow=False, font={"size": 10, "color": OTHER}, yshift=-_LINE if lower else 0,
        )  # fmt: skip


def _told(title: str, values: Sequence[float]) -> str:
    first, last = f"{values[0]:.3g}", f"{values[-1]:.3g}"
    return f"{html.escape(title, quote=False)}: <b>{last}</b>" + (f", at first {first}" if first != last else "")


def _scale(values: Sequence[float], logarithmic: bool) -> dict[str, object]:
    """Return an axis that shows all values and does not blow up a change that is none; no logarithm where none is."""
    low, high = min(values), max(values)
    if logarithmic and low > 0:
        middle, half = (np.log10(low) + np.log10(high)) / 2, 0.6 * (np.log10(high) - np.log10(low))
        half = max(half, np.log10(1 + _FLAT))
        return {"type": "log", "range": [middle - half, middle + half]}
    half = max(0.6 * (high - low), _FLAT * max(abs(low), abs(high)), 1e-3)
    floor = (low + high) / 2 - half
    return {"range": [max(floor, 0.0) if low >= 0 else floor, (low + high) / 2 + half]}
