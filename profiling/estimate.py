"""What a sweep will take, told before it starts: points, time, memory, and the time limit per workload.

Rough on purpose: nothing has been measured yet. The time of a sweep is mostly its budget; the cost of the calls
themselves is taken from the number of operations and a rate that ordinary machines reach.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import psutil

from profiling.ceilings import ceilings_seconds
from profiling.costs import ELEMENT_BYTES, MIB, call_flop
from profiling.layers import is_compiled
from profiling.settings import MAX_SECONDS, MIN_ROUNDS, SweepSettings
from profiling.workload import Grid, Workload

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
# A process with torch loaded, before it measures anything.
CHILD_BASE_MIB = 400.0
# A workload that takes this many times its estimate hangs.
TIME_LIMIT_FACTOR = 20.0
SHORTEST_TIME_LIMIT_S = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a sweep will take. `invalid` counts the points that no layer can have, with their reasons."""

    num_points: int
    num_invalid: int
    invalid_reasons: tuple[str, ...]
    num_rows: int
    seconds: float
    peak_memory_mib: float
    free_memory_mib: float
    time_limit_s: float


def estimate(grid: Grid, settings: SweepSettings, *, device: str = "cpu", threads: int = 1) -> Estimate:
    """The estimate for a grid measured in this way, on a device with that many threads."""
    workloads = list(grid.workloads(device=device, threads=threads))
    valid = [workload for workload in workloads if workload.invalid_reason is None]
    costs = [workload_seconds(workload, settings) for workload in valid]
    start = COMPILER_START_S if num_compiled(settings) else 0.0
    measuring_s = settings.replicates * (CHILD_START_S + start + sum(costs))
    limit = max(SHORTEST_TIME_LIMIT_S, min(MAX_SECONDS, TIME_LIMIT_FACTOR * (start + max(costs, default=0.0))))
    return Estimate(
        num_points=len(workloads),
        num_invalid=len(workloads) - len(valid),
        invalid_reasons=tuple(dict.fromkeys(w.invalid_reason for w in workloads if w.invalid_reason)),
        num_rows=len(workloads) * len(settings.contenders),
        seconds=measuring_s + (2 * ceilings_seconds(measuring_s) if valid else 0.0),
        peak_memory_mib=CHILD_BASE_MIB + max((workload_memory_mib(w, settings) for w in valid), default=0.0),
        free_memory_mib=free_memory_mib(),
        time_limit_s=float(round(limit)) if settings.time_limit_s is None else settings.time_limit_s,
    )


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


def workload_memory_mib(workload: Workload, settings: SweepSettings) -> float:
    """A guess at what one workload holds at once: the weights of every contender, and the dearest call's tensors."""
    size = ELEMENT_BYTES[workload.dtype]
    b, s, d, h = workload.batch_size, workload.seq_len, workload.d_model, workload.num_heads
    tokens, weights = b * s * d * size, 4 * d * d * size
    scores = b * h * s * s * size
    is_explicit = any(not name.endswith("-fused") for name in settings.contenders)
    copies = (3 if workload.mode == "training" else 2) if is_explicit else 0
    num_layers = len(settings.contenders) + len(settings.references)
    return (num_layers * (weights + tokens) + copies * scores + 8 * tokens) / MIB


def free_memory_mib() -> float:
    """Memory that a new process may take: what the system has left, or the container's limit where that is less."""
    free = psutil.virtual_memory().available
    for limit, used in _container_memory():
        free = min(free, max(0, limit - used))
    return free / MIB


def _container_memory() -> list[tuple[int, int]]:
    pairs = (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    )
    found = [_read_numbers(pair) for pair in pairs]
    return [(numbers[0], numbers[1]) for numbers in found if len(numbers) == 2]


def _read_numbers(paths: Sequence[str]) -> list[int]:
    try:
        return [int(Path(path).read_text(encoding="ascii")) for path in paths]
    except (OSError, ValueError):  # no such control group, or `max`: no limit
        return []
