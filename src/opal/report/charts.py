"""The charts of the page as plotly figures in JSON, each with what it shows in words.

Colours are named as `var(--name)` of the page's style, so that they follow light and dark; the page's script puts the
values in.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from opal.report.data import PageData
from opal.report.losses import LossCurve, LossWindow, loss_windows
from opal.report.series import Series, SeriesList
from opal.report.wording import clean, count, number, numbers_in_words

HOW_TO_GET_THEM = 'pip install "opal-optimizer[report]"'

_COLOURS = 6
_DASHES = ("solid", "dash")
_FULL_MARKS = 30
_LARGEST_FLOAT = 3.4e38


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart: title, words, plotly figure, and for losses the curve that the page's script draws from."""

    name: str
    title: str
    summary: str
    figure: dict[str, Any]
    curve: dict[str, Any] | None = None
    windows: tuple[LossWindow, ...] = ()
    notes: tuple[str, ...] = field(default=())


def plotly_script() -> str | None:
    """The text of plotly's script; None where plotly is not installed."""
    try:
        if importlib.util.find_spec("plotly") is None:
            return None
    except (ImportError, ValueError):
        return None
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def loss_chart(data: PageData) -> Chart | None:
    """Training loss against updates: mean, least and greatest of what falls into a point, and marks."""
    curve = data.losses
    if not curve.count and not curve.bad_count:
        return None
    figure = {
        "data": [
            {"type": "scatter", "mode": "lines", "line": {"width": 0}, "fill": "toself", "fillcolor": "var(--band)",
             "name": "least to greatest", "hoverinfo": "skip", "x": [], "y": [], "visible": curve.count > 0},
            {"type": "scatter", "mode": "lines", "name": "mean", "x": [], "y": [], "connectgaps": False,
             "line": {"color": "var(--series-1)", "width": 1.6},
             "hovertemplate": "update %{x:,.0f}<br>loss %{y:.5g}<extra></extra>"},
            {"type": "scatter", "mode": "markers", "name": "not finite", "x": list(curve.bad), "y": [],
             "marker": {"symbol": "x", "size": 9, "color": "var(--bad)"}, "visible": bool(curve.bad),
             "hovertemplate": "update %{x:,.0f}: not finite<extra></extra>"},
        ],
        "layout": _layout(data, "loss", legend=True, top=34),
    }  # fmt: skip
    return Chart(
        name="loss",
        title="Training loss",
        summary=_loss_summary(curve, data),
        figure=figure,
        curve=_curve_data(curve, data),
        windows=loss_windows(curve),
    )


def rate_chart(data: PageData) -> Chart | None:
    """The learning rate of each group."""
    return _lines(data, "rates", "Learning rate", "learning rate", data.rates)


def time_chart(data: PageData) -> Chart | None:
    """Milliseconds per update."""
    return _lines(data, "times", "Time of an update", "ms", data.times)


def small_charts(data: PageData, name: str, series: SeriesList) -> tuple[Chart, ...]:
    """One small chart for each curve."""
    charts = []
    for place, curve in enumerate(series.drawn):
        layout = _layout(data, "", legend=False, top=8, marks=False)
        figure = {"data": [_trace(curve, 0)], "layout": layout}
        notes = (curve.note,) if curve.note else ()
        charts.append(
            Chart(name=f"{name}-{place}", title=curve.name, summary=_series_summary(curve), figure=figure, notes=notes)
        )
    return tuple(charts)


def _lines(data: PageData, name: str, title: str, unit: str, series: SeriesList) -> Chart | None:
    if not series.drawn:
        return None
    several = len(series.drawn) > 1
    figure = {
        "data": [_trace(curve, place) for place, curve in enumerate(series.drawn)],
        "layout": _layout(data, unit, legend=several, top=34 if several else 12),
    }
    texts = [f"{curve.name}: {_series_summary(curve)}" if several else _series_summary(curve) for curve in series.drawn]
    left_out = len(series.left_out)
    notes = (f"{left_out} more not drawn: {', '.join(series.left_out[:12])}",) if left_out else ()
    return Chart(name=name, title=title, summary=" ".join(texts), figure=figure, notes=notes)


def _trace(curve: Series, place: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines" if len(curve.updates) > 60 else "lines+markers",
        "name": plotly_text(curve.name),
        "x": list(curve.updates),
        "y": [None if value is None else float(f"{value:.6g}") for value in curve.values],
        "line": {"color": f"var(--series-{place % _COLOURS + 1})", "width": 1.6, "dash": _DASHES[place // _COLOURS]},
        "marker": {"size": 4},
        "hovertemplate": "update %{x:,.0f}: %{y:.5g}<extra>%{fullData.name}</extra>",
    }


def plotly_text(text: str) -> str:
    """A text of the run as plotly shows it: plotly reads some HTML, so none is left."""
    return html.escape(clean(text), quote=False)


def _layout(data: PageData, unit: str, *, legend: bool, top: int, marks: bool = True) -> dict[str, Any]:
    axis = {"gridcolor": "var(--grid)", "zerolinecolor": "var(--grid)", "linecolor": "var(--grid)", "automargin": True}
    layout: dict[str, Any] = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--soft)", "size": 12, "family": "system-ui, sans-serif"},
        "margin": {"l": 52, "r": 14, "t": top, "b": 36},
        "xaxis": {
            **axis,
            "range": [0, round(data.extent * 1.01, 1)],
            "tickformat": ",~d" if data.extent < 10_000 else "~s",
        },
        "yaxis": {**axis, "title": {"text": unit, "standoff": 6}} if unit else axis,
        "showlegend": legend,
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "xanchor": "left"},
        "hoverlabel": {"bgcolor": "var(--card)", "font": {"color": "var(--text)"}, "bordercolor": "var(--line)"},
        "hovermode": "closest",
        "dragmode": "zoom",
    }
    if legend and marks:  # numbers of decisions stand between the plot and the legend
        layout["legend"]["y"] = 1.06
    if marks:
        layout["shapes"] = _marks(data)
    return layout


