"""What a chart shows where there is no ordinary number: zeros on a log axis, NaN and inf, failed points."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from dashboard import formatting
from dashboard.axes import SIZES
from dashboard.metrics import Metric
from dashboard.palette import FAILED

# Where nothing but zeros was measured, they stand this far below the line that matters.
_LOWEST = 1e-9
_MOST_TICKS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Floor:
    """Where zeros are drawn on a log axis, and the ticks of the axis, of which the lowest says what a zero means."""

    at: float
    ticks: tuple[float, ...]
    texts: tuple[str, ...]


def floor_of(positive: Sequence[float], metric: Metric) -> Floor:
    """A decade or two below everything else."""
    marked = [metric.line[0]] if metric.line else []
    others = [*positive, *marked] or [1.0]
    lowest = math.floor(math.log10(min(positive, default=_LOWEST * 10)))
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
    low, high = min(positive) / 1.6, max(positive) * 1.6
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
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
    failed = rows[rows["status"] != "ok"]
    for (value, status), group in failed.groupby([x, "status"], sort=True):
        _add(figure, _x_value(x, value), top, str(status), _reasons(group), place)
    not_finite = rows[rows[metric.column].notna() & ~is_finite(rows[metric.column])]
    for value, group in not_finite.groupby(x, sort=True):
        _add(figure, _x_value(x, value), top, "not finite", _names(group) + ": the output holds NaN or inf", place)


def is_finite(values: pd.Series) -> pd.Series:
    """Which values are ordinary numbers: neither missing nor NaN nor infinite."""
    return pd.Series(np.isfinite(values.to_numpy(dtype=float, na_value=np.nan)), index=values.index, dtype=bool)


def _add(figure: go.Figure, x: Any, y: float, text: str, hover: str, place: dict[str, int]) -> None:
    is_first = not any(trace.legendgroup == "no number" for trace in figure.data)
    figure.add_trace(
        go.Scatter(
            x=[x],
            y=[y],
            mode="markers+text",
            marker={"symbol": "x", "size": 9, "color": FAILED},
            text=[text],
            textposition="bottom center",
            textfont={"color": FAILED, "size": 11},
            hovertext=hover,
            hoverinfo="text",
            name="no number",
            legendgroup="no number",
            showlegend=is_first,
        ),
        **place,
    )


def _reasons(group: pd.DataFrame) -> str:
    reasons = group.assign(status_reason=group["status_reason"].fillna("no reason given"))
    return "<br>".join(f"{_names(rows)}: {reason}" for reason, rows in reasons.groupby("status_reason", sort=False))


def _names(group: pd.DataFrame) -> str:
    return ", ".join(dict.fromkeys(group["contender"].astype(str)))


def _x_value(axis: str, value: Any) -> Any:
    return int(value) if axis in SIZES else formatting.axis_value(axis, value)


def _linear_ticks(low: float, high: float) -> list[float]:
    """Round values at equal steps, for a range too narrow for powers of ten and their halves."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]
