"""Lines of hundreds of points: no mark a point, a band instead of bars, and a short word where one points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from profiling.charts.axes import SIZES
from profiling.charts.formatting import axis_label, axis_value
from profiling.charts.map_targets import UNSEEN, UNSEEN_STILL
from profiling.charts.marks import has_legend
from profiling.charts.metrics import Metric
from profiling.charts.palette import UNRELIABLE, Style
from profiling.charts.scales import Scale

UNCOUNTED = "does not count"
# The columns that are read, beside those of the axes and of the metric.
COLUMNS = {"point", "contender", "status", "status_reason", "check_verdict", "speedup", "noise_floor"}


def add_series(
    figure: go.Figure,
    rows: pd.DataFrame,
    metric: Metric,
    x_axis: str,
    scale: Scale,
    style: Style,
    name: str,
    place: dict[str, int],
) -> None:
    """Adds one line to a panel; where it compares, what does not count as small grey dots instead."""
    counting, grey = rows[~rows["is_grey"]], rows[rows["is_grey"]]
    if not counting.empty:
        if metric.low and metric.high and (band := _band(counting, metric, x_axis, scale, style, name)):
            figure.add_trace(band, **place)
        line = _trace(counting, metric, x_axis, scale, name)
        line.update(line={"color": style.color, "dash": style.dash, "width": 1.5}, marker={"color": style.color})
        line.update(mode="markers", showlegend=not has_legend(figure, name))
        if len(counting) > 1:  # a click chooses marks alone; so there are some, which nobody sees
            line.update(mode="lines+markers", marker=UNSEEN, selected=UNSEEN_STILL, unselected=UNSEEN_STILL)
        figure.add_trace(line, **place)
    if not grey.empty:
        dots = _trace(grey, metric, x_axis, scale, UNCOUNTED)
        dots.update(mode="markers", marker={"color": UNRELIABLE, "size": 3, "symbol": style.symbol})
        dots.update(showlegend=not has_legend(figure, UNCOUNTED))
        figure.add_trace(dots, **place)


def _trace(rows: pd.DataFrame, metric: Metric, x_axis: str, scale: Scale, name: str) -> go.Scatter:
    return go.Scatter(
        x=_x(rows, x_axis),
        y=_y(rows[metric.column], scale),
        name=name,
        legendgroup=name,
        hovertemplate=f"%{{fullData.name}}: %{{y:.4g}} {scale.unit}<br>{axis_label(x_axis)} %{{x}}<extra></extra>",
        customdata=rows["point"].to_numpy(dtype=np.int32),  # what a click on the line is about
    )


def _band(rows: pd.DataFrame, metric: Metric, x_axis: str, scale: Scale, style: Style, name: str) -> go.Scatter | None:
    rows = rows[rows[metric.low].notna() & rows[metric.high].notna()]
    if len(rows) < 2:
        return None
    x = _x(rows, x_axis)
    low, high = (_y(rows[end], scale) for end in (metric.low, metric.high))
    return go.Scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        fill="toself",
        fillcolor=style.faint(0.18),
        line={"width": 0},
        mode="lines",
        legendgroup=name,
        showlegend=False,
        hoverinfo="skip",
    )


def _x(rows: pd.DataFrame, axis: str) -> Any:
    if axis in SIZES:
        return rows[axis].to_numpy(dtype=np.int32)
    return np.array([axis_value(axis, value) for value in rows[axis]], dtype=object)


def _y(values: pd.Series[Any], scale: Scale) -> Any:
    """Heights in single precision: a screen shows no more, and they go to the browser half as large."""
    numbers = values.to_numpy(dtype=float) * scale.factor
    if scale.floor is not None:
        numbers[numbers <= 0] = scale.floor.at
    return numbers.astype(np.float32)
