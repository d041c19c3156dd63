"""Line charts: one panel for each combination of the panel axes, one line a series. Pure: table to figure."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from profiling.charts import claim_marks, dense_lines, density, formatting, hover_text
from profiling.charts.axes import CONTENDER, SIZES, View, label, x_value
from profiling.charts.claim_text import claims_difference
from profiling.charts.frame import frame, legend_height
from profiling.charts.marks import add_marks, has_legend, is_finite
from profiling.charts.metrics import MEMORY_RATIO, Metric, counts_in_mean, with_memory_ratio
from profiling.charts.names import names_of
from profiling.charts.palette import MUTED, UNRELIABLE, Style, style_of
from profiling.charts.scales import Scale, scale_of, show_scale, size_ticks

PANEL_HEIGHT = 220
# The chart's title, and that of the first panels.
TITLES_HEIGHT = 48
# Room beside the first and the last point, as a part of the axis.
EDGE = 0.14


DRAWN = {"point", "status", "status_reason", "speedup", *hover_text.COLUMNS}


def line_chart(
    table: pd.DataFrame,
    metric: Metric,
    view: View,
    axes: Mapping[str, Sequence[Any]],
    panels: Sequence[Mapping[str, Any]],
) -> go.Figure:
    """Draws a metric of a run's table, as much of it as `density.plan` says.

    Args:
        table: one row per workload × contender, as `load_run` gives it.
        metric: what to draw.
        view: what is on x, what makes a line, what is held.
        axes: every value of every axis, so that panels and colours stay where they are while rows come.
        panels: the panel axes' values, one dictionary a panel.
    """
    drawn = density.plan(view, axes, panels)
    rows = _rows_to_draw(table, metric, view, drawn)
    shown = list(drawn.panels)
    scale = scale_of(rows, metric, is_log=view.log_y)
    names = names_of(axes.get(CONTENDER, ()))
    figure = _grid(shown, names, shared_y=True)
    orders = {value: order for order, value in enumerate(axes.get(view.series, ("",)))}
    add = dense_lines.add_series if drawn.is_dense else _add_series
    by_panel = _by_values(rows, view.panels)
    by_line = _by_values(_with_texts(rows, metric, is_dense=drawn.is_dense), (*view.panels, view.series))
    for position, where in enumerate(shown):
        place = {"row": position // _columns(shown) + 1, "col": position % _columns(shown) + 1}
        panel = tuple(where[axis] for axis in view.panels)
        here = by_panel.get(panel, rows.iloc[:0])
        if metric.compares:
            claim_marks.add_noise_floor(figure, here, view.x, functools.partial(x_value, view.x), place)
        for value in drawn.series:
            line = by_line.get((*panel, value), rows.iloc[:0]).sort_values(view.x)
            name = label({view.series: value}, names)
            if not line.empty:
                add(figure, line, metric, view.x, scale, style_of(value, orders[value]), name, place)
        add_marks(figure, here, metric, view.x, scale.top, place)
    if view.x not in axes:  # nothing is swept: the one size that there is
        axes = {**axes, view.x: tuple(sorted(rows[view.x].dropna().unique()))}
    _finish(figure, metric, view, axes, scale, shown)
    return figure


def select(table: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """The rows whose axes have these values."""
    for axis, value in where.items():
        table = table[table[axis].eq(value).fillna(False)]
    return table


def _rows_to_draw(table: pd.DataFrame, metric: Metric, view: View, drawn: density.Plan) -> pd.DataFrame:
    compared = with_memory_ratio(table) if metric.column == MEMORY_RATIO.column else table
    # Only what is drawn: every selection copies all columns there are.
    wanted = dense_lines.COLUMNS | {metric.low, metric.high} if drawn.is_dense else DRAWN
    wanted = {metric.column, view.x, view.series, *view.panels, *view.held} | wanted
    rows = select(compared[[name for name in compared if name in wanted]], view.held)
    return rows[rows[view.x].isin(drawn.x).fillna(False)] if drawn.x else rows


def _by_values(rows: pd.DataFrame, axes: Sequence[str]) -> dict[tuple[Any, ...], pd.DataFrame]:
    """The rows by their values of these axes; all of them where there is no axis."""
    return dict(iter(rows.groupby(list(axes), sort=False))) if axes else {(): rows}


def _with_texts(rows: pd.DataFrame, metric: Metric, *, is_dense: bool) -> pd.DataFrame:
    """The rows that have an ordinary number, whether each does not count, and where marks are drawn what each tells.

    All at once: for hundreds of short lines it would take longer than drawing them.
    """
    rows = rows[is_finite(rows[metric.column])]
    rows = rows.assign(is_grey=metric.compares & ~counts_in_mean(rows) & rows["check_verdict"].notna())
    if is_dense:
        return rows
    told = [hover_text.hover(row, metric, is_greyed=row["is_grey"]) for row in rows.to_dict("records")]
    return rows.assign(told=pd.Series(told, index=rows.index, dtype=object))


def _add_series(
    figure: go.Figure,
    rows: pd.DataFrame,
    metric: Metric,
    x_axis: str,
    scale: Scale,
    style: Style,
    name: str,
    place: dict[str, int],
) -> None:
    x = [x_value(x_axis, value) for value in rows[x_axis]]
    y = [scale.height(value) for value in rows[metric.column]]
    if metric.low and metric.high and not metric.compares:
        figure.add_trace(_band(rows, metric, scale, style, name, x), **place)
    colors = [UNRELIABLE if is_grey else style.color for is_grey in rows["is_grey"]]
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            name=name,
            legendgroup=name,
            showlegend=not has_legend(figure, name),
            mode="lines+markers",
            line={"color": style.color, "dash": style.dash, "width": 2},
            marker={"symbol": _symbols(rows, metric, style), "size": 8, "color": colors},
            error_y=claim_marks.bars(rows, style.faint(0.7)) if metric.compares else None,
            text=rows["told"].tolist(),
            hovertemplate="%{text}<extra></extra>",
            customdata=rows["point"].tolist(),  # what a click on a mark is about
        ),
        **place,
    )


def _symbols(rows: pd.DataFrame, metric: Metric, style: Style) -> str | list[str]:
    """The series' mark; in a comparison full or hollow."""
    if not metric.compares:
        return style.symbol
    return [claim_marks.mark(style.symbol, is_claimed=is_claimed) for is_claimed in claims_difference(rows)]


