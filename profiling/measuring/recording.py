"""What torch's profiler recorded, as the plain events that `profiling.operators` reads."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch._C._autograd import DeviceType

from profiling.measuring.profile import events_of
from profiling.operators.recorded import Event, Shape
from profiling.wording import cut_middle

# Of what is recorded on the host these are operators and ranges; calls of an accelerator's driver are neither.
_HOST_ACTIVITIES = ("cpu_op", "user_annotation")
_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_CPU = DeviceType.CPU
# A layer may call a range of its own anything; torch's names, and those of compiled kernels, are shorter.
_NAME_WIDTH = 400


def recorded_events(profile: torch.autograd.profiler.profile) -> list[Event]:
    """The operators and ranges of a finished profile, each with the time of the kernels that it launched itself."""
    raw = events_of(profile)
    host = [event for event in raw if event.device_type() == _CPU and _activity(event) in _HOST_ACTIVITIES]
    device = [event for event in raw if _is_device_work(event)]
    launched: Counter[int] = Counter()
    for kernel in device:
        launched[kernel.linked_correlation_id()] += kernel.duration_ns()
    return [_event(event, launched.get(event.correlation_id(), 0) if device else None) for event in host]


def device_total_ns(profile: torch.autograd.profiler.profile) -> int | None:
    """The time of all kernels, whoever launched them; None where none was seen."""
    times = [event.duration_ns() for event in events_of(profile) if _is_device_work(event)]
    return sum(times) if times else None


def _event(event: Any, device_ns: int | None) -> Event:
    return Event(
        name=cut_middle(event.name(), _NAME_WIDTH),
        start_ns=event.start_ns(),
        end_ns=event.start_ns() + event.duration_ns(),
        shapes=tuple(_shape(sizes) for sizes in event.shapes()),
        thread=event.start_thread_id(),
        sequence=event.sequence_nr(),
        # Torch notes the thread of the forward pass with what runs in a backward node's name.
        is_node=event.fwd_thread_id() > 0 or event.name().startswith("autograd::engine"),
        device_ns=device_ns,
    )


def _is_device_work(event: Any) -> bool:
    return bool(event.device_type() != _CPU) and _activity(event) in _DEVICE_WORK


def _shape(sizes: Any) -> Shape:
    """The shape of an argument that is one tensor; of a list of tensors, empty as for no tensor."""
    return tuple(sizes) if all(isinstance(size, int) for size in sizes) else ()


def _activity(event: Any) -> str:
    # An older torch does not tell: there, all that is on the host counts but the driver's calls, by their names.
    if hasattr(event, "activity_type"):
        return str(event.activity_type())
    if event.device_type() != _CPU:
        return "kernel"
    return "driver" if event.name().startswith(("cuda", "xpu", "hip")) else "cpu_op"
