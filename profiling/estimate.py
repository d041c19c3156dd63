"""What a sweep will take, told before it starts: points, time, memory, and the time limit per workload.

Rough on purpose: nothing has been measured yet. The time of a sweep is mostly its budget; the cost of the calls
themselves is taken from the number of operations and a rate that ordinary machines reach.
"""

from __future__ import annotations

import dataclasses
import functools

from profiling.ceilings import ceilings_seconds
from profiling.costs import call_flop
from profiling.layers import is_compiled
from profiling.memory_estimate import CHILD_BASE_MIB, free_memory_mib, workload_memory_mib
from profiling.settings import MAX_SECONDS, MIN_ROUNDS, SweepSettings
from profiling.units import format_duration, format_mib
from profiling.workload import Grid, GridError, Workload

# GFLOP/s: one CPU thread with float32, and an accelerator; slower element types as a fraction of it.
CPU_THREAD_RATE = 60.0
ACCELERATOR_RATE = 5_000.0
DTYPE_RATE = {"float32": 1.0, "bfloat16": 0.5, "float16": 0.2, "float64": 0.4}
CALL_OVERHEAD_S = 100e-6
# Calls outside the timed rounds: check, warm-up, memory pass; the float64 oracle costs about as much again.
UNTIMED_CALLS = 12
# Loading torch, and what the first workload of a process pays for.
CHILD_START_S = 3.0
WORKLOAD_OVERHEAD_S = 0.1
# Its kernel seen and its memory counted, each under a profiler, however short its calls.
CONTENDER_OVERHEAD_S = 0.03
# Seconds per second of timed rounds: warm-up takes a tenth of the budget, untimed calls before the short ones and the
# looks at the intervals the rest.
TIMED_SHARE = 1.15
# One contender compiled at one point, and the compiler made ready once in each process.
COMPILE_S = 8.0
COMPILER_START_S = 15.0
# A workload that takes this many times its estimate hangs.
TIME_LIMIT_FACTOR = 20.0
SHORTEST_TIME_LIMIT_S = 60.0
# A sweep that takes longer is taken for a slip of the keyboard, unless it is asked for.
LONGEST_SWEEP_S = 7 * 86_400.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a sweep will take.

    `num_invalid` counts the points that no layer can have, `num_too_large` those that need more memory than is free;
    `largest` is the valid point that needs most. `free_memory_mib` is None where the device has memory of its own.
    """

    num_points: int
    num_invalid: int
    invalid_reasons: tuple[str, ...]
    num_rows: int
    seconds: float
    peak_memory_mib: float
    free_memory_mib: float | None
    time_limit_s: float
    num_too_large: int = 0
    largest: Workload | None = None


@dataclasses.dataclass(frozen=True)
class _Costs:
    """The points of a grid: how many, why some cannot be; of the others the seconds in all and at most, the MiB."""

    num_points: int
    num_invalid: int
    invalid_reasons: tuple[str, ...]
    total_s: float
    longest_s: float
    needs_mib: tuple[float, ...]
    largest: Workload | None


def estimate(grid: Grid, settings: SweepSettings, *, device: str = "cpu", threads: int = 1) -> Estimate:
    """The estimate for a grid measured in this way, on a device with that many threads."""
    costs = _costs(grid, settings, device, threads)
    start = COMPILER_START_S if num_compiled(settings) else 0.0
    measuring_s = settings.replicates * (CHILD_START_S + start + costs.total_s)
    free = free_memory_mib(device)
    limit = max(SHORTEST_TIME_LIMIT_S, min(MAX_SECONDS, TIME_LIMIT_FACTOR * (start + costs.longest_s)))
    return Estimate(
        num_points=costs.num_points,
        num_invalid=costs.num_invalid,
        invalid_reasons=costs.invalid_reasons,
        num_rows=costs.num_points * len(settings.contenders),
        seconds=measuring_s + (2 * ceilings_seconds(measuring_s) if costs.needs_mib else 0.0),
        peak_memory_mib=max(costs.needs_mib, default=CHILD_BASE_MIB),
        free_memory_mib=free,
        time_limit_s=float(round(limit)) if settings.time_limit_s is None else settings.time_limit_s,
        num_too_large=0 if free is None else sum(need > free for need in costs.needs_mib),
        largest=costs.largest,
    )


@functools.lru_cache(maxsize=8)
def _costs(grid: Grid, settings: SweepSettings, device: str, threads: int) -> _Costs:
    # Kept, since the page asks again at each click: a second's work for the largest grids.
    workloads = list(grid.workloads(device=device, threads=threads))
    valid = [workload for workload in workloads if workload.invalid_reason is None]
    seconds = [workload_seconds(workload, settings) for workload in valid]
    needs = tuple(CHILD_BASE_MIB + workload_memory_mib(workload, settings) for workload in valid)
    return _Costs(
        num_points=len(workloads),
        num_invalid=len(workloads) - len(valid),
        invalid_reasons=tuple(dict.fromkeys(w.invalid_reason for w in workloads if w.invalid_reason)),
        total_s=sum(seconds),
        longest_s=max(seconds, default=0.0),
        needs_mib=needs,
        largest=valid[needs.index(max(needs))] if needs else None,
    )


def excess(expected: Estimate) -> str | None:
    """Why nobody would want to start this sweep, in words; None where nothing speaks against it.

    Memory that a machine does not have makes it stand still, or has the kernel end other programs, before the point
    that wanted it fails.
    """
    said = []
    if expected.num_too_large and expected.largest is not None:
        assert expected.free_memory_mib is not None, "only then a point is too large"
        need, free = format_mib(expected.peak_memory_mib), format_mib(expected.free_memory_mib)
        where = f"{expected.largest.label} needs about {need} of memory, of which {free} are free"
        others = f"{expected.num_too_large:,} of {expected.num_points:,} points do not fit, the largest of them: "
        said.append(others + where if expected.num_points > 1 else where)
    if expected.seconds > LONGEST_SWEEP_S:
        told, longest = format_duration(expected.seconds), format_duration(LONGEST_SWEEP_S)
        said.append(f"it would take about {told}, and more than {longest} is taken for a slip of the keyboard")
    return "; ".join(said) or None


def refuse_excess(expected: Estimate, settings: SweepSettings) -> None:
    """Raises GridError where the estimate speaks against the sweep and `settings.anyway` is not set."""
    reason = None if settings.anyway else excess(expected)
    if reason:
        raise GridError(f"{reason}: shorten a list, or give --anyway (in Python anyway=True) to measure all of it")


def call_seconds(workload: Workload) -> float:
    """A guess at the time of one call."""
    rate = CPU_THREAD_RATE * workload.threads * DTYPE_RATE[workload.dtype]
    if workload.device not in ("cpu", "auto"):
        rate = ACCELERATOR_RATE
    return CALL_OVERHEAD_S + call_flop(workload) / (rate * 1e9)


def workload_seconds(workload: Workload, settings: SweepSettings) -> float:
    """A guess at the time of one workload in one replicate, all contenders and clones of references together."""
    call = call_seconds(workload)
    timed = max(settings.time_budget_s, MIN_ROUNDS * call)
    num_timed = len(settings.contenders) + len(settings.references)
    untimed = len(settings.contenders) * UNTIMED_CALLS * call + num_compiled(settings) * COMPILE_S
    overhead = WORKLOAD_OVERHEAD_S + len(settings.contenders) * CONTENDER_OVERHEAD_S
    return overhead + TIMED_SHARE * num_timed * timed + untimed


def num_compiled(settings: SweepSettings) -> int:
    """How many of the contenders are run through torch.compile."""
    return sum(is_compiled(name) for name in settings.contenders)
