"""The error map: the largest |error| of each block of the output, positions across, heads down. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from dashboard.report_text import Report
from profiling.charts.formatting import count, digits, error
from profiling.charts.palette import FAILED

# The colours mean the same in every map: rounding errors are dark, errors of the outputs' own size bright.
LOWEST, HIGHEST = 1e-8, 1.0
IDENTICAL = "#B0B0B0"
ROW_HEIGHT = 30
# Smaller errors are written in powers of ten.
PLAIN_FROM = 0.01
# Beyond it the numbers do not fit into the cells of a narrow screen.
MAX_TEXT_COLUMNS = 8
ZERO = "0: bit-identical"
NOT_FINITE = "NaN or infinite"


def error_map(report: Report) -> go.Figure | None:
    """The map as a figure, log colour; None where the report has none."""
    found = report.get("error_map")
    if not found or not found.get("values"):
        return None
    positions, heads = [str(name) for name in found["positions"]], [str(name) for name in found["heads"]]
    # Drawn with positions from left to right, as they are read.
    cells = [list(column) for column in zip(*found["values"], strict=True)]
    figure = go.Figure()
    figure.add_trace(_errors(cells, positions, heads))
    figure.add_trace(_zeros(cells, positions, heads))
    figure.add_trace(_not_finite(cells, positions, heads))
    _finish(figure, positions, heads, _values(cells))
    return figure


def takeaway(report: Report) -> str:
    """The map in a sentence, for those who do not see it and those who do."""
    found = report.get("error_map")
    if not found or not found.get("values"):
        return ""
    rows = found["values"]
    total = count(sum(len(row) for row in rows), "block")
    lost = sum(value is None for row in rows for value in row)
    values = _values(rows)
    if not lost and not any(values):
        return f"All {total} are bit-identical to the official layer's."
    told = [f"{lost} of {total} hold NaN or infinity"] if lost else []
    if any(values):
        at, head = max(
            ((i, j) for i, row in enumerate(rows) for j, value in enumerate(row) if value is not None),
            key=lambda place: rows[place[0]][place[1]],
        )
        where = f"position {found['positions'][at]}, head {found['heads'][head]}"
        bound = float(report.get("plain_tolerance") or 1e-5)
        above = sum(value >= bound for value in values)
        told += [f"the largest error is {error(max(values))}, at {where}"]
        told += [f"{above} of {total} are at or above {bound:.0e}"]
    text = "; ".join(told) + "."
    return text[0].upper() + text[1:]


def short(value: float) -> str:
    """An error in two digits, as short as a cell is narrow: `1.4`, `0.27`, `3.0e-8`."""
    return digits(value, 2) if value >= PLAIN_FROM else re.sub(r"e-0*", "e-", f"{value:.1e}")


def _values(rows: Sequence[Sequence[Any]]) -> list[float]:
    return [float(value) for row in rows for value in row if value is not None]


def _errors(cells: list[list[Any]], positions: list[str], heads: list[str]) -> go.Heatmap:
    return go.Heatmap(
        x=positions,
        y=heads,
        z=[[math.log10(value) if value else None for value in row] for row in cells],
        text=[[short(value) if value else "" for value in row] for row in cells],
        customdata=[[error(value) if value else "" for value in row] for row in cells],
        texttemplate=_text_template(positions),
        textfont={"size": 10},
        hovertemplate="position %{x}<br>head %{y}<br>%{customdata}<extra></extra>",
        coloraxis="coloraxis",
        xgap=_gap(positions),
        ygap=_gap(heads),
    )


def _zeros(cells: list[list[Any]], positions: list[str], heads: list[str]) -> go.Heatmap:
    """Zero has no logarithm: it has a colour and a name of its own."""
    return go.Heatmap(
        x=positions,
        y=heads,
        z=[[1 if value == 0 else None for value in row] for row in cells],
        text=[["0" if value == 0 else "" for value in row] for row in cells],
        texttemplate=_text_template(positions),
        textfont={"size": 10, "color": "#222222"},
        colorscale=[[0, IDENTICAL], [1, IDENTICAL]],
        showscale=False,
        hovertemplate=f"position %{{x}}<br>head %{{y}}<br>{ZERO}<extra></extra>",
        xgap=_gap(positions),
        ygap=_gap(heads),
    )


def _text_template(positions: list[str]) -> str | None:
    return "%{text}" if len(positions) <= MAX_TEXT_COLUMNS else None


def _gap(names: list[str]) -> int:
    """Cells stand apart only where they are wide enough."""
    return 1 if len(names) <= 32 else 0


def _not_finite(cells: list[list[Any]], positions: list[str], heads: list[str]) -> go.Scatter:
    places = [
        (positions[i], head) for head, row in zip(heads, cells, strict=True) for i, v in enumerate(row) if v is None
    ]
    return go.Scatter(
        x=[x for x, _ in places],
        y=[y for _, y in places],
        mode="markers",
        marker={"symbol": "x", "size": 10, "color": FAILED},
        hovertemplate=f"position %{{x}}<br>head %{{y}}<br>{NOT_FINITE}<extra></extra>",
        showlegend=False,
    )


def _finish(figure: go.Figure, positions: list[str], heads: list[str], values: list[float]) -> None:
    positive = [value for value in values if value > 0]
    low = math.floor(math.log10(min([LOWEST, *positive])))
    high = math.ceil(math.log10(max([HIGHEST, *positive])))
    powers = list(range(low, high + 1, max(1, (high - low) // 4)))
    # Ranges and categories by hand: a row or column without any number has its place too.
    figure.update_xaxes(
        type="category",
        categoryarray=positions,
        range=[-0.5, len(positions) - 0.5],
        showgrid=False,
        title="position",
        nticks=9,
    )
    figure.update_yaxes(
        type="category",
        categoryarray=heads,
        range=[len(heads) - 0.5, -0.5],
        showgrid=False,
        title="head (block of channels)",
        automargin=True,
        nticks=9,
    )
    height = min(len(heads), 16) * ROW_HEIGHT + 130
    title = {"text": "largest |error| of each block", "font": {"size": 14}, "x": 0, "xanchor": "left"}
    figure.update_layout(
        height=height,
        margin={"l": 10, "r": 10, "t": 72, "b": 10},
        title={**title, "y": 1, "yanchor": "top", "pad": {"t": 4}},
        coloraxis={
            "colorscale": "Cividis",
            "cmin": low,
            "cmax": high,
            "colorbar": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": 1 - 26 / height,
                "yref": "container",
                "yanchor": "top",
                "ypad": 0,
                "len": 0.7,
                "tickvals": powers,
                "ticktext": [f"1e{power}" for power in powers],
                "thickness": 12,
            },
        },
        uirevision="kept",
    )
