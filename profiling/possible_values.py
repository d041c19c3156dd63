"""Which numbers of a row can have been measured at all: any other stands there because someone has edited the file."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from profiling.columns import MEASURED_COLUMNS, Column

# Times and ratios of times.
_POSITIVE = (
    *("latency_median_ms", "latency_p25_ms", "latency_p75_ms", "latency_p5_ms", "latency_p95_ms"),
    *("speedup", "clone_speedup", "throughput_tokens_per_s"),
)
# No time, size or rate reaches it, in whatever unit; sums and products of what stays below are finite.
_MOST = 1e30
# An output that is not finite is infinitely far from one that is.
_MAY_BE_INFINITE = ("max_abs_error", "max_abs_error_oracle", "error_ratio")


def without_impossible(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The rows with NA in place of numbers that nobody can have measured, and how many those are."""
    found, mended = 0, {}
    for column in MEASURED_COLUMNS:
        if column.kind not in ("int", "float"):
            continue
        values = table[column.name]
        is_wrong = values <= 0 if column.name in _POSITIVE else values < 0
        if column.name not in _MAY_BE_INFINITE:
            is_wrong |= values > _MOST
        is_wrong = is_wrong.fillna(False).astype(bool)
        if is_wrong.any():
            found += int(is_wrong.sum())
            mended[column.name] = values.mask(is_wrong)
    return (table.assign(**mended) if mended else table), found


def num_nonsense(texts: Sequence[Sequence[str]], table: pd.DataFrame, columns: tuple[Column, ...]) -> int:
    """How many cells of a file hold something that is not of their column's kind, and so are NA in its table.

    Args:
        texts: the cells as the file has them, column by column.
        table: what was made of them.
        columns: of both, in order.
    """
    pairs = [(cells, table[column.name]) for cells, column in zip(texts, columns, strict=True) if column.kind != "text"]
    return sum(int(values.isna().sum()) - cells.count("") for cells, values in pairs)
