"""Page faults: memory that the kernel has to bring in while a call runs, and what that does to its time."""

from __future__ import annotations

import os
from collections.abc import Callable

from profiling.child_process import PINNED_HEAP, can_pin_heap

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None  # type: ignore[assignment] # a module or nothing: that is how a missing one is told

# What one costs at least, trap and clearing of 4 KiB together; on virtual machines several times as much.
FAULT_S = 0.5e-6
MUCH_FAULTING = 0.02


def page_faults() -> int | None:
    """Faults of this process so far that needed no disk; None where the system does not count them."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else None


def heap_is_pinned() -> bool:
    """Whether this process was started with the heap pinned."""
    return all(os.environ.get(name) == value for name, value in PINNED_HEAP.items())


def fault_warning(
    faults_per_call: float | None,
    call_s: float,
    is_pinned: Callable[[], bool] = heap_is_pinned,
    can_pin: Callable[[], bool] = can_pin_heap,
) -> str | None:
    """A sentence where the faults of a call take a share of its time worth knowing, else None."""
    if not faults_per_call or faults_per_call * FAULT_S < MUCH_FAULTING * call_s:
        return None
    share = min(faults_per_call * FAULT_S / call_s, 1.0)
    seen = f"{faults_per_call:,.0f} page faults a call, at least {share:.0%} of its time"
    if is_pinned():
        return f"{seen}, though the heap is pinned: look in the layer for memory that grows or is mapped at each call"
    cause = f"{seen}: fresh memory from the kernel at each call is part of these times"
    return f"{cause}, and --heap pinned removes it" if can_pin() else f"{cause}, as in any process on this system"
