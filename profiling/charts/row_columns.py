"""In which order the columns of a run's table are read."""

from __future__ import annotations

import pandas as pd

from profiling.columns import REPORT_COLUMNS

# What is looked for first; the others follow in the report's order.
FIRST = (
    *("contender", "batch_size", "seq_len", "num_heads", "d_model", "latency_median_ms"),
    *("speedup", "speedup_low", "speedup_high", "speed_verdict", "noise_floor", "check_verdict"),
    *("max_abs_error", "peak_memory_mib", "reference", "status", "error_ratio"),
)


def column_order(table: pd.DataFrame) -> list[str]:
    """The columns with something in them, those looked for first in front."""
    rest = [column.name for column in REPORT_COLUMNS if column.name not in FIRST]
    return [name for name in (*FIRST, *rest) if table[name].notna().any()]
