"""Accelerators as devices: CUDA, XPU and MPS, each behind a queue that the host fills and the device works off.

Times come from events on the device's own stream, and whatever reads a result or a statistic waits for it first.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch

from profiling.environment import cpu_name
from profiling.measuring.devices.nvidia_smi import NvidiaSmi, Runner, run_tool
from profiling.measuring.devices.seam import Device, UnavailableDevice
from profiling.measuring.garbage import no_garbage_collection

# Twice the largest last-level cache of today's accelerators.
FLUSH_BYTES = 256 * 2**20
PROBE_BYTES = 2**20
# How long launching a sample may take for the device to be kept busy meanwhile, and with how many flushes at most.
MAX_AHEAD_S = 0.02
MAX_FLUSHES = 1024


class Accelerator(Device):
    """A device behind a queue, by the verbs that torch's modules for such devices share.

    `time_calls` tells the time of the device's own work. Small calls take longer to launch than to run; so the device
    is kept busy with writing to memory until all launches are queued, as long as that takes up to `MAX_AHEAD_S` and
    fits the driver's queue (about a thousand launches). Where it does not, or a call waits for the device itself, or
    the host has other work in it (the first call of a compiled layer), the gaps between launches are in the time, as
    they are for a person's loop, and `is_ahead` is False.

    Attributes:
        kind: the name of torch's module.
        is_ahead: whether the host was ahead of the device throughout the last sample: then no gap is in its time. None
            before the first one.

    Args:
        name: torch's name for it.
        backend: torch's module; a fake in tests.
        new_event: makes an event that records a time.
        host_clock: seconds; by it only the launching is timed, to know how long the device has to be kept busy.
    """

    kind: str

    def __init__(
        self,
        name: str,
        backend: Any,
        new_event: Callable[[], Any],
        host_clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.name = name
        self._host_clock = host_clock
        self.is_ahead: bool | None = None
        self._backend = backend
        self._new_event = new_event
        self._flush: torch.Tensor | None = None
        self._num_flushes = 1

    @classmethod
    def found(cls) -> list[Accelerator]:
        """Those of this kind that torch can use here; finding them allocates nothing on them."""
        backend = getattr(torch, cls.kind, None)
        if backend is None or not backend.is_available():
            return []
        new_event = partial(cls.event_module(backend).Event, enable_timing=True)
        return [cls(name, backend, new_event) for name in cls.names(backend)]

    @classmethod
    def event_module(cls, backend: Any) -> Any:
        """The module whose `Event` records a time."""
        return backend

    @classmethod
    def names(cls, backend: Any) -> list[str]:
        """torch's names for those that are there."""
        return [f"{cls.kind}:{index}" for index in range(backend.device_count())]

    @property
    def description(self) -> str:
        """The accelerator's model name."""
        return str(self._backend.get_device_name(self.torch_device))

    @property
    def clock_step_s(self) -> float:
        """Half a microsecond to one, by the makers' documents: what is smaller is not told apart."""
        return 1e-6

    @cached_property
    def no_peak_reason(self) -> str | None:  # found out when first asked: it allocates
        """Why torch offers no true peak of memory on it, or None."""
        if not hasattr(self._backend, "max_memory_allocated"):
            return f"torch offers no true peak of memory on {self.name}: a reserved pool is none"
        if not self._peak_moves():
            return f"torch's peak of memory on {self.name} does not move with an allocation"
        return None

    def select(self) -> None:
        """Makes it the one that torch's events are recorded on."""
        self._backend.set_device(self.torch_device)

    def synchronize(self) -> None:
        """Waits for the device's queue."""
        self._backend.synchronize(self.name)

    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        """Seconds between two events on the device's stream, launched ahead of it where that can be."""
        while True:
            seconds, launching_s = self._sample(call, num_calls)
            can_be_ahead = launching_s < MAX_AHEAD_S and self._num_flushes < MAX_FLUSHES
            if self.is_ahead or not can_be_ahead:
                return seconds
            # Kept for the samples that follow: few are taken twice.
            self._num_flushes *= 2

    def peak_bytes(self, call: Callable[[], object]) -> int:
        """The allocator's own peak after a reset, less what was live."""
        if self.no_peak_reason is not None:
            raise UnavailableDevice(self.no_peak_reason)
        return self._allocator_peak(call)

    def free_bytes(self) -> int | None:
        """As the driver tells it: what other processes hold, and what this one's context takes, is not free."""
        memory = self._memory()
        return None if memory is None else memory[0]

    def held_bytes(self) -> int | None:
        """What torch's allocator has taken from the driver, in use or not."""
        read = getattr(self._backend, "memory_reserved", None)
        if read is None:
            return None
        self.synchronize()
        return int(read(self.name))

    def limit_bytes(self, limit: int | None) -> bool:
        """Has torch's own allocator refuse more."""
        set_fraction = getattr(self._backend, "set_per_process_memory_fraction", None)
        memory = self._memory()
        if set_fraction is None or memory is None:
            return False
        set_fraction(1.0 if limit is None else min(1.0, limit / memory[1]), self.name)
        return True

    def _memory(self) -> tuple[int, int] | None:
        """What is free of how much; None where torch or the driver does not tell."""
        read = getattr(self._backend, "mem_get_info", None)
        try:
            free, total = (0, 0) if read is None else read(self.name)
        except RuntimeError:  # a driver that does not tell
            return None
        return (int(free), int(total)) if total else None

    def flush_cache(self) -> None:
        """Writes more than the cache holds: work in the device's queue, before whatever is launched after it."""
        if self._flush is None:
            self._flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=self.torch_device)
        self._flush.zero_()

    def _sample(self, call: Callable[[], object], num_calls: int) -> tuple[float, float]:
        """Seconds that the calls took on the device, and that the host took to launch them."""
        start, end = self._new_event(), self._new_event()
        self.synchronize()
        for _ in range(self._num_flushes):
            self.flush_cache()
        start.record()
        began = self._host_clock()
        for _ in range(num_calls):
            call()
        launching_s = self._host_clock() - began
        end.record()
        # All is launched, and the device is not even at the first call.
        self.is_ahead = not start.query()
        self.synchronize()
        return float(start.elapsed_time(end)) / 1e3, launching_s

    def _allocator_peak(self, call: Callable[[], object]) -> int:
        with no_garbage_collection():
            self.synchronize()
            self._backend.reset_peak_memory_stats(self.name)
            before = int(self._backend.memory_allocated(self.name))
            result = call()
            self.synchronize()
            peak = int(self._backend.max_memory_allocated(self.name)) - before
            del result
        return peak

    def _peak_moves(self) -> bool:
        # The statistics are a silent zero on some builds: believed only after an allocation was seen in them.
        empty = self._allocator_peak(lambda: torch.empty(PROBE_BYTES, dtype=torch.int8, device=self.torch_device))
        return empty >= PROBE_BYTES


