"""A chart in one sentence, for those who hear the page instead of seeing it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from profiling.charts.formatting import count, error, ratio
from profiling.charts.metrics import Metric, counts_in_mean
from profiling.charts.summary import Headline


def of_lines(headlines: Sequence[Headline], metric: Metric, name: str) -> str:
    """What a line chart of that metric shows."""
    figures = {"Latency": _speed, "Memory": _memory, "Max error": _error}[name]
    return f"{metric.title.partition(',')[0].capitalize()} of each contender. {figures(headlines)}"


def of_map(headlines: Sequence[Headline]) -> str:
    """What the speed-up map shows."""
    return f"Speed-up of each point as colour. {_speed(headlines)}"


def has_failing(table: pd.DataFrame) -> bool:
    """Whether some row has a speed-up that does not count."""
    return bool((table["speedup"].notna() & ~counts_in_mean(table)).any())


def _speed(headlines: Sequence[Headline]) -> str:
    return " ".join(
        f"{h.contender} is {ratio(h.speedup)} as fast as {h.reference}, mean over {count(h.num_speedups, 'shape')}."
        for h in headlines
        if h.speedup is not None
    )


def _memory(headlines: Sequence[Headline]) -> str:
    return " ".join(
        f"{h.contender} needs {ratio(h.memory_ratio)} the peak memory of {h.reference}."
        for h in headlines
        if h.memory_ratio is not None
    )


def _error(headlines: Sequence[Headline]) -> str:
    return " ".join(
        f"{h.contender} is off by at most {error(h.max_abs_error)} from {h.reference}."
        for h in headlines
        if h.max_abs_error is not None
    )
