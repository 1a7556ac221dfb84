"""The map as it forms: its newest frame, and the replay of all; arrays in, a Plotly figure out."""

import html
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pages.parts.figures import OTHER, Colouring, fit_axes, shorten

_GLIDE = (0.1, 0.35, 0.65, 0.9)  # of the way between two frames: slowly away, slowly there
_MOST_NAMES = 24
_LETTER, _LINE = 0.011, 0.05  # how wide a letter and how high a line is, as a share of a map
_BRIEF = 18  # letters of a name on a map
_DARKER = 0.6


def replay_figure(points: Sequence[np.ndarray], colours: Sequence[Colouring], titles: Sequence[str]) -> go.Figure:
    """Draw frames that play one after another, with a slider to go back; one figure, one set of points.

    Between two frames points move on straight lines; WebGL has no transitions of its own, so they are frames too.
    """

    def drawn(at: int) -> go.Scattergl:
        return _cloud(points[at], colours[at])

    everywhere = np.concatenate(points)
    names = _as_many([_names(at, colour, everywhere) for at, colour in zip(points, colours, strict=True)])

    def between(at: int, share: float) -> go.Frame:
        x, y = ((1 - share) * points[at] + share * points[at + 1]).astype(np.float32).T
        return go.Frame(data=[go.Scattergl(x=x, y=y)], name=f"{at} and {share}")  # colours stay as they were

    last = len(points) - 1
    frames = []
    for at in range(len(points)):
        frames.append(go.Frame(data=[drawn(at)], layout=go.Layout(annotations=names[at]), name=str(at)))
        frames += [between(at, share) for share in _GLIDE if at < last]
    figure = go.Figure(data=[drawn(last)], frames=frames)
    pace = {"frame": {"duration": 130, "redraw": True}, "transition": {"duration": 0}, "mode": "immediate"}
    at_once = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate"}
    play = {"label": "▶ Play", "method": "animate", "args": [None, pace | {"fromcurrent": False}]}
    pause = {"label": "❚❚", "method": "animate", "args": [[None], at_once]}
    steps = [{"label": title, "method": "animate", "args": [[str(at)], at_once]} for at, title in enumerate(titles)]
    # Plotly's own button turns white when pressed, with white words on it where the page is dark.
    buttons = {"type": "buttons", "direction": "left", "x": 0, "y": -0.03, "yanchor": "top", "buttons": [play, pause]}
    buttons |= {"showactive": False, "bgcolor": "rgba(0,0,0,0)", "bordercolor": OTHER, "font": {"color": OTHER}}
    slider = {"active": last, "steps": steps, "x": 0.25, "len": 0.75, "y": 0, "currentvalue": {"prefix": ""}}
    figure.update_layout(
        height=556,
        margin={"l": 0, "r": 24, "t": 8, "b": 88},
        showlegend=False,
        annotations=names[last],
        updatemenus=[buttons],
        sliders=[slider | {"ticklen": 0, "minorticklen": 0, "bgcolor": OTHER, "font": {"size": 10}}],
    )
    fit_axes(figure, everywhere)
    return figure


def live_figure(points: np.ndarray, colour: Colouring) -> go.Figure:
    """Draw the newest frame as one set of points: a browser without a GPU draws that faster than one per cluster."""
    figure = go.Figure(_cloud(points, colour))
    figure.update_layout(height=480, margin={"l": 0, "r": 0, "t": 8, "b": 0}, dragmode="pan", uirevision="map")
    figure.update_layout(annotations=_names(points, colour, points))
    fit_axes(figure, points)
    return figure


def _cloud(points: np.ndarray, colour: Colouring) -> go.Scattergl:
    """Return points as one set, without a legend: hovering tells what a colour means."""
    marker = {"size": 6, "color": colour.per_point(), "opacity": 0.8} | colour.scale()
    return go.Scattergl(
        x=points[:, 0],
        y=points[:, 1],
        mode="markers",
        marker=marker,
        showlegend=False,
        hovertext=colour.names_per_point(),
        hoverinfo="text",
    )


def _names(points: np.ndarray, colour: Colouring, view: np.ndarray) -> list[dict[str, Any]]:
    """Return the names of colours, each written where its points lie, the most frequent first.

    A name that would cover another moves up or down a little, or is left out; hovering over its points tells it.
    ``view`` are all points for which the map has room.
    """
    if not colour.lies_together:
        return []
    spans = np.maximum(np.ptp(view, axis=0), 1e-9)
    sizes = np.bincount(colour.codes[colour.codes >= 0], minlength=len(colour.names))
    names = _briefly(colour.names)
    taken: list[tuple[float, float, float]] = []
    written: list[dict[str, Any]] = []
    for code in np.argsort(-sizes, kind="stable")[:_MOST_NAMES]:
        if not sizes[code]:
            break
        own = points[colour.codes == code]
        middle = own[((own - np.median(own, axis=0)) ** 2).sum(1).argmin()]  # a point of it, not a gap between two
        name = names[code]
        wide, (x, y) = _LETTER * len(name), middle / spans
        for up in (0.0, _LINE, -_LINE):
            if all(abs(y + up - at) >= _LINE or abs(x - beside) >= (wide + width) / 2 for beside, at, width in taken):
                taken.append((x, y + up, wide))
                place = float(middle[0]), float(middle[1] + up * spans[1])
                written.append(_written(name, place, colour.shades[code]))
                break
    return written


def _as_many(names: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Give every frame as many names, some of them unseen: Plotly keeps those of the last that a next one lacks."""
    most = max(map(len, names))
    return [[*some, *({"visible": False, "text": ""} for _ in range(most - len(some)))] for some in names]


def _briefly(names: Sequence[str]) -> list[str]:
    """Return the first words of each name, as many as leave the map to be seen; first and last where that is equal."""
    short = [_first_words(name) for name in names]
    often = Counter(short)
    ends = [f"{(words := name.split(', '))[0]}, {words[-1]}" for name in names]
    return [shorten(end if often[brief] > 1 else brief, _BRIEF) for brief, end in zip(short, ends, strict=True)]


def _first_words(name: str) -> str:
    kept, *more = name.split(", ")
    for word in more:
        if len(kept) + 2 + len(word) > _BRIEF:
            break
        kept += f", {word}"
    return kept


def _written(name: str, place: tuple[float, float], shade: str) -> dict[str, Any]:
    """Return a name in white on a darker shade of its colour, which can be read on light and dark pages alike."""
    red, green, blue = (int(int(shade[at : at + 2], 16) * _DARKER) for at in (1, 3, 5))
    return {
        "x": place[0],
        "y": place[1],
        "text": html.escape(name, quote=False),
        "showarrow": False,
        "visible": True,
        "font": {"size": 10, "color": "white"},
        "bgcolor": f"rgba({red},{green},{blue},0.9)",
        "borderpad": 1,
    }
