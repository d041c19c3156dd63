"""The speed-up map of thousands of points: colour alone, an image a contender; the numbers where one points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from profiling.charts.axes import CONTENDER, label
from profiling.charts.claim_text import NO_CLAIMS
from profiling.charts.formatting import axis_label, axis_value, chart_text
from profiling.charts.map_colors import NO_CLAIM_CELL, bound_of, color_axis
from profiling.charts.metrics import counts_in_mean

# Cells of all maps together whose numbers can be read in them, and those of which an image is made.
MOST_TEXTS = 600
MOST_CELLS = 100_000
# Pixels for the rows of one map, and what surrounds them.
MAP_HEIGHT = 420
AXES_HEIGHT = 100
TALLEST_ROW = 34
UNCOUNTED_CELL = "#6b6b6b"


def is_needed(axes: Mapping[str, Sequence[Any]], x: str, num_maps: int) -> bool:
    """Whether the numbers of these points could not be read in their cells."""
    return num_maps * _num_rows(axes, x) * max(1, len(axes.get(x, ()))) > MOST_TEXTS


def left_out(axes: Mapping[str, Sequence[Any]], x: str, num_maps: int) -> str:
    """A sentence that says which rows are not drawn; empty where all are."""
    there, most = _num_rows(axes, x), _most_rows(axes, x, num_maps)
    return f"The first {most:,} of {there:,} rows are drawn." if there > most else ""


def draw(
    compared: pd.DataFrame,
    x: str,
    axes: Mapping[str, Sequence[Any]],
    down: Sequence[str],
    titles: Mapping[str, str],
) -> go.Figure:
    """Draws a map for each contender in `titles`.

    Args:
        compared: the rows of a run's table that have a reference.
        x: the axis from left to right.
        axes: every value of every axis.
        down: the axes whose combinations are the rows, in order.
        titles: contender → what stands above its map.
    """
    num_maps = max(1, len(titles))
    num_rows = min(_num_rows(axes, x), _most_rows(axes, x, num_maps))
    combinations = itertools.islice(itertools.product(*(axes[axis] for axis in down)), num_rows)
    rows = [label(dict(zip(down, values, strict=True))) or " " for values in combinations]
    across = [axis_value(x, value) for value in axes[x]]
    height = min(MAP_HEIGHT, num_rows * TALLEST_ROW)
    figure = make_subplots(
        rows=num_maps,
        cols=1,
        vertical_spacing=AXES_HEIGHT / (num_maps * (height + AXES_HEIGHT)) if num_maps > 1 else 0,
        subplot_titles=[chart_text(title, 100) for title in titles.values()],
    )
    for position, contender in enumerate(titles):
        own = compared[compared["contender"].eq(contender).fillna(False)]
        for trace in _traces(own, x, axes, down, num_rows):
            figure.add_trace(trace.update(x=across, y=rows), position + 1, 1)
    figure.update_xaxes(type="category", showgrid=False, nticks=6)
    figure.update_xaxes(title={"text": axis_label(x), "standoff": 6}, row=num_maps, col=1)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False, automargin=True, nticks=12)
    figure.update_annotations(font_size=13)
    figure.update_layout(
        height=num_maps * (height + AXES_HEIGHT) + 20,
        margin={"l": 10, "r": 10, "t": 40, "b": 10},
        coloraxis=color_axis(bound_of(compared)),
        uirevision="kept",
    )
    return figure


def _traces(
    rows: pd.DataFrame, x: str, axes: Mapping[str, Sequence[Any]], down: Sequence[str], num_rows: int
) -> list[go.Heatmap]:
    """Those that claim or are provisional, in colour; those that claim nothing; those without a number that counts."""
    at_row, at_column = _places(rows, down, axes), _codes(rows[x], axes[x])
    speedup = rows["speedup"].to_numpy(dtype=float, na_value=math.nan)
    counts = (rows["status"].eq("ok") & counts_in_mean(rows)).fillna(False).to_numpy(dtype=bool) & (speedup > 0)
    claims_nothing = rows["speed_verdict"].isin(NO_CLAIMS).fillna(False).to_numpy(dtype=bool)
    is_placed = (at_row >= 0) & (at_row < num_rows) & (at_column >= 0)
    found = []
    for is_kind, color in (
        (counts & ~claims_nothing, None),
        (counts & claims_nothing, NO_CLAIM_CELL),
        (~counts, UNCOUNTED_CELL),
    ):
        chosen = is_kind & is_placed
        if color is not None and not chosen.any():
            continue
        ratios = np.full((num_rows, len(axes[x])), math.nan, dtype=np.float32)
        ratios[at_row[chosen], at_column[chosen]] = np.where(counts, speedup, 1.0)[chosen]
        found.append(_heatmap(ratios, color))
    return found


def _heatmap(ratios: Any, color: str | None) -> go.Heatmap:
    logs = np.log2(ratios)
    if color is None:
        look: dict[str, Any] = {"coloraxis": "coloraxis", "z": logs}
    else:
        look = {"colorscale": [[0, color], [1, color]], "showscale": False, "z": logs * 0}
    told = {None: "%{customdata:.2f}×", NO_CLAIM_CELL: "%{customdata:.2f}×, same or unsure"}
    what = told.get(color, "no number that counts: the table says why")
    return go.Heatmap(
        **look,
        customdata=ratios,
        hoverongaps=False,
        hovertemplate=f"%{{y}}<br>%{{x}}<br>{what}<extra></extra>",
    )


def _places(rows: pd.DataFrame, down: Sequence[str], axes: Mapping[str, Sequence[Any]]) -> Any:
    """The row of a map that each row of the table belongs to; -1 where its value is none of the axis."""
    at = np.zeros(len(rows), dtype=np.int64)
    is_known = np.ones(len(rows), dtype=bool)
    for axis in down:
        codes = _codes(rows[axis], axes[axis])
        is_known &= codes >= 0
        at = at * len(axes[axis]) + codes
    return np.where(is_known, at, -1)


def _codes(values: pd.Series[Any], known: Sequence[Any]) -> Any:
    positions = {value: position for position, value in enumerate(known)}
    return np.array([positions.get(value, -1) for value in values.astype(object)], dtype=np.int64)


def _num_rows(axes: Mapping[str, Sequence[Any]], x: str) -> int:
    return math.prod(len(values) for axis, values in axes.items() if axis not in (x, CONTENDER))


def _most_rows(axes: Mapping[str, Sequence[Any]], x: str, num_maps: int) -> int:
    return min(MAP_HEIGHT, max(1, MOST_CELLS // (max(1, num_maps) * max(1, len(axes.get(x, ()))))))
