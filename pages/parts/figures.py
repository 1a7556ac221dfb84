"""Figures as pure functions: arrays in, a Plotly figure out. People's words are escaped: Plotly reads tags."""

import html
from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.tables.corpus import as_times

COLOURS = (
    "#2f7fd1",
    "#e07b39",
    "#2ca089",
    "#c44e7c",
    "#8a6fd1",
    "#b8962e",
    "#4fb0d9",
    "#d9534f",
    "#6aa84f",
    "#9c6b4e",
    "#3f5fbf",
    "#e39aa9",
    "#1f8a70",
    "#a34fb0",
    "#7f8c2a",
    "#5c7c8a",
    "#f2a541",
    "#7b4fa3",
    "#58b58a",
    "#b5485d",
)
OTHER = "#9aa7a8"
MOST_CATEGORIES = 20
NO_CLUSTER = "(no cluster)"


def map_figure(points: np.ndarray, rows: np.ndarray, colour: "Colouring") -> go.Figure:
    """Draw points coloured by category or by value; each carries its row, the texts stay on the server."""
    figure = go.Figure()
    size = 7 if len(points) < 2_000 else 5 if len(points) < 20_000 else 3
    if colour.values is not None:
        figure.add_scattergl(
            x=points[:, 0],
            y=points[:, 1],
            customdata=rows,
            mode="markers",
            showlegend=False,
            hoverinfo="none",
            marker={
                "size": size,
                "color": colour.values,
                **colour.scale(),
            },
        )
    for code, (name, shade) in enumerate(zip(colour.names, colour.shades, strict=True)):
        inside = colour.codes == code
        name = html.escape(shorten(name, 40), quote=False)
        figure.add_scattergl(
            x=points[inside, 0],
            y=points[inside, 1],
            customdata=rows[inside],
            mode="markers",
            name=name,
            marker={"size": size, "color": shade, "opacity": 0.8},
            hovertemplate=f"{name}<extra></extra>",
        )
    figure.update_layout(
        height=640,
        margin={"l": 0, "r": 0, "t": 8, "b": 0},
        dragmode="select",
        legend={"itemsizing": "constant", "title": None, "orientation": "h", "y": -0.01, "yanchor": "top"},
        uirevision="map",
    )
    fit_axes(figure, points)
    return figure


class Colouring:
    """How points are coloured: categories with a shade each, or values on a scale.

    ``lies_together`` says that points of one colour do, so that a map can bear its name there.
    """

    lies_together = False

    def __init__(self, names: Sequence[str], codes: np.ndarray, shades: Sequence[str]) -> None:
        """Colour by category; ``codes`` say which."""
        self.names, self.codes, self.shades = names, codes, shades
        self.values: np.ndarray | None = None
        self.ticks: dict[str, object] = {}

    def per_point(self) -> np.ndarray:
        """Return the colour of every point, or its value where there is a scale."""
        if self.values is not None:
            return self.values
        return np.array([*self.shades, OTHER])[self.codes]

    def scale(self) -> dict[str, object]:
        """Return how a marker shows the scale of values, where there is one."""
        if self.values is None:
            return {}
        return {
            "colorscale": "Viridis",
            "showscale": True,
            "colorbar": {"title": None, "thickness": 12, **self.ticks},
        }

    def names_per_point(self) -> np.ndarray:
        """Return what every point's colour stands for, cut short and escaped."""
        if self.values is not None:
            return np.array([_day(value) if self.ticks else f"{value:g}" for value in self.values])
        names = [html.escape(shorten(name, 40), quote=False) for name in (*self.names, "")]
        return np.array(names)[self.codes]

    @classmethod
    def by_cluster(cls, labels: np.ndarray, names: Sequence[str]) -> "Colouring":
        """Colour by cluster; what is in none is grey."""
        shades = [cluster_colour(label) for label in range(len(names))]
        if (labels < 0).any():
            labels, names, shades = np.where(labels < 0, len(names), labels), [*names, NO_CLUSTER], [*shades, OTHER]
        colouring = cls(names, labels, shades)
        colouring.lies_together = True
        return colouring

    @classmethod
    def by_column(cls, cells: pd.Series) -> "Colouring":
        """Colour by any column: numbers and times on a scale, everything else by its most frequent values."""
        distinct = cells.nunique()
        if distinct > MOST_CATEGORIES:
            numbers = pd.to_numeric(cells.str.strip(), errors="coerce")
            if numbers.notna().mean() > 0.9:
                return cls._by_values(numbers.to_numpy(float), {})
            times = as_times(cells)
            if times.notna().mean() > 0.9:
                # In seconds: nanoseconds end in the year 2262, and tables know days far beyond.
                seconds = times.dt.tz_convert(None).to_numpy().astype("datetime64[s]").astype(float)
                values = np.where(times.notna(), seconds, np.nan)
                ticks = np.nanquantile(values, [0, 0.25, 0.5, 0.75, 1])
                return cls._by_values(values, {"tickvals": ticks, "ticktext": [_day(tick) for tick in ticks]})
        shown = [str(name) for name in cells.value_counts().index[:MOST_CATEGORIES]]
        codes = pd.Categorical(cells, categories=shown).codes.astype(int)
        names = [name if name.strip() else "(empty)" for name in shown]
        shades = [cluster_colour(code) for code in range(len(names))]
        if distinct > MOST_CATEGORIES:
            codes = np.where(codes < 0, len(names), codes)
            names, shades = [*names, f"{distinct - len(shown):,} other values"], [*shades, OTHER]
        return cls(names, codes, shades)

    @classmethod
    def _by_values(cls, values: np.ndarray, ticks: dict[str, object]) -> "Colouring":
        colouring = cls([], np.empty(0, int), [])
        colouring.values, colouring.ticks = values, ticks
        return colouring


def cluster_colour(label: int) -> str:
    """Return the colour a cluster has everywhere."""
    return COLOURS[label % len(COLOURS)] if label >= 0 else OTHER


def words_figure(words: Sequence[str], weights: Sequence[float], label: int) -> go.Figure:
    """Draw topic words as bars, the strongest on top."""
    names = [html.escape(word, quote=False) for word in words]
    figure = go.Figure(
        go.Bar(x=list(weights), y=names, orientation="h", marker_color=cluster_colour(label), hoverinfo="y")
    )
    figure.update_layout(height=30 * max(len(words), 2) + 20, margin={"l": 0, "r": 0, "t": 4, "b": 0}, bargap=0.35)
    figure.update_xaxes(visible=False, fixedrange=True)
    figure.update_yaxes(autorange="reversed", fixedrange=True, ticklabelstandoff=6)
    return figure


def shorten(text: str, most: int) -> str:
    """Cut a long text at the given length, showing that it was cut."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _day(seconds: float) -> str:
    return "" if np.isnan(seconds) else str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))


def fit_axes(figure: go.Figure, points: np.ndarray) -> None:
    """Hide the axes, which mean nothing on such a map, and leave a little room around the points."""
    for update, values in ((figure.update_xaxes, points[:, 0]), (figure.update_yaxes, points[:, 1])):
        low, high = float(values.min()), float(values.max())
        margin = 0.03 * (high - low) or 1.0
        update(visible=False, showgrid=False, zeroline=False, range=[low - margin, high + margin])
