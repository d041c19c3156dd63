"""Charts of one point's raw samples: times in order, their spread, and ratios round by round. Pure: data to figure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go

from dashboard.sample_ratios import CLONE, Within
from profiling.charts.formatting import chart_text, latency, ratio, time_unit
from profiling.charts.frame import frame
from profiling.charts.marks import log_ticks
from profiling.charts.names import names_of
from profiling.charts.palette import MUTED, UNRELIABLE, Style, style_of

# More positions than this would only hide each other, and cost the browser time.
MOST_POSITIONS = 1_500
TIMES_HEIGHT = 260
RATIOS_HEIGHT = 250
# Above a chart: its title, a line of the legend for every two entries, the numbers of the replicates.
TITLE_HEIGHT = 30
LEGEND_LINE = 20
NUMBERS_HEIGHT = 24
ROW_HEIGHT = 34
# The axis of ratios holds this middle part of them, else one outlier would flatten all others.
SHOWN_PART = 0.98
# Of a name: it stands beside its box.
MOST_LETTERS = 40
_CLONE_SYMBOLS = ("x-thin-open", "cross-thin-open", "asterisk-open", "hash-open")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """One contender, or a clone, as the charts name and draw it."""

    contender: str
    name: str
    style: Style


def looks_of(contenders: Sequence[str], measured: Sequence[str]) -> list[Look]:
    """The contenders of a run that have samples, in the run's order and colours, then the clones, in grey."""
    names = names_of(contenders)
    there = set(measured)
    found = [
        Look(contender=each, name=chart_text(names[each], MOST_LETTERS), style=style_of(each, order))
        for order, each in enumerate(contenders)
        if each in there
    ]
    clones = [f"{CLONE}{each}" for each in contenders if f"{CLONE}{each}" in there]
    for order, each in enumerate(clones):
        symbol = _CLONE_SYMBOLS[order % len(_CLONE_SYMBOLS)]
        style = Style(color=UNRELIABLE, dash="dot", symbol=symbol)
        found.append(
            Look(
                contender=each,
                name=f"clone of {chart_text(names[each.removeprefix(CLONE)], MOST_LETTERS)}",
                style=style,
            )
        )
    return found


def times_chart(placed: pd.DataFrame, looks: Sequence[Look]) -> go.Figure:
    """The time of one call in each sample, in the order of measurement, replicates one after the other.

    Args:
        placed: samples with their `position`, as `laid_out` gives them.
        looks: whose are drawn, and how.
    """
    unit, factor = _unit(placed)
    figure = go.Figure()
    for look in looks:
        rows = placed[placed["contender"] == look.contender]
        figure.add_trace(
            go.Scatter(
                x=rows["position"].tolist(),
                y=(rows["latency_ms"] * factor).tolist(),
                name=look.name,
                mode="markers",
                marker=_marker(look),
                customdata=list(zip(rows["replicate"], rows["round"], map(latency, rows["latency_ms"]), strict=True)),
                hovertemplate="<b>%{fullData.name}</b>: %{customdata[2]}<br>replicate %{customdata[0]}, "
                "round %{customdata[1]}<extra></extra>",
            )
        )
    _log_axis(figure, [float(value) * factor for value in placed["latency_ms"]])
    _add_replicates(figure, placed)
    _finish(figure, f"time of one call, {unit}, sample by sample", TIMES_HEIGHT, num_entries=len(looks))
    return figure


def spread_chart(samples: pd.DataFrame, looks: Sequence[Look]) -> go.Figure:
    """How the times are spread: a box from quartile to quartile with the median, whiskers from 5 % to 95 %."""
    unit, factor = _unit(samples)
    figure = go.Figure()
    for look in looks:
        times = samples.loc[samples["contender"] == look.contender, "latency_ms"] * factor
        p5, p25, p50, p75, p95 = (float(value) for value in times.quantile([0.05, 0.25, 0.5, 0.75, 0.95]))
        figure.add_trace(
            go.Box(
                **{"q1": [p25], "median": [p50], "q3": [p75], "lowerfence": [p5], "upperfence": [p95]},
                y=[look.name],
                orientation="h",
                name=look.name,
                line={"color": look.style.color, "width": 1.5},
                fillcolor=look.style.faint(0.25),
                hoverinfo="x",
            )
        )
    figure.update_xaxes(title={"text": unit, "standoff": 4}, nticks=4)
    figure.update_yaxes(autorange="reversed", automargin=True, showgrid=False)
    _finish(figure, "their spread: 5 %, quartiles, 95 %", max(TIMES_HEIGHT, len(looks) * ROW_HEIGHT), num_entries=0)
    figure.update_layout(showlegend=False)
    return figure