def _band(rows: pd.DataFrame, metric: Metric, scale: Scale, style: Style, name: str, x: list[Any]) -> go.Scatter:
    low = [None if pd.isna(value) else value * scale.factor for value in rows[metric.low]]
    high = [None if pd.isna(value) else value * scale.factor for value in rows[metric.high]]
    return go.Scatter(
        x=[*x, *reversed(x)],
        y=[*high, *reversed(low)],
        fill="toself",
        fillcolor=style.faint(0.18),
        line={"width": 0},
        mode="lines",
        legendgroup=name,
        showlegend=False,
        hoverinfo="skip",
    )


def _finish(
    figure: go.Figure,
    metric: Metric,
    view: View,
    axes: Mapping[str, Sequence[Any]],
    scale: Scale,
    shown: list[Mapping[str, Any]],
) -> None:
    if metric.line is not None:
        _add_line(figure, metric.line[0] * scale.factor, metric.line[1], len(shown), is_log=scale.is_log)
    _x_axes(figure, view, axes, shown)
    show_scale(figure, scale)
    header = TITLES_HEIGHT + legend_height(figure)
    height = -(-len(shown) // _columns(shown)) * PANEL_HEIGHT + header
    title = metric.title + (f", {scale.unit}" if scale.unit else "")
    figure.update_annotations(font_size=12)
    frame(figure, title, height, header=header, legend_at=26)


def _add_line(figure: go.Figure, y: float, name: str, num_panels: int, *, is_log: bool) -> None:
    line = {"type": "line", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": {"dash": "dot", "width": 1.5, "color": MUTED}}
    # All at once: plotly's own way of adding them goes over the whole figure for every panel.
    numbers = ["", *range(2, num_panels + 1)]
    figure.update_layout(shapes=[{**line, "xref": f"x{number} domain", "yref": f"y{number}"} for number in numbers])
    figure.add_annotation(
        text=name,
        showarrow=False,
        x=1,
        xref="x domain",
        xanchor="right",
        y=math.log10(y) if is_log else y,  # plotly takes the exponent for an annotation, and the value for a line
        yref="y",
        yanchor="bottom",
        opacity=0.75,
    )


def _x_axes(figure: go.Figure, view: View, axes: Mapping[str, Sequence[Any]], shown: list[Mapping[str, Any]]) -> None:
    figure.update_xaxes(showticklabels=True)
    title = {"text": formatting.axis_label(view.x), "standoff": 6}
    figure.update_xaxes(title=title, row=-(-len(shown) // _columns(shown)))
    values = list(axes.get(view.x, ()))
    if view.x not in SIZES:
        names = [formatting.axis_value(view.x, value) for value in values]
        reach = [-EDGE * 3, len(names) - 1 + EDGE * 3]
        figure.update_xaxes(type="category", categoryarray=names, range=reach if names else None)
        return
    if len(values) > 1:
        # By hand, so that all panels have the same range, whatever of them is measured yet.
        ends = [math.log10(value) if view.log_x else value for value in (min(values), max(values))]
        edge = EDGE * (ends[1] - ends[0])
        figure.update_xaxes(range=[ends[0] - edge, ends[1] + edge])
    elif values:  # one size stands alone in the middle, and its axis has no other tick
        middle = math.log10(values[0]) if view.log_x else values[0]
        figure.update_xaxes(range=[middle - EDGE, middle + EDGE] if view.log_x else [0, 2 * middle])
    ticks = size_ticks(values, is_log=view.log_x)
    if ticks:
        figure.update_xaxes(tickmode="array", tickvals=ticks, ticktext=[str(value) for value in ticks])
    figure.update_xaxes(type="log" if view.log_x else "linear")


def _grid(shown: list[Mapping[str, Any]], names: Mapping[str, str], *, shared_y: bool) -> go.Figure:
    columns = _columns(shown)
    rows = -(-len(shown) // columns)
    return make_subplots(
        rows=rows,
        cols=columns,
        shared_yaxes="all" if shared_y else False,
        subplot_titles=[label(where, names) for where in shown] if any(shown) else None,
        horizontal_spacing=0.04,
        vertical_spacing=min(0.25, 58 / (rows * PANEL_HEIGHT)) if rows > 1 else 0,
    )


def _columns(shown: list[Mapping[str, Any]]) -> int:
    return min(2, len(shown))
