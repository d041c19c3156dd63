"""What goes on where a run's laws end: the point, the sizes and the words of the searches that measure afresh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from profiling.laws.crossover_question import workload_words
from profiling.laws.telling import telling_rows
from profiling.workload import MAX_SIZE, Workload


def point_along(table: pd.DataFrame, axis: str) -> Workload | None:
    """What is the same in the rows along an axis that tell the most; None where there are none.

    Args:
        table: a run's, as `profiling.table.load_run` gives it.
        axis: a size; the point's own along it means nothing.
    """
    rows = telling_rows(table, axis)
    if rows.empty:
        return None
    values: dict[str, Any] = {name: rows.iloc[0][name] for name in Workload.__dataclass_fields__}
    return Workload(**{name: value.item() if hasattr(value, "item") else value for name, value in values.items()})


def span_along(table: pd.DataFrame, axis: str) -> tuple[int, int]:
    """From half of the smallest size to twice the largest: within what was measured the signs are known."""
    sizes = [int(size) for size in telling_rows(table, axis)[axis]]
    return max(1, min(sizes) // 2), min(MAX_SIZE, 2 * max(sizes))


def fits_arguments(contender: str, point: Workload) -> Sequence[str]:
    """The words after `python -m profiling` that search the longest sequence of a contender that fits."""
    return "fits", contender, *workload_words(point, "seq_len")
