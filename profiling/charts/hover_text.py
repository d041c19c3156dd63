"""What a mark of a line chart tells when it is pointed at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from profiling.charts.claim_text import verdict_lines
from profiling.charts.formatting import chart_text, count
from profiling.charts.metrics import NOT_COMPARABLE, Metric

# The columns it reads, beside that of the metric.
COLUMNS = {
    *("contender", "reference", "check_verdict", "batch_size", "seq_len", "num_heads", "d_model", "num_samples"),
    *("latency_p25_ms", "latency_p75_ms", "speedup_low", "speedup_high", "speed_verdict", "speed_verdict_reason"),
    *("noise_floor", "num_replicates", "kernel", "fast_path_reason"),
}
_AGAINST_REFERENCE = ("speedup", "memory_ratio", "max_abs_error")


def hover(row: Mapping[Any, Any], metric: Metric, *, is_greyed: bool) -> str:
    """A row's value and what it rests on, a line each.

    Args:
        row: of the run's table.
        metric: what is drawn of it.
        is_greyed: whether it does not count, since its check does not pass.
    """
    value = float(row[metric.column])
    lines = [
        f"<b>{chart_text(row['contender'])}</b>: {metric.zero if value == 0 and metric.zero else metric.text(value)}"
    ]
    if metric.low and metric.high and not metric.compares and pd.notna(row[metric.low]):
        lines.append(f"quartiles {metric.text(row[metric.low])} to {metric.text(row[metric.high])}")
    if pd.notna(row["reference"]) and metric.column in _AGAINST_REFERENCE:
        lines.append(f"reference: {chart_text(row['reference'])}")
    if is_greyed:
        lines.append(f"does not count: its check says {chart_text(row['check_verdict'])}")
    elif metric.compares and row["check_verdict"] == NOT_COMPARABLE:
        lines.append("not comparable: timed with its own weights")
    lines += verdict_lines(row) if metric.compares else []
    lines.append(
        f"batch {row['batch_size']}, seq_len {row['seq_len']}, heads {row['num_heads']}, d_model {row['d_model']}"
    )
    if pd.notna(row["num_samples"]):
        lines.append(f"n = {count(int(row['num_samples']), 'sample')}")
    if pd.notna(row["kernel"]):
        lines.append(f"kernel: {chart_text(row['kernel'])}")
    return "<br>".join(lines)
