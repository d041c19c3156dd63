"""What a chart shows where there is no ordinary number: zeros on a log axis, NaN and inf, failed points."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from profiling.charts.axes import x_value
from profiling.charts.formatting import chart_lines, chart_text
from profiling.charts.metrics import Metric
from profiling.charts.palette import FAILED

# Where nothing but zeros was measured, they stand this far below the line that matters.
_LOWEST = 1e-9
_MOST_TICKS = 8
# More texts in one panel would stand on each other.
_MOST_TEXTS = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Floor:
    """Where zeros are drawn on a log axis, and the ticks of the axis, of which the lowest says what a zero means."""

    at: float
    ticks: tuple[float, ...]
    texts: tuple[str, ...]


def floor_of(positive: Sequence[float], metric: Metric) -> Floor:
    """A decade or two below everything else, also below a line: a bound is more than nothing."""
    marked = [metric.line[0]] if metric.line else []
    others = [*positive, *marked] or [1.0]
    lowest = math.floor(math.log10(min([*positive, *marked] if positive else [_LOWEST * 10])))
    highest = max(math.ceil(math.log10(max(others))), lowest + 1)
    step = max(1, (highest - lowest) // 5)
    powers = range(lowest, highest + 1, step)
    return Floor(
        at=10.0 ** (lowest - 1),
        ticks=(10.0 ** (lowest - 1), *(10.0**power for power in powers)),
        texts=(metric.zero or "0", *(f"1e{power}" for power in powers)),
    )


def log_ticks(positive: Sequence[float]) -> list[float]:
    """Round numbers over the range of some values, for a log axis: 1, 2 and 5 a decade, or only 1 over many."""
    if not positive:
        return []
    if max(positive) < 3 * min(positive):
        return _linear_ticks(min(positive) / 1.05, max(positive) * 1.05)
    low, high = min(positive) / 1.6, min(max(positive) * 1.6, sys.float_info.max)
    powers = range(math.floor(math.log10(low)), min(math.ceil(math.log10(high)), sys.float_info.max_10_exp) + 1)
    for steps in ((1, 2, 5), (1,)):
        ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(ticks) <= _MOST_TICKS:
            return ticks if len(ticks) > 2 else []
    return ticks[:: -(-len(ticks) // _MOST_TICKS)]


def top_of(positive: Sequence[float], metric: Metric, *, is_log: bool) -> float:
    """The height at which points without a number are marked: just above everything else."""
    highest = max([*positive, metric.line[0] if metric.line else 0.0]) or 1.0
    is_narrow = max(positive, default=1.0) < 3 * min(positive, default=1.0)
    return highest * (1.6 if is_log and not is_narrow else 1.08)


def add_marks(figure: go.Figure, rows: pd.DataFrame, metric: Metric, x: str, top: float, place: dict[str, int]) -> None:
    """Marks in red, once for each x and kind, what has no number: failed points, and outputs that are not finite."""
    found = {**_failed(rows, x), **_not_finite(rows, metric, x)}
    if not found:
        return
    has_text = len(found) <= _MOST_TEXTS
    figure.add_trace(
        go.Scatter(
            x=[x_value(x, value) for value, _ in found],
            y=[top] * len(found),
            mode="markers+text" if has_text else "markers",
            marker={"symbol": "x", "size": 9 if has_text else 5, "color": FAILED},
            text=[chart_text(kind) for _, kind in found] if has_text else None,
            textposition="bottom center",
            textfont={"color": FAILED, "size": 11},
            hovertext=list(found.values()),
            hoverinfo="text",
            name="no number",
            legendgroup="no number",
            showlegend=not has_legend(figure, "no number"),
        ),
        **place,
    )


def has_legend(figure: go.Figure, name: str) -> bool:
    """Whether the legend holds that name already."""
    return any(trace.legendgroup == name for trace in figure.data if trace.showlegend)


def is_finite(values: pd.Series) -> pd.Series:
    """Which values are ordinary numbers: neither missing nor NaN nor infinite."""
    return pd.Series(np.isfinite(values.to_numpy(dtype=float, na_value=np.nan)), index=values.index, dtype=bool)


def _failed(rows: pd.DataFrame, x: str) -> dict[tuple[Any, str], str]:
    """By x and status, why, and which contenders."""
    failed = rows.loc[rows["status"] != "ok", [x, "status", "status_reason", "contender"]].sort_values([x, "status"])
    whom: dict[tuple[Any, str], dict[str, list[str]]] = {}
    for value, status, reason, contender in failed.astype(object).itertuples(index=False, name=None):
        reasons = whom.setdefault((value, str(status)), {})
        reasons.setdefault("no reason given" if pd.isna(reason) else str(reason), []).append(str(contender))
    return {key: "<br>".join(_told(*each) for each in reasons.items()) for key, reasons in whom.items()}


def _not_finite(rows: pd.DataFrame, metric: Metric, x: str) -> dict[tuple[Any, str], str]:
    found = rows[rows[metric.column].notna() & ~is_finite(rows[metric.column])].sort_values(x)
    whom: dict[tuple[Any, str], list[str]] = {}
    for value, contender in found[[x, "contender"]].astype(object).itertuples(index=False, name=None):
        whom.setdefault((value, "not finite"), []).append(str(contender))
    return {key: _told("the output holds NaN or inf", names) for key, names in whom.items()}


def _told(reason: str, contenders: list[str]) -> str:
    return "<br>".join(chart_lines(f"{', '.join(dict.fromkeys(contenders))}: {reason}"))


def _linear_ticks(low: float, high: float) -> list[float]:
    """Round values at equal steps, for a range too narrow for powers of ten and their halves."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]
