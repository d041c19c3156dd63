"""A comparison in words, for a chart and for someone who does not see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from profiling.charts.formatting import chart_lines, chart_text, count, latency
from profiling.wording import workload_words

# Two replicates may give an interval up to millions of per cent: such figures tell nobody anything.
WIDEST_TOLD = 10_000


def compare_alt(rows: pd.DataFrame, verdicts: Mapping[str, int], num_regressions: int) -> str:
    """What the chart shows, for someone who does not see it."""
    told = ", ".join(f"{number:,} {verdict}" for verdict, number in verdicts.items() if number) or "no verdict"
    changes = rows.loc[~rows["is_yardstick"], "change_percent"].dropna()
    span = f", from {changes.min():+.1f} % to {changes.max():+.1f} %" if len(changes) else ""
    return f"Change of time at each shape{span}. Verdicts: {told}. {count(num_regressions, 'regression')}."


def hover(row: Mapping[str, Any], name: str) -> str:
    """A row as lines of a chart: what changed, what may be claimed of it, and why."""
    lines = [f"<b>{chart_text(name)}</b> at {chart_text(workload_words(row))}"]
    if row["change_percent"] is not None:
        lines.append(f"{row['measure']} time {change_words(row)}")
    times = [row["latency_base_ms"], row["latency_new_ms"]]
    lines += [f"{latency(times[0])} in BASE, {latency(times[1])} in NEW"] if any(times) else []
    lines += chart_lines(": ".join(filter(None, [row["verdict"], row["reason"]])))
    lines += chart_lines(f"regression: {row['regression']}") if row["is_regression"] else []
    if row["noise_percent"] is not None:
        lines.append(f"noise {row['noise_percent']:.1f} %, {count(int(row['num_replicates']), 'replicate')}")
    return "<br>".join(lines)


def change_words(row: Mapping[str, Any]) -> str:
    """`+3.2 % [+1.1, +5.3]`; empty where nothing was compared."""
    change = row["change_percent"]
    return "" if change is None else f"{change:+.1f} % {interval_words(row)}".rstrip()


def interval_words(row: Mapping[str, Any]) -> str:
    """`[+1.1, +5.3]`, per cent; empty where there is no interval, or one that is beyond measure."""
    low, high = row["change_low_percent"], row["change_high_percent"]
    return "" if low is None or high is None or high > WIDEST_TOLD else f"[{low:+.1f}, {high:+.1f}]"
