"""What can be drawn of a row: where its number comes from, its unit, and which way is better."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pandas as pd

from profiling.charts import formatting

# What a check says of a layer whose weights cannot correspond to the official one's.
NOT_COMPARABLE = "not-comparable"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric:
    """One quantity on a y axis.

    Attributes:
        column: the column it is read from.
        title: what stands on the axis, without the unit; it says which way is better.
        text: a value of the column as a person reads it.
        unit: from a typical value, the unit's name and what to multiply the column with.
        low, high: columns of the interval around it, where there is one: a band, or bars where it compares.
        zero: what a 0 means, where it is a result rather than nothing.
        line: a value to mark across the panel, and its name.
        compares: whether it is a comparison of speed, which a contender that fails the check does not deserve.
    """

    column: str
    title: str
    text: Callable[[float | None], str]
    unit: Callable[[float | None], tuple[str, float]] = lambda _: ("", 1.0)
    low: str | None = None
    high: str | None = None
    zero: str = ""
    line: tuple[float, str] | None = None
    compares: bool = False


LATENCY = Metric(
    column="latency_median_ms",
    title="median latency, lower is better",
    text=formatting.latency,
    unit=formatting.time_unit,
    low="latency_p25_ms",
    high="latency_p75_ms",
)
SPEEDUP = Metric(
    column="speedup",
    title="speed-up over its reference, higher is better",
    text=formatting.ratio,
    unit=lambda _: ("×", 1.0),
    low="speedup_low",
    high="speedup_high",
    line=(1.0, "as fast as its reference"),
    compares=True,
)
MEMORY = Metric(
    column="peak_memory_mib",
    title="peak memory, lower is better",
    text=formatting.memory,
    unit=formatting.memory_unit,
)
MEMORY_RATIO = Metric(
    column="memory_ratio",
    title="peak memory / its reference's, lower is better",
    text=formatting.ratio,
    unit=lambda _: ("×", 1.0),
    line=(1.0, "as much as its reference"),
)
ERROR = Metric(
    column="max_abs_error",
    title="max error against its reference, lower is better",
    text=formatting.error,
    zero="0 (bit-identical)",
    line=(1e-5, "1e-5: the plain bound"),
)
ERROR_ORACLE = Metric(
    column="max_abs_error_oracle",
    title="max error against float64, lower is better",
    text=formatting.error,
    zero="0 (exact)",
)
ERROR_RATIO = Metric(
    column="error_ratio",
    title="error ratio, lower is better",
    text=formatting.ratio,
    zero="0 (exact)",
    unit=lambda _: ("×", 1.0),
    line=(2.0, "passes up to 2"),
)

# Under each tab, the choices and what they draw.
LATENCY_VIEWS = {"time": LATENCY, "speed-up": SPEEDUP}
MEMORY_VIEWS = {"size": MEMORY, "ratio to reference": MEMORY_RATIO}
ERROR_VIEWS = {"against reference": ERROR, "against float64": ERROR_ORACLE, "error ratio": ERROR_RATIO}


def with_memory_ratio(table: pd.DataFrame) -> pd.DataFrame:
    """The table and a column `memory_ratio`: peak memory / the reference's at the same point; empty where either is."""
    peaks = table.set_index(["point", "contender"])["peak_memory_mib"]
    wanted = pd.MultiIndex.from_frame(table[["point", "reference"]])
    of_reference = peaks.reindex(wanted).set_axis(table.index)
    return table.assign(memory_ratio=table["peak_memory_mib"] / of_reference.where(of_reference > 0))


def counts_in_mean(table: pd.DataFrame) -> pd.Series:
    """Which rows' speed-ups count: those whose check passes, and those of another design, which has its own weights."""
    return table["check_verdict"].isin(["pass", NOT_COMPARABLE]).fillna(False).astype(bool)
