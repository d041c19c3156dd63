"""The processor as a device: its calls are done when they return, so the host's clock is the right one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import cached_property

import psutil

from profiling.environment import cpu_name
from profiling.measuring.devices.memory_events import peak_by_events
from profiling.measuring.devices.process_memory import limit_data, status_bytes
from profiling.measuring.devices.seam import Device
from profiling.measuring.devices.throttling import heat_throttles, quota_throttles

CLOCK_READS = 2000
# A virtual machine may tell 0, and some kernels the clock in kHz: no processor runs at either.
SENSIBLE_MHZ = (100.0, 10_000.0)
COUNTERS: Mapping[str, Callable[[], int | None]] = {"heat": heat_throttles, "quota": quota_throttles}


class Cpu(Device):
    """The processor.

    Args:
        clock: nanoseconds; whatever moves in a test.
        frequency: as `psutil.cpu_freq`.
        counters: cause → how often it slowed the processor down so far, None where that is not counted.
    """

    name = "cpu"

    def __init__(
        self,
        clock: Callable[[], int] = time.perf_counter_ns,
        *,
        frequency: Callable[[], object | None] = psutil.cpu_freq,
        counters: Mapping[str, Callable[[], int | None]] = COUNTERS,
    ) -> None:
        self._clock, self._frequency, self._counters = clock, frequency, counters

    @property
    def description(self) -> str:
        """The processor's model name."""
        return cpu_name()

    @cached_property
    def clock_step_s(self) -> float:
        """The smallest positive difference between two reads in a row; what the system states where none moved."""
        reads = [self._clock() for _ in range(CLOCK_READS)]
        steps = [later - earlier for earlier, later in itertools.pairwise(reads) if later > earlier]
        return min(steps) / 1e9 if steps else time.get_clock_info("perf_counter").resolution

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

        Raises:
            IncompleteEvents: the events do not add up to what is still alive.
        """
        return peak_by_events(call)

    def held_bytes(self) -> int | None:
        """All that this process has allocated, written to or not."""
        return status_bytes("VmData")

    def limit_bytes(self, limit: int | None) -> bool:
        """As the system does it; see `limit_data`."""
        return limit_data(limit)

    def clock_mhz(self) -> float | None:
        """The mean clock of the cores, where the system tells a sensible one."""
        try:
            current = getattr(self._frequency(), "current", None)
        except (OSError, NotImplementedError, RuntimeError):  # systems without such a counter
            return None
        low, high = SENSIBLE_MHZ
        return float(current) if isinstance(current, int | float) and low <= current <= high else None

    def throttles(self) -> dict[str, int]:
        """`heat`: events of cores and packages. `quota`: periods without time left in a container's quota."""
        counts = {cause: count() for cause, count in self._counters.items()}
        return {cause: count for cause, count in counts.items() if count is not None}
