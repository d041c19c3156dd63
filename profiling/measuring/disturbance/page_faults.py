"""Page faults: memory that the kernel has to bring in while a call runs, and what that does to its time."""

from __future__ import annotations

import functools
import mmap
import os
import time
from collections.abc import Callable

from profiling.child_process import can_pin_heap
from profiling.measuring.torch_environment import allocator, is_heap_pinned
from profiling.wording import rounded_percent

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None  # type: ignore[assignment] # a module or nothing: that is how a missing one is told

# Of the time of a call.
MUCH_FAULTING = 0.02
# To see what a fault costs, so many bytes are touched for the first time, so often; the quickest try counts.
PROBE_BYTES = 4 * 2**20
PROBE_TRIES = 5


def page_faults() -> int | None:
    """Faults of this process so far that needed no disk; None where the system does not count them."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else None


@functools.cache
def fault_seconds() -> float:
    """What one costs here, trap and clearing together; more on a virtual machine than on bare metal."""
    return min(_probe() for _ in range(PROBE_TRIES))


def _probe() -> float:
    touched = b"x" * (PROBE_BYTES // mmap.PAGESIZE)
    with mmap.mmap(-1, PROBE_BYTES) as memory:
        before, moments = page_faults(), [time.perf_counter()]
        for _ in ("the first time, with faults", "and without"):
            memory[:: mmap.PAGESIZE] = touched
            moments.append(time.perf_counter())
        faults = (page_faults() or 0) - (before or 0)
    first_s, again_s = moments[1] - moments[0], moments[2] - moments[1]
    return max(first_s - again_s, 0.0) / max(faults, 1)


def heap_is_pinned() -> bool:
    """Whether freed memory really stays in this process."""
    return is_heap_pinned(os.environ, allocator())


def fault_warning(
    faults_per_call: float | None,
    call_s: float,
    *,
    cost_s: Callable[[], float] = fault_seconds,
    is_pinned: Callable[[], bool] = heap_is_pinned,
    can_pin: Callable[[], bool] = can_pin_heap,
) -> str | None:
    """A sentence where the faults of a call take a share of its time worth knowing, else None."""
    if not faults_per_call or faults_per_call * cost_s() < MUCH_FAULTING * call_s:
        return None
    share = min(faults_per_call * cost_s() / call_s, 1.0)
    seen = f"{faults_per_call:,.0f} page faults a call, about {rounded_percent(share, 0)} of its time"
    if is_pinned():
        return f"{seen}, though the heap is pinned: look in the layer for memory that grows or is mapped at each call"
    cause = f"{seen}: fresh memory from the kernel at each call is part of these times"
    return f"{cause}, and --heap pinned removes it" if can_pin() else f"{cause}, as in any process on this system"
