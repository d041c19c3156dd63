"""The roofline chart: what the machine was measured to do, and where each contender's points lie below it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import plotly.graph_objects as go

from profiling.charts import formatting
from profiling.charts.frame import frame, legend_height
from profiling.charts.marks import log_ticks
from profiling.charts.names import names_of
from profiling.charts.palette import style_of
from profiling.limits import Limit, Limits, contender_limits, contender_words, limit_words

PLOT_HEIGHT = 340
TITLE_HEIGHT = 40
# Room beside the outermost points, as a factor.
ROOM = 2.0
# A roof for each element type, told apart by the dash, since colours are the contenders'.
ROOF_COLOR = "#8C8C8C"
ROOF_DASHES = ("solid", "dash", "dot", "dashdot")


def roofline_chart(limits: Limits) -> go.Figure:
    """Each contender's points, joined by seq_len, below the roof of their element type; both axes logarithmic.

    Args:
        limits: of a run, as `profiling.limits.limits_of` gives them.
    """
    figure = go.Figure()
    by_contender = contender_limits(limits)
    names = names_of(by_contender)
    for dash, (dtype, roofed) in zip(ROOF_DASHES, _by_dtype(limits.limits).items(), strict=False):
        figure.add_trace(_roof(dtype, roofed, limits.limits, dash))
    for position, (contender, each) in enumerate(by_contender.items()):
        for number, line in enumerate(_lines(each)):
            figure.add_trace(_points(line, contender, names[contender], position, is_first=number == 0))
    header = TITLE_HEIGHT + legend_height(figure)
    frame(figure, "How near to what this machine can do", PLOT_HEIGHT + header, header=header, legend_at=TITLE_HEIGHT)
    for axis, title in (("x", "operations per byte that has to be moved"), ("y", "GFLOP/s")):
        drawn = [float(value) for trace in figure.data for value in trace[axis]]
        ticks = log_ticks(drawn)  # plotly's own between powers of ten are bare digits
        figure.update_layout({f"{axis}axis": {"type": "log", "title": title, "tickvals": ticks or None}})
    return figure


def roofline_alt(limits: Limits) -> str:
    """What the chart shows, for someone who does not see it."""
    if not limits.limits:
        return "Roofline chart without points: no row of this run has a measured ceiling."
    roofs = [f"{dtype}: {each[0].matmul_gflop_per_s:,.0f} GFLOP/s" for dtype, each in _by_dtype(limits.limits).items()]
    copy = f"{limits.limits[0].copy_gb_per_s:,.0f} GB/s"
    told = "; ".join(limit_sentences(limits))
    return f"Roofline chart. Measured ceilings: {', '.join(roofs)}, {copy} copied. {told}."


def limit_sentences(limits: Limits) -> list[str]:
    """A sentence on each contender, by its short name."""
    found = contender_limits(limits)
    names = names_of(found)
    return [contender_words(each, names) for each in found.values()]


def _by_dtype(limits: Iterable[Limit]) -> dict[str, list[Limit]]:
    found: dict[str, list[Limit]] = {}
    for limit in limits:
        found.setdefault(limit.dtype, []).append(limit)
    return found


def _lines(limits: tuple[Limit, ...]) -> list[list[Limit]]:
    """The points that differ in their length alone, each a line."""
    found: dict[tuple[object, ...], list[Limit]] = {}
    for each in limits:
        key = (each.batch_size, each.num_heads, each.d_model, each.dtype, each.mode, each.causal)
        found.setdefault(key, []).append(each)
    return list(found.values())


def _roof(dtype: str, roofed: list[Limit], all_limits: tuple[Limit, ...], dash: str) -> go.Scatter:
    matmul, copy = roofed[0].matmul_gflop_per_s, roofed[0].copy_gb_per_s
    ridge = matmul / copy
    low = min(ridge, *(each.arithmetic_intensity for each in all_limits)) / ROOM
    high = max(ridge, *(each.arithmetic_intensity for each in all_limits)) * ROOM
    told = f"{dtype}: {matmul:,.0f} GFLOP/s in matrix products, {copy:,.1f} GB/s copied"
    return go.Scatter(
        x=[low, ridge, high],
        y=[low * copy, matmul, matmul],
        name=f"what the machine can do, {dtype}",
        mode="lines",
        line={"color": ROOF_COLOR, "dash": dash, "width": 2},
        text=[told] * 3,
        hovertemplate="%{text}<extra></extra>",
        showlegend=True,
    )


def _points(line: list[Limit], contender: str, name: str, position: int, *, is_first: bool) -> go.Scatter:
    style = style_of(contender, position)
    return go.Scatter(
        x=[each.arithmetic_intensity for each in line],
        y=[each.achieved_gflop_per_s for each in line],
        name=name,
        legendgroup=contender,
        showlegend=is_first,
        mode="lines+markers",
        line={"color": style.color, "dash": style.dash, "width": 1.5},
        marker={"symbol": style.symbol, "size": 8, "color": style.color},
        text=[_hover(each, name) for each in line],
        hovertemplate="%{text}<extra></extra>",
    )


def _hover(limit: Limit, name: str) -> str:
    causal = ", causal" if limit.causal else ""
    return "<br>".join(
        [
            f"<b>{formatting.chart_text(name)}</b>: {limit.achieved_gflop_per_s:,.1f} GFLOP/s",
            *formatting.chart_lines(limit_words(limit)),
            f"batch {limit.batch_size}, seq_len {limit.seq_len}, heads {limit.num_heads}, d_model {limit.d_model}",
            f"{limit.dtype}, {limit.mode}{causal}",
            f"{limit.arithmetic_intensity:,.1f} operations a byte",
        ]
    )