def ratios_chart(ratios: pd.DataFrame, medians: Sequence[Within], looks: Sequence[Look]) -> go.Figure:
    """Reference / contender in each round, and across each replicate the median, which is its speed-up.

    Args:
        ratios: as `ratios_of` gives them, maybe thinned.
        medians: the medians of all rounds.
        looks: whose are drawn, and how.
    """
    figure = go.Figure()
    ends = ratios.groupby("replicate")["position"].agg(["min", "max"])
    for look in looks:
        rows = ratios[ratios["contender"] == look.contender]
        if rows.empty:
            continue
        figure.add_trace(
            go.Scatter(
                x=rows["position"].tolist(),
                y=rows["ratio"].tolist(),
                name=look.name,
                legendgroup=look.name,
                mode="markers",
                marker={**_marker(look), "opacity": 0.45},
                customdata=list(zip(rows["replicate"], rows["round"], map(ratio, rows["ratio"]), strict=True)),
                hovertemplate="<b>%{fullData.name}</b>: %{customdata[2]}<br>replicate %{customdata[0]}, "
                "round %{customdata[1]}<extra></extra>",
            )
        )
        figure.add_trace(_medians([each for each in medians if each.contender == look.contender], ends, look))
    num_entries = len(figure.data) // 2
    figure.add_hline(y=1.0, line={"dash": "dot", "width": 1.5, "color": MUTED})
    low, high = shown_range(ratios)
    _log_axis(figure, [low, high], is_cut=True)
    _add_replicates(figure, ratios)
    _finish(figure, "speed-up round by round; lines: medians", RATIOS_HEIGHT, num_entries=num_entries)
    return figure


def shown_range(ratios: pd.DataFrame) -> tuple[float, float]:
    """The ends of the middle part of the ratios, and 1."""
    if ratios.empty:
        return 0.9, 1.1
    low, high = (float(ratios["ratio"].quantile(share)) for share in ((1 - SHOWN_PART) / 2, (1 + SHOWN_PART) / 2))
    return min(low, 1.0) / 1.02, max(high, 1.0) * 1.02


def _medians(medians: Sequence[Within], ends: pd.DataFrame, look: Look) -> go.Scatter:
    drawn = [each for each in medians if each.replicate in ends.index]
    x: list[float | None] = []
    y: list[float | None] = []
    told: list[str] = []
    for each in drawn:
        first, last = (float(ends[end].loc[each.replicate]) for end in ("min", "max"))
        x += [first - 0.5, last + 0.5, None]
        y += [each.median, each.median, None]
        told += [f"replicate {each.replicate}: {ratio(each.median)} [{ratio(each.low)}, {ratio(each.high)}]"] * 2 + [""]
    return go.Scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": look.style.color, "dash": look.style.dash, "width": 2.5},
        name=f"{look.name}, median",
        legendgroup=look.name,
        showlegend=False,
        text=told,
        hovertemplate="<b>%{fullData.name}</b>, %{text}<extra></extra>",
    )


def _marker(look: Look) -> Mapping[str, object]:
    color = look.style.color  # of the line too: a thin mark has no inside
    return {
        "symbol": look.style.symbol,
        "size": 5,
        "color": color,
        "opacity": 0.7,
        "line": {"width": 1, "color": color},
    }


def _unit(samples: pd.DataFrame) -> tuple[str, float]:
    return time_unit(None if samples.empty else float(samples["latency_ms"].median()))


def _log_axis(figure: go.Figure, values: Sequence[float], *, is_cut: bool = False) -> None:
    figure.update_yaxes(type="log", exponentformat="power", nticks=6)
    ticks = log_ticks(values)
    if ticks:
        figure.update_yaxes(tickmode="array", tickvals=ticks, ticktext=[f"{tick:,.6g}" for tick in ticks])
    if is_cut:
        figure.update_yaxes(range=[math.log10(min(values)), math.log10(max(values))])


def _add_replicates(figure: go.Figure, placed: pd.DataFrame) -> None:
    """A line between two replicates, and the number of each above its rounds."""
    figure.update_xaxes(title={"text": "round", "standoff": 4}, showgrid=False)
    ends = placed.groupby("replicate")["position"].agg(["min", "max"])
    for replicate, (first, last) in ends.iterrows():
        if first > 1:
            figure.add_vline(x=first - 0.5, line={"width": 1, "color": MUTED})
        figure.add_annotation(
            **{"x": (first + last) / 2, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False},
            text=f"rep {replicate}" if len(ends) <= 8 else str(replicate),
            font={"size": 11},
        )


def _finish(figure: go.Figure, title: str, height: int, *, num_entries: int) -> None:
    header = TITLE_HEIGHT + -(-num_entries // 2) * LEGEND_LINE + (NUMBERS_HEIGHT if num_entries else 0)
    height += header
    frame(figure, title, height, header=header, legend_at=TITLE_HEIGHT)
