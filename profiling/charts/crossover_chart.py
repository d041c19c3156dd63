"""The chart of a crossover: how much faster one contender is than the other at each size, where it turns. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import plotly.graph_objects as go

from profiling.charts import formatting
from profiling.charts.frame import frame, legend_height
from profiling.charts.marks import log_ticks
from profiling.charts.names import names_of
from profiling.charts.palette import MUTED, UNRELIABLE, style_of
from profiling.charts.scales import size_ticks
from profiling.laws.crossover_record import Record, Size
from profiling.laws.crossover_search import FASTER, SLOWER

PLOT_HEIGHT = 280
TITLE_HEIGHT = 40
SHADE = "rgba(128,128,128,0.18)"
NOT_TOLD = "not told apart"


def crossover_chart(record: Record) -> go.Figure:
    """The first contender's speed-up over the second at each size, with its interval; both axes logarithmic.

    Above the line at 1 the first is faster. Between the two sizes where a certain sign turns it is shaded.

    Raises:
        ValueError: no size was compared.
    """
    sizes = compared(record.sizes)
    if not sizes:
        raise ValueError("a crossover is drawn of at least one size at which both were measured")
    names = names_of((record.first, record.second))
    first, second = names[record.first], names[record.second]
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=[each.size for each in sizes],
            y=[each.ratio for each in sizes],
            mode="lines",
            line={"color": MUTED, "width": 1},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    kinds = {
        f"{first} is faster": (FASTER, record.first, 0),
        f"{second} is faster": (SLOWER, record.second, 1),
        NOT_TOLD: ("", "", 0),
    }
    for name, (sign, contender, order) in kinds.items():
        here = [each for each in sizes if (each.sign if each.sign in (FASTER, SLOWER) else "") == sign]
        style = style_of(contender, order)
        color, symbol = (style.color, style.symbol) if contender else (UNRELIABLE, "circle-open")
        if here:
            figure.add_trace(_marks(here, name, color, symbol))
    for low, high in turns(sizes):
        figure.add_vrect(x0=low, x1=high, fillcolor=SHADE, line_width=0, layer="below")
    figure.add_hline(y=1, line={"color": UNRELIABLE, "width": 1, "dash": "dot"})
    header = TITLE_HEIGHT + legend_height(figure)
    title = f"{_short(first)}: times as fast as {_short(second)}"
    frame(figure, title, PLOT_HEIGHT + header, header=header, legend_at=TITLE_HEIGHT)
    ticks = size_ticks([each.size for each in sizes], is_log=True)
    axis = formatting.axis_label(record.axis)
    figure.update_xaxes(type="log", title=axis, tickvals=ticks, ticktext=[str(size) for size in ticks])
    heights = log_ticks([value for each in sizes for value in _reach(each)] + [1.0])
    texts = [f"{tick:.4g}" for tick in heights]
    figure.update_yaxes(type="log", title="speed-up", tickvals=heights or None, ticktext=texts or None)
    return figure


def crossover_alt(record: Record) -> str:
    """What the chart shows, for someone who does not see it."""
    shown = "; ".join(f"{each.size:,}: {_ratio(each)}" for each in compared(record.sizes))
    return f"Speed-up of {record.first} over {record.second} by {formatting.axis_label(record.axis)}: {shown}."


def compared(sizes: Sequence[Size]) -> list[Size]:
    """The sizes at which both were measured, rising."""
    return sorted((each for each in sizes if each.ratio is not None), key=lambda each: each.size)


def turns(sizes: Sequence[Size]) -> list[tuple[int, int]]:
    """Neighbouring certain sizes of opposite signs: there one overtakes the other."""
    told = [each for each in sizes if each.sign in (FASTER, SLOWER)]
    return [(a.size, b.size) for a, b in itertools.pairwise(told) if a.sign != b.sign]


def _marks(sizes: list[Size], name: str, color: str, symbol: str) -> go.Scatter:
    heights = [each.ratio or 1.0 for each in sizes]
    return go.Scatter(
        x=[each.size for each in sizes],
        y=heights,
        name=formatting.chart_text(name),
        mode="markers",
        marker={"symbol": symbol, "size": 9, "color": color},
        error_y={
            "type": "data",
            "array": [_reach(each)[1] - height for each, height in zip(sizes, heights, strict=True)],
            "arrayminus": [height - _reach(each)[0] for each, height in zip(sizes, heights, strict=True)],
            "color": color,
            "thickness": 1.5,
        },
        text=[f"{_ratio(each)}, {formatting.count(each.replicates, 'replicate')}" for each in sizes],
        hovertemplate="%{x:,}: %{text}<extra></extra>",
        showlegend=True,
    )


def _short(name: str) -> str:
    """A name of which two have room in a title on a phone."""
    return formatting.chart_text(name, 20)


def _reach(size: Size) -> tuple[float, float]:
    """The ends of the interval; the value itself where there is none."""
    ratio = size.ratio or 1.0
    return size.ratio_low or ratio, size.ratio_high or ratio


def _ratio(size: Size) -> str:
    if size.ratio_low is None or size.ratio_high is None:
        return f"{size.ratio:.2f}"
    return f"{size.ratio:.2f} [{size.ratio_low:.2f}, {size.ratio_high:.2f}]"
