"""Peak memory by the allocator's own events: exact on the CPU, whatever ran before, and checked by what is left over.

The profiler tells of each block that torch's CPU allocator hands out or takes back in this thread, a fused kernel's own
buffers among them. It does not tell of a block that is freed but was handed out before the profile began, nor of one
that another thread takes. So the events are believed only where they add up to what is really still alive.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import torch

from profiling.measuring.garbage import no_garbage_collection
from profiling.measuring.profile import events_of, new_profile

# A prime number of bytes that stands before and after the call among the events, so that it is plain which are its.
MARK_BYTES = 1_000_003


class IncompleteEvents(Exception):
    """The events do not add up to what is still alive, so no peak can be told from them."""


def peak_by_events(call: Callable[[], object]) -> int:
    """The most bytes that one call holds at once, beyond what was live before it, its result included.

    The result is released before the events are added up. Where they do not add up, the call may have put its own
    block in the place of one from before the profile (a layer that keeps its last weights does): then it is run once
    within the profile, unmeasured, and measured after that.

    Raises:
        IncompleteEvents: the sum of the events is not what is still alive, both times.
    """
    try:
        return _checked_peak(*_events_of(call, runs_before=0))
    except IncompleteEvents:
        return _checked_peak(*_events_of(call, runs_before=1))


def peak_of_events(sizes: Sequence[int]) -> int:
    """The highest value of the running sum of allocations (positive) and frees (negative)."""
    peak = held = 0
    for size in sizes:
        held += size
        peak = max(peak, held)
    return peak


def between_marks(sizes: Sequence[int]) -> Sequence[int]:
    """What lies between the two marks.

    Raises:
        IncompleteEvents: there are not exactly two: nothing was recorded, or a block of that very size was.
    """
    marks = [i for i in range(len(sizes) - 1) if (sizes[i], sizes[i + 1]) == (MARK_BYTES, -MARK_BYTES)]
    if len(marks) != 2:
        raise IncompleteEvents(f"the profile shows {len(marks)} of the 2 blocks that enclose the call")
    first, last = marks
    return sizes[first + 2 : last]


def memory_events(profile: torch.autograd.profiler.profile) -> list[int]:
    """The allocator's events in a finished profile, in order: bytes, negative where freed."""
    events = [event for event in events_of(profile) if event.name() == "[memory]"]
    # By time alone: among events of one nanosecond the order in which they were recorded stands.
    return [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]


def live_bytes() -> int:
    """The bytes of all storages in main memory that some tensor in Python still holds; a shared one counts once."""
    classes = _with_subclasses(torch.Tensor)
    # By the class alone: to ask a stranger's proxy what it is would run its code.
    tensors = [thing for thing in gc.get_objects() if type(thing) in classes]
    return sum(dict(storage for tensor in tensors if (storage := _cpu_storage(tensor))).values())


def _events_of(call: Callable[[], object], runs_before: int) -> tuple[Sequence[int], int]:
    """The sizes of one call's events, and by how much what is alive grew meanwhile."""
    gc.collect()  # what earlier calls left in cycles must not be freed in the middle of this one
    with (
        no_garbage_collection(),
        new_profile(memory=True) as profile,
    ):
        for _ in range(runs_before):
            call()
        # What is made from here on is alone in the youngest generation: to collect that one is enough, and quick.
        gc.collect(0)
        before = live_bytes()
        _mark()
        result = call()
        del result
        gc.collect(0)  # what the call left in a cycle is not alive
        _mark()
        grown = live_bytes() - before
    return between_marks(memory_events(profile)), grown


def _checked_peak(sizes: Sequence[int], grown: int) -> int:
    if sum(sizes) != grown:
        raise IncompleteEvents(
            f"the allocator's events of a call add up to {sum(sizes):+d} bytes, but what is alive grew by {grown:+d}: "
            "it takes or frees memory where the profile does not see it"
        )
    return peak_of_events(sizes)


def _mark() -> None:
    torch.empty(MARK_BYTES, dtype=torch.uint8, device="cpu")


def _with_subclasses(cls: type) -> set[type]:
    below: list[type] = cls.__subclasses__()
    return {cls}.union(*(_with_subclasses(each) for each in below))


def _cpu_storage(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Where its storage lies, and how many bytes it has."""
    try:
        storage = tensor.untyped_storage()
        return (storage.data_ptr(), storage.nbytes()) if storage.device.type == "cpu" else None
    except (NotImplementedError, RuntimeError):  # sparse, or one that only stands for another
        return None