def _marks(data: PageData) -> list[dict[str, Any]]:
    """A vertical line for each decision: full where a program took over, faint and dotted where nothing changed."""
    shapes = []
    opacity = max(min(_FULL_MARKS / max(len(data.decisions), 1), 1.0), 0.25)  # many of them must not hide the curve
    for decision in data.decisions:
        applied = decision.is_change
        at = decision.row.effective_from if applied else decision.row.asked_at
        line = {"color": "var(--applied)", "width": 1.2} if applied else {"color": "var(--kept)", "width": 1}
        if not applied:
            line["dash"] = "dot"
        shape = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1, "layer": "below"}
        shapes.append({**shape, "line": line, "opacity": round(opacity, 2)})
    return shapes


def _curve_data(curve: LossCurve, data: PageData) -> dict[str, Any]:
    """What the page's script draws the loss from: packed numbers of every bucket, and the decisions' numbers."""
    contiguous = bool(curve.indices) and curve.indices[-1] - curve.indices[0] + 1 == len(curve.indices)
    single = curve.size == 1
    return {
        "size": curve.size,
        "first": curve.indices[0] if curve.indices else 0,
        "indices": "" if contiguous else _packed("I", curve.indices),
        "means": _packed("f", curve.means),
        "lows": "" if single else _packed("f", curve.lows),
        "highs": "" if single else _packed("f", curve.highs),
        "positive": bool(curve.lows) and min(curve.lows) > 0,
        "bad": list(curve.bad),
        "numbers": [[d.row.effective_from, d.row.number] for d in data.decisions if d.is_change],
    }


def _packed(kind: str, values: Iterable[float]) -> str:
    """Numbers as base64 of little-endian 32-bit ones."""
    if kind == "f":
        numbers: array[Any] = array("f", [max(min(value, _LARGEST_FLOAT), -_LARGEST_FLOAT) for value in values])
    else:
        numbers = array("I", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def _loss_summary(curve: LossCurve, data: PageData) -> str:
    texts = [f"{count(curve.count, 'loss', 'losses')} from update {curve.first:,} to {curve.last:,}."]
    if curve.count:
        windows = loss_windows(curve)
        low, high = min(curve.lows), max(curve.highs)
        at_low, at_high = (
            _updates(curve, values.index(value)) for values, value in ((curve.lows, low), (curve.highs, high))
        )
        texts.append(
            f"Mean {number(windows[0].mean)} over updates {windows[0].first:,} to {windows[0].last:,}, "
            f"{number(windows[-1].mean)} over updates {windows[-1].first:,} to {windows[-1].last:,}. "
            f"Least {number(low)} at {at_low}, greatest {number(high)} at {at_high}."
        )
    if curve.missing:
        texts.append(f"{count(curve.missing, 'update')} without a loss.")
    if curve.bad_count:
        texts.append(
            f"{count(curve.bad_count, 'loss', 'losses')} not finite, marked by crosses: at update "
            f"{numbers_in_words(curve.bad)}."
        )
    applied = [decision.row.number for decision in data.decisions if decision.is_change]
    kept = len(data.decisions) - len(applied)
    if applied:
        texts.append(f"Full lines: decisions that were applied ({numbers_in_words(applied)}).")
    if kept:
        texts.append(f"Dotted lines: {count(kept, 'decision')} that changed nothing.")
    return " ".join(texts)


def _updates(curve: LossCurve, place: int) -> str:
    index = curve.indices[place]
    first, last = index * curve.size + 1, min((index + 1) * curve.size, curve.last)
    return f"update {first:,}" if first == last else f"updates {first:,} to {last:,}"


def _series_summary(curve: Series) -> str:
    finite = curve.finite
    if not finite:
        return f"{count(curve.recorded, 'value')}, none of them finite."
    some = f" {count(curve.bad, 'value')} not finite." if curve.bad else ""
    if len(finite) == 1:
        at = next(update for update, value in zip(curve.updates, curve.values, strict=True) if value is not None)
        return f"{number(finite[0])} at update {at:,}.{some}"
    if min(finite) == max(finite):
        return f"{number(finite[0])} throughout.{some}"
    return (
        f"{number(finite[0])} first, {number(finite[-1])} last; "
        f"from {number(min(finite))} to {number(max(finite))}.{some}"
    )
