"""Records calls under torch's profiler, and notices where a layer runs a profiler of its own.

Torch has one profiler at a time. A layer that starts one within ours takes its place: torch says nothing of it, and
what ours then tells is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._C._autograd import _disable_profiler, _profiler_enabled
from torch.autograd.profiler import profile, record_function

from profiling.measuring.devices import Device
from profiling.measuring.failures import Unavailable
from profiling.measuring.garbage import no_garbage_collection
from profiling.measuring.profile import events_of
from profiling.operators.recorded import CALL, WAITING

PROFILES_ITSELF = (
    "it runs torch's profiler within its own call, and torch has one profiler at a time: its operators cannot be told. "
    "Take the profiler out of the layer, and profile it again"
)
NEVER_STOPS = (
    "it starts torch's profiler within its own call and does not stop it, and torch has one profiler at a time: its "
    "operators cannot be told. Take the profiler out of the layer, and profile it again"
)
# What torch raises where one of its older profilers begins within another one.
_ENABLED_ALREADY = "rofiler is already enabled"


def record_calls(calls: Mapping[str, Callable[[], object]], num_calls: int, device: Device) -> profile:
    """A profile of so many calls of each, one after the other, each call in a range of its own.

    Args:
        calls: the name of the range around each one's calls → the call.
        num_calls: of each.
        device: where they run.

    Raises:
        Unavailable: one of them runs a profiler of its own.
    """
    stop_profilers()
    seen = profile(use_device=_profiled_device(device), record_shapes=True)
    try:
        with no_garbage_collection(), seen:
            for name, call in calls.items():
                with record_function(name):
                    for _ in range(num_calls):
                        with record_function(CALL):
                            call()
                            if device.torch_device.type != "cpu":
                                with record_function(WAITING):
                                    device.synchronize()
    except RuntimeError as error:
        if _ENABLED_ALREADY in str(error):
            raise Unavailable(PROFILES_ITSELF) from error
        raise
    if sum(event.name() == CALL for event in events_of(seen)) < num_calls * len(calls):
        raise Unavailable(PROFILES_ITSELF)
    return seen


def require_no_profiler_left() -> None:
    """Stops a profiler that a call has left running, and raises Unavailable where there was one."""
    if stop_profilers():
        raise Unavailable(NEVER_STOPS)


def stop_profilers() -> bool:
    """Stops torch's profiler where one runs; whether one did."""
    was_running = _profiler_enabled()
    if was_running:
        _disable_profiler()
    return was_running


def _profiled_device(device: Device) -> str | None:
    """The accelerator whose kernels the profiler can time, None where there is none."""
    kind = device.torch_device.type
    supported: Callable[[], set[Any]] = torch.profiler.supported_activities
    is_seen = kind != "cpu" and getattr(torch.profiler.ProfilerActivity, kind.upper(), None) in supported()
    return kind if is_seen else None
