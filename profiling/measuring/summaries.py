"""Raw samples of one contender → the latency columns of its row. No torch."""

from __future__ import annotations

import math
import statistics
from typing import Any

from profiling.costs import call_flop
from profiling.workload import Workload


def latency_cells(samples_s: list[float], workload: Workload) -> dict[str, Any]:
    """The latency columns of one contender's samples (seconds of one call)."""
    milliseconds = sorted(sample * 1e3 for sample in samples_s)
    median_s = statistics.median(samples_s)
    return {
        "latency_median_ms": median_s * 1e3,
        "latency_p25_ms": quantile(milliseconds, 0.25),
        "latency_p75_ms": quantile(milliseconds, 0.75),
        "latency_p5_ms": quantile(milliseconds, 0.05),
        "latency_p95_ms": quantile(milliseconds, 0.95),
        "num_samples": len(samples_s),
        "throughput_tokens_per_s": workload.batch_size * workload.seq_len / median_s,
        "achieved_gflop_per_s": call_flop(workload) / median_s / 1e9,
    }


def quantile(ordered: list[float], share: float) -> float:
    """The value below which `share` of the ordered values lie, with linear interpolation."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
