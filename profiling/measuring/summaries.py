"""Raw samples → the latency columns of the rows: of each contender for itself, and of those that are compared."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from profiling.costs import call_flop
from profiling.measuring.disturbance.sample_signs import warnings_of_samples
from profiling.measuring.latency import Rounds
from profiling.ratios import paired_speedup, stray
from profiling.settings import CLONE
from profiling.workload import Workload


def cells_of_rounds(
    rounds: Rounds, references: Mapping[str, str | None], workload: Workload, clock_step_s: float
) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Contender → its latency cells, and what its samples show of a disturbance.

    Args:
        rounds: the samples, those of clones among them.
        references: contender → what it is compared with; None for a reference.
        workload: what was timed.
        clock_step_s: the smallest difference that the device's clock tells.
    """
    times = rounds.samples
    clones = {
        reference: paired_speedup(times[reference], times[CLONE + reference])
        for reference in times
        if CLONE + reference in times
    }
    found = {}
    for name in (name for name in times if not name.startswith(CLONE)):
        cells = latency_cells(times[name], workload)
        cells |= {"calls_per_sample": rounds.calls_per_sample[name], "stop_reason": rounds.stop_reason}
        cells["page_faults_per_call"] = rounds.faults_per_call[name]
        reference = references[name]
        clone = clones.get(reference or name)
        floor = None if clone is None else stray(clone)
        if reference is not None and reference in times:
            cells["speedup"] = paired_speedup(times[reference], times[name])
            cells |= {"clone_speedup": clone, "noise_floor": floor}
        found[name] = cells, warnings_of_samples(rounds, name, reference or name, floor, clock_step_s)
    return found


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
