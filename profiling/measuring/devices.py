"""The device seam: time, peak memory, waiting and cache flushing, the same questions for every kind of device.

Nothing else in the project asks which device it is on. An accelerator runs behind the program that feeds it: its times
come from events on its own stream, and whatever reads a result or a clock waits for it first.
"""

from __future__ import annotations

import abc
import importlib
import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch

from profiling.environment import cpu_name

PREFERENCE = ("cuda", "xpu", "mps")
# Twice the largest last-level cache of today's accelerators.
FLUSH_BYTES = 256 * 2**20
PROBE_BYTES = 2**20


class UnavailableDevice(Exception):
    """The device is not there, or torch cannot use it; the message says which and what is there."""


class Device(abc.ABC):
    """One place where tensors live and calls run.

    Attributes:
        name: torch's name for it, such as `cpu` or `cuda:0`.
    """

    name: str

    @property
    def no_peak_reason(self) -> str | None:
        """Why it offers no true peak of memory, or None where `peak_bytes` works."""
        return None

    @property
    def torch_device(self) -> torch.device:
        """The device as torch's functions take it."""
        return torch.device(self.name)

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """The device's own name, for a person."""

    def select(self) -> None:  # noqa: B027 - nothing to do is a proper answer
        """Makes it the device that calls run on where they do not say."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Waits until everything launched so far is done."""

    @abc.abstractmethod
    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        """Seconds that `num_calls` calls in a row take on the device."""

    @abc.abstractmethod
    def peak_bytes(self, call: Callable[[], object]) -> int:
        """The most bytes that the call itself holds at once, beyond what was live before it."""

    def flush_cache(self) -> None:  # noqa: B027 - nothing to do is a proper answer
        """Empties the device's cache before a sample, where that is the custom on such a device."""


class Cpu(Device):
    """The processor. Calls are done when they return, so the host's clock is the right one."""

    name = "cpu"

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock

    @property
    def description(self) -> str:
        """The processor's model name."""
        return cpu_name()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        """Seconds by the host's clock."""
        repeats = range(num_calls)
        start = self._clock()
        for _ in repeats:
            call()
        return (self._clock() - start) / 1e9

    def peak_bytes(self, call: Callable[[], object]) -> int:
        """The peak of the running sum of the allocator's own events during one call.

        Not the process's resident size: that depends on what ran before, and sees a freed block as still taken.
        """
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            result = call()
        del result
        return peak_of_events(memory_events(profile))


class Accelerator(Device):
    """A device behind a queue: CUDA, XPU or MPS, all three by the same verbs of their torch modules.

    Args:
        name: torch's name for it.
        backend: `torch.cuda`, `torch.xpu` or `torch.mps`; a fake in tests.
        new_event: makes an event that records a time.
    """

    def __init__(self, name: str, backend: Any, new_event: Callable[[], Any]) -> None:
        self.name = name
        self._backend = backend
        self._new_event = new_event
        self._flush: torch.Tensor | None = None
        # torch.mps knows one device and takes none as an argument; elsewhere the default is the current one.
        self._which = () if name == "mps" else (name,)

    @cached_property
    def no_peak_reason(self) -> str | None:  # found out when first asked: it allocates
        """Why torch offers no true peak of memory on it, or None."""
        if not hasattr(self._backend, "max_memory_allocated"):
            return f"torch offers no true peak of memory on {self.name}: a reserved pool is none"
        if not self._peak_moves():
            return f"torch's peak of memory on {self.name} does not move with an allocation"
        return None

    @property
    def description(self) -> str:
        """The accelerator's model name."""
        if hasattr(self._backend, "get_device_name"):
            return str(self._backend.get_device_name(self.torch_device))
        return f"{cpu_name()} ({self.name})"

    def select(self) -> None:
        """Makes it the one that torch's events are recorded on."""
        if self._which:
            self._backend.set_device(self.torch_device)

    def synchronize(self) -> None:
        """Waits for the device's queue."""
        self._backend.synchronize(*self._which)

    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        """Seconds between two events on the device's stream."""
        start, end = self._new_event(), self._new_event()
        self.synchronize()
        start.record()
        for _ in range(num_calls):
            call()
        end.record()
        self.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def peak_bytes(self, call: Callable[[], object]) -> int:
        """The allocator's own peak after a reset, less what was live."""
        if self.no_peak_reason is not None:
            raise UnavailableDevice(self.no_peak_reason)
        return self._allocator_peak(call)

    def flush_cache(self) -> None:
        """Writes more than the cache holds."""
        if self._flush is None:
            self._flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=self.torch_device)
        self._flush.zero_()

    def _allocator_peak(self, call: Callable[[], object]) -> int:
        self.synchronize()
        self._backend.reset_peak_memory_stats(*self._which)
        before = int(self._backend.memory_allocated(*self._which))
        result = call()
        self.synchronize()
        peak = int(self._backend.max_memory_allocated(*self._which)) - before
        del result
        return peak

    def _peak_moves(self) -> bool:
        # The statistics are a silent zero on some builds: believed only after an allocation was seen in them.
        empty = self._allocator_peak(lambda: torch.empty(PROBE_BYTES, dtype=torch.int8, device=self.torch_device))
        return empty >= PROBE_BYTES


def memory_events(profile: Any) -> list[tuple[int, int]]:
    """The allocator's events in a finished profile: (nanoseconds, bytes; negative where freed), in order."""
    events = profile.profiler.kineto_results.events()
    return sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")


def peak_of_events(events: list[tuple[int, int]]) -> int:
    """The highest value of the running sum of allocations and frees."""
    peak = held = 0
    for _, size in events:
        held += size
        peak = max(peak, held)
    return peak


def available_devices() -> list[Device]:
    """The devices torch can use here, the best first: CUDA, XPU, MPS, then the CPU."""
    found: list[Device] = []
    for kind in PREFERENCE:
        backend = getattr(torch, kind, None)
        if backend is not None and backend.is_available():
            # torch.mps keeps its events in a module of their own, and knows one device without a number.
            events = importlib.import_module("torch.mps.event") if kind == "mps" else backend
            names = [kind] if kind == "mps" else [f"{kind}:{index}" for index in range(backend.device_count())]
            found += [Accelerator(name, backend, partial(events.Event, enable_timing=True)) for name in names]
    return [*found, Cpu()]


def find_device(name: str) -> Device:
    """The device with that name; `auto` is the best one, `cuda` the first of its kind.

    Raises:
        UnavailableDevice: there is none.
    """
    devices = available_devices()
    for device in devices:
        if name == "auto" or name in (device.name, device.name.partition(":")[0]):
            device.select()
            return device
    there = ", ".join(device.name for device in devices)
    raise UnavailableDevice(f"device must be auto or one that torch finds here ({there}), not {name!r}")
