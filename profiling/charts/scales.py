"""Axes: the y axis that all panels of a line chart share, its unit and ticks, where zeros are drawn; ticks of sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from profiling.charts.claim_text import leaves_chart
from profiling.charts.marks import Floor, floor_of, log_ticks, top_of
from profiling.charts.metrics import Metric

# More sizes than this along an axis would stand on each other.
MOST_SIZE_TICKS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """What all panels of a figure share on their y axis, in the axis's own unit."""

    unit: str
    factor: float
    is_log: bool
    floor: Floor | None
    top: float
    ticks: tuple[float, ...] = ()
    # Lowest and highest of what is to be seen, where bars are to leave the chart; None where all is to be seen.
    ends: tuple[float, float] | None = None

    def height(self, value: float) -> float:
        """Where a value of the column is drawn."""
        return self.floor.at if self.floor and value <= 0 else value * self.factor


def scale_of(rows: pd.DataFrame, metric: Metric, *, is_log: bool) -> Scale:
    """The unit that a typical value reads best in, and where zeros and failures are drawn."""
    values = rows[metric.column].dropna().to_numpy(dtype=float).tolist()
    positive = sorted(value for value in values if value > 0 and math.isfinite(value))
    unit, factor = metric.unit(positive[len(positive) // 2] if positive else None)
    drawn = [value * factor for value in positive]
    is_cut = False
    if metric.compares:
        is_cut = bool(leaves_chart(rows).any())
        for end in ("speedup_low", "speedup_high"):
            drawn += rows.loc[~leaves_chart(rows), end].dropna().to_numpy(dtype=float).tolist()
        drawn += [metric.line[0]] if is_cut and metric.line else []
    floor = floor_of(drawn, metric) if is_log and any(value <= 0 for value in values) else None
    top = top_of(drawn, metric, is_log=is_log)
    # What the line adds to the axis is to be read on it, and must not squeeze the ticks into what the values take.
    seen = [*drawn, metric.line[0] * factor] if drawn and metric.line else drawn
    ticks = tuple(log_ticks(seen)) if is_log else ()
    ends = (min(drawn), top) if is_cut else None
    return Scale(unit=unit, factor=factor, is_log=is_log, floor=floor, top=top, ticks=ticks, ends=ends)


def show_scale(figure: go.Figure, scale: Scale) -> None:
    """Puts a scale on the y axes of all panels."""
    if not scale.is_log:
        figure.update_yaxes(range=[0, scale.ends[1]]) if scale.ends else figure.update_yaxes(rangemode="tozero")
        return
    figure.update_yaxes(type="log", exponentformat="power", nticks=6)
    if scale.ends:
        figure.update_yaxes(range=[math.log10(scale.ends[0] / 1.1), math.log10(scale.ends[1])])
    if scale.ticks and scale.floor is None:
        texts = [f"{tick:,.6g}" for tick in scale.ticks]
        figure.update_yaxes(tickmode="array", tickvals=scale.ticks, ticktext=texts)
    if scale.floor is not None:
        figure.update_yaxes(tickmode="array", tickvals=scale.floor.ticks, ticktext=scale.floor.texts)


def size_ticks(values: Sequence[int], *, is_log: bool) -> list[int]:
    """Those of the values that stand far enough from each other to be read, the first always."""
    if len(values) <= MOST_SIZE_TICKS:
        return list(values)
    places = {value: math.log10(value) if is_log else float(value) for value in sorted(values)}
    apart = (max(places.values()) - min(places.values())) / MOST_SIZE_TICKS
    chosen: list[int] = []
    for value, place in places.items():
        if not chosen or place - places[chosen[-1]] >= apart:
            chosen.append(value)
    return chosen
