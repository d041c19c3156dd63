"""Waits for a quiet moment before something is timed: one busy neighbour can make a call four times as long."""

from __future__ import annotations

import time
from collections.abc import Callable

from profiling.measuring.devices import Device
from profiling.measuring.disturbance.cpu_times import CpuTimes, read_cpu_times, taken_between

# Cores that others take, from which a moment is busy. The counters step by 10 ms, so a little is no sign in a short
# window.
BUSY_CORES = 0.25
LEAST_BUSY_S = 0.03
# How long one look at an idle process takes: 25 steps of the counters.
LOOK_S = 0.25
# Per workload. Who holds an accelerator's memory seldom lets it go soon.
LIMIT_S = 10.0
HOLDER_LIMIT_S = 2.0


class Quiet:
    """Looks, from its making on, whether others take the machine, and waits until they do not.

    Args:
        device: what is going to be timed. Where it can tell which other processes are on it, they count, else those
            that take the processors.
        allowance_s: seconds that may be waited in all; 0 for never.
        on_wait: told, before each further wait, how many seconds of waiting there will have been.
        read_cpu, sleep, clock: the counters, and seconds; the seams for tests.

    Attributes:
        waited_s: seconds waited so far; None where nothing told whether others take the machine.
    """

    def __init__(
        self,
        device: Device,
        allowance_s: float,
        on_wait: Callable[[float], None],
        *,
        read_cpu: Callable[[], CpuTimes | None] = read_cpu_times,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device, self._allowance_s, self._on_wait = device, allowance_s, on_wait
        self._read_cpu, self._sleep, self._clock = read_cpu, sleep, clock
        self._before = read_cpu()
        self.waited_s: float | None = 0.0 if allowance_s == 0 else None

    def wait(self) -> bool:
        """Waits while the machine is busy, as far as is allowed; whether it did."""
        is_busy, limit_s = self._look()
        if is_busy is None:
            return False
        already_s = waited_s = self.waited_s or 0.0
        while is_busy and waited_s + LOOK_S <= limit_s:
            self._on_wait(waited_s + LOOK_S)
            started = self._clock()
            self._sleep(LOOK_S)
            waited_s += self._clock() - started
            is_busy, limit_s = self._look()
        self.waited_s = waited_s
        return waited_s > already_s

    def _look(self) -> tuple[bool | None, float]:
        """Whether others take the machine, None where nothing tells; and how long that is worth waiting for."""
        if self._allowance_s == 0:
            return None, 0.0
        holders = self._device.other_processes()
        if holders is not None:
            return holders > 0, min(self._allowance_s, HOLDER_LIMIT_S)
        before, self._before = self._before, self._read_cpu()
        taken = taken_between(before, self._before)
        if taken is None:
            return None, 0.0
        cores = taken.others + taken.stolen
        is_busy = cores >= BUSY_CORES and cores * taken.wall_s >= LEAST_BUSY_S
        return is_busy, min(self._allowance_s, LIMIT_S)
