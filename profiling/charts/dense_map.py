"""The speed-up map of thousands of points: colour alone, an image a contender; the numbers where one points."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from profiling.charts.axes import CONTENDER, label
from profiling.charts.formatting import axis_label, axis_value, chart_text, ratio
from profiling.charts.map_colors import UNCOUNTED_CELL, Claim, bound_of, claim_of, finish, look_of, one_color
from profiling.charts.map_targets import HOVER_DISTANCE, MOST_TARGETS, targets
from profiling.charts.metrics import counts_in_mean

# Cells of all maps together whose numbers can be read in them, and those of which an image is made.
MOST_TEXTS = 600
MOST_CELLS = 100_000
# Pixels for the rows of one map, and what surrounds them.
MAP_HEIGHT = 420
AXES_HEIGHT = 100
TALLEST_ROW = 34
# What is told of a cell without a speed-up that counts.
UNCOUNTED = "no number that counts: the table says why"


def is_needed(axes: Mapping[str, Sequence[Any]], x: str, num_maps: int) -> bool:
    """Whether the numbers of these points could not be read in their cells."""
    return num_maps * _num_rows(axes, x) * max(1, len(axes.get(x, ()))) > MOST_TEXTS


def is_clickable(axes: Mapping[str, Sequence[Any]], x: str, num_maps: int) -> bool:
    """Whether a click on a cell can lead to its point: in maps that are not too large for a mark in each."""
    return num_maps * min(_num_rows(axes, x), _most_rows(axes, x, num_maps)) * len(axes.get(x, ())) <= MOST_TARGETS


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
    has_targets, has_uncounted = is_clickable(axes, x, num_maps), False
    for position, contender in enumerate(titles):
        own = compared[compared["contender"].eq(contender).fillna(False)]
        cells = _cells(own, x, axes, down, num_rows)
        has_uncounted |= bool((~cells.counts).any())
        for trace in _traces(cells, (num_rows, len(across)), is_silent=has_targets):
            figure.add_trace(trace.update(x=across, y=rows), position + 1, 1)
        if has_targets:
            figure.add_trace(_targets(cells, across, rows), position + 1, 1)
    # Ranges by hand: marks, though unseen, would have room around them.
    figure.update_xaxes(type="category", range=[-0.5, len(across) - 0.5], showgrid=False, nticks=6)
    figure.update_xaxes(title={"text": axis_label(x), "standoff": 6}, row=num_maps, col=1)
    figure.update_yaxes(type="category", range=[len(rows) - 0.5, -0.5], showgrid=False, automargin=True, nticks=12)
    figure.update_annotations(font_size=13)
    if has_targets:
        figure.update_layout(hoverdistance=HOVER_DISTANCE)
    finish(figure, bound_of(compared), num_maps * (height + AXES_HEIGHT) + 20, has_uncounted=has_uncounted)
    return figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Cells:
    """The cells of one map, a place in each array a cell.

    Attributes:
        row: which row of the map it is in.
        column: which column.
        speedup: its number.
        counts: whether that is a number that counts.
        claim: what its verdict claims.
        point: the number of its point.
    """

    row: Any
    column: Any
    speedup: Any
    counts: Any
    claim: Any
    point: Any


def _cells(rows: pd.DataFrame, x: str, axes: Mapping[str, Sequence[Any]], down: Sequence[str], num_rows: int) -> _Cells:
    at_row, at_column = _places(rows, down, axes), _codes(rows[x], axes[x])
    speedup = rows["speedup"].to_numpy(dtype=float, na_value=math.nan)
    counts = (rows["status"].eq("ok") & counts_in_mean(rows)).fillna(False).to_numpy(dtype=bool) & (speedup > 0)
    verdicts = rows["speed_verdict"].astype(object)
    claims = verdicts.map({verdict: claim_of(verdict) for verdict in verdicts.unique()}).to_numpy(dtype=object)
    is_placed = (at_row >= 0) & (at_row < num_rows) & (at_column >= 0)
    return _Cells(
        row=at_row[is_placed],
        column=at_column[is_placed],
        speedup=speedup[is_placed],
        counts=counts[is_placed],
        claim=claims[is_placed],
        point=rows["point"].to_numpy(dtype=np.int64)[is_placed],
    )


def _traces(cells: _Cells, shape: tuple[int, int], *, is_silent: bool) -> list[go.Heatmap]:
    """Those that claim and those that are provisional, in colours; what claims nothing; what has no number to count."""
    kinds: list[tuple[Any, dict[str, Any], str | None]] = [(~cells.counts, one_color(UNCOUNTED_CELL), None)]
    kinds[:0] = [(cells.counts & (cells.claim == claim), look_of(claim), claim.value) for claim in Claim]
    found = []
    for chosen, look, words in kinds:
        if words != Claim.CLAIMED.value and not chosen.any():  # the first is the image, be it empty
            continue
        ratios = np.full(shape, math.nan, dtype=np.float32)
        ratios[cells.row[chosen], cells.column[chosen]] = np.where(cells.counts, cells.speedup, 1.0)[chosen]
        told = UNCOUNTED if words is None else f"%{{customdata:.2f}}×{words}"
        said = {"hovertemplate": f"%{{y}}<br>%{{x}}<br>{told}<extra></extra>", "customdata": ratios}
        heard = {"hoverinfo": "skip"} if is_silent else said
        found.append(go.Heatmap(z=np.log2(ratios), hoverongaps=False, **heard, **look))
    return found


def _targets(cells: _Cells, across: Sequence[str], rows: Sequence[str]) -> go.Scatter:
    """A mark in every cell, also in those that are not measured yet: else the nearest would be another's."""
    told = np.full((len(rows), len(across)), "not measured yet", dtype=object)
    points = np.full((len(rows), len(across)), None, dtype=object)
    told[cells.row, cells.column] = [
        f"{ratio(float(speedup))}{claim.value}" if counts else UNCOUNTED
        for speedup, claim, counts in zip(cells.speedup, cells.claim, cells.counts, strict=True)
    ]
    points[cells.row, cells.column] = cells.point.tolist()
    return targets(
        x=[*across] * len(rows),
        y=[name for name in rows for _ in across],
        told=told.ravel().tolist(),
        points=points.ravel().tolist(),
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
