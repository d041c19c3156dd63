"""The chart of a law: what was measured, by size, and the curve that was fitted through it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from profiling.charts import formatting
from profiling.charts.frame import frame, legend_height
from profiling.charts.marks import log_ticks
from profiling.charts.names import names_of
from profiling.charts.palette import style_of
from profiling.charts.scales import size_ticks
from profiling.laws.growth import LARGEST_SIZE, TIME, WORST_CURVE_ERROR, Law
from profiling.laws.law_words import law_words

PLOT_HEIGHT = 300
TITLE_HEIGHT = 40
NUM_STEPS = 40
UNITS = {TIME: "milliseconds"}
ANY_UNIT = "MiB"


def law_chart(laws: Sequence[Law]) -> go.Figure:
    """The laws of several contenders in one quantity along one axis, both axes logarithmic.

    Marks are what was measured, lines the law that is told; where none is, the marks stand alone.

    Raises:
        ValueError: the laws are of different quantities or axes, or there is none.
    """
    kinds = {(law.quantity, law.axis) for law in laws}
    if len(kinds) != 1:
        raise ValueError(f"laws must be of one quantity along one axis, at least one: not {sorted(kinds)}")
    ((quantity, axis),) = kinds
    figure = go.Figure()
    names = names_of(law.contender for law in laws)
    orders = {contender: order for order, contender in enumerate(names)}
    for law in laws:
        style, name = style_of(law.contender, orders[law.contender]), names[law.contender]
        told = "<br>".join(formatting.chart_lines(law_words(law, names)))
        sizes, fitted = _fitted(law)
        if sizes:
            figure.add_trace(
                go.Scatter(
                    x=sizes,
                    y=fitted,
                    legendgroup=law.contender,
                    showlegend=False,
                    mode="lines",
                    line={"color": style.color, "dash": style.dash, "width": 1.5},
                    hoverinfo="skip",
                )
            )
        figure.add_trace(
            go.Scatter(
                x=list(law.sizes),
                y=list(law.values),
                name=name,
                legendgroup=law.contender,
                showlegend=True,
                mode="markers",
                marker={"symbol": style.symbol, "size": 8, "color": style.color},
                text=[told] * len(law.sizes),
                hovertemplate="%{x:,}: %{y:.3s}<br>%{text}<extra></extra>",
            )
        )
    header = TITLE_HEIGHT + legend_height(figure)
    title = f"How {quantity} grows with {formatting.AXIS_LABELS[axis]}"
    frame(figure, title, PLOT_HEIGHT + header, header=header, legend_at=TITLE_HEIGHT)
    ticks = size_ticks(sorted({size for law in laws for size in law.sizes}), is_log=True)
    heights = log_ticks([value for law in laws for value in law.values])
    figure.update_xaxes(
        type="log", title=formatting.AXIS_LABELS[axis], tickvals=ticks, ticktext=[str(size) for size in ticks]
    )
    figure.update_yaxes(type="log", title=f"{quantity}, {UNITS.get(quantity, ANY_UNIT)}", tickvals=heights or None)
    return figure


def law_alt(laws: Sequence[Law]) -> str:
    """What the chart shows, for someone who does not see it."""
    names = names_of(law.contender for law in laws)
    return "Measured values and fitted laws. " + "; ".join(law_words(law, names) for law in laws) + "."


def _fitted(law: Law) -> tuple[list[float], list[float]]:
    """Points of the told law, over the sizes that it was fitted to; none where no curve of three terms shows it."""
    if law.exponent is None or not law.sizes:
        return [], []
    sizes, values = law.sizes[-law.num_fitted :], law.values[-law.num_fitted :]
    ratio = sizes[-1] / sizes[0]
    steps = [sizes[0] * ratio ** (step / NUM_STEPS) for step in range(NUM_STEPS + 1)]
    if law.basis == LARGEST_SIZE and law.curve is not None:
        if law.curve.worst > WORST_CURVE_ERROR:
            return [], []
        return steps, [law.curve.at(size) for size in steps]
    # A power law goes through the geometric mean of what it was fitted to.
    k = law.exponent.value
    level = sum(math.log(y) - k * math.log(x) for x, y in zip(sizes, values, strict=True)) / len(sizes)
    return steps, [math.exp(level) * size**k for size in steps]