class Cuda(Accelerator):
    """NVIDIA's devices, and AMD's under the same name.

    Args:
        name, backend, new_event, host_clock: as for every accelerator.
        run: runs NVIDIA's own tool; a fake in tests.
    """

    kind = "cuda"

    def __init__(
        self,
        name: str,
        backend: Any,
        new_event: Callable[[], Any],
        host_clock: Callable[[], float] = time.perf_counter,
        *,
        run: Runner = run_tool,
    ) -> None:
        super().__init__(name, backend, new_event, host_clock)
        self._run = run

    def clock_mhz(self) -> float | None:
        """The clock of its processors now, as torch tells it, or else the driver's tool."""
        try:
            return float(self._backend.clock_rate(self.torch_device))
        except Exception:  # torch asks a package that may be absent, and whose errors are a family of their own
            return self._tool.clock_mhz()

    def throttles(self) -> dict[str, int]:
        """`heat` and `power`: see `NvidiaSmi.throttles`."""
        return self._tool.throttles()

    def other_processes(self) -> int | None:
        """Other processes that compute on it; None in a container that hides who they are."""
        return self._tool.other_processes(is_on_it=self._backend.memory_reserved(self.name) > 0)

    @cached_property
    def _tool(self) -> NvidiaSmi:
        # By the number only where torch tells no UUID: the tool also counts devices that are hidden from torch.
        uuid = getattr(self._backend.get_device_properties(self.torch_device), "uuid", None)
        return NvidiaSmi(f"GPU-{uuid}" if uuid else self.name.partition(":")[2], self._run)


class Xpu(Accelerator):
    """Intel's devices. torch tells neither their clock nor who else uses them."""

    kind = "xpu"


class Mps(Accelerator):
    """Apple's: the one device of the machine, which torch's functions take no name for.

    Its statistics know a reserved pool and no peak.
    """

    kind = "mps"

    @classmethod
    def event_module(cls, backend: Any) -> Any:
        """torch.mps keeps its events in a module of their own."""
        return importlib.import_module("torch.mps.event")

    @classmethod
    def names(cls, backend: Any) -> list[str]:
        """There is one, without a number."""
        return [cls.kind]

    @property
    def description(self) -> str:
        """The chip, which is the processor's as well."""
        return f"{cpu_name()} ({self.name})"

    def select(self) -> None:
        """Nothing to choose."""

    def synchronize(self) -> None:
        """Waits for the device's queue."""
        self._backend.synchronize()


# The best first.
KINDS: tuple[type[Accelerator], ...] = (Cuda, Xpu, Mps)
