"""What the machine did while something was timed: who else used it, whether it slowed itself down."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator

import psutil

from profiling.measuring.devices import Device
from profiling.measuring.disturbance.cpu_times import CpuTimes, read_cpu_times, taken_between

# Shares of one core, and relative differences, from which a reader has to be told.
MUCH_TAKEN_CORES = 0.15
MUCH_CLOCK_DROP = 0.10

# Of a container's quota; any other cause is the device's own. Devices count in units of their own.
_QUOTA_SPENT = (
    "the container's CPU quota ran out in {count:,} periods while this was timed, and its pauses are in the times: "
    "give the container more CPU, or take fewer --threads"
)
_SLOWED_DOWN = (
    "the device slowed itself down for {cause} while this was timed (its counter rose by {count:,}): let it cool, or "
    "set a lower clock that it can hold, and measure again"
)


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was seen: cells of every row of the workload, by the names of `profiling.columns`, and sentences."""

    cells: dict[str, float | None]
    warnings: list[str]


@dataclasses.dataclass(frozen=True)
class _Look:
    cpu: CpuTimes | None
    load: float | None
    clock_mhz: float | None
    throttles: dict[str, int]


def usable_threads() -> int:
    """Hardware threads that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_load() -> float | None:
    """Processes ready to run, 1-minute average; None where the system has no such figure."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows has none
        return None


class Watch:
    """Watches the machine from its making until it is asked.

    Args:
        device: what is timed.
        read_cpu, read_load: give the counters; the seams for tests.
    """

    def __init__(
        self,
        device: Device,
        read_cpu: Callable[[], CpuTimes | None] = read_cpu_times,
        read_load: Callable[[], float | None] = read_load,
    ) -> None:
        self._device, self._read_cpu, self._read_load = device, read_cpu, read_load
        self._before = self._look()

    def seen(self) -> Seen:
        """What was seen since."""
        before, now = self._before, self._look()
        cells = {"load_start": before.load, "load_end": now.load, "clock_mhz": now.clock_mhz}
        holders = _of_holders(self._device.other_processes())
        found = [*_of_others(before, now), *holders, *_of_throttles(before, now), *_of_clock(before, now)]
        return Seen(cells, found)

    def _look(self) -> _Look:
        device = self._device
        return _Look(
            cpu=self._read_cpu(),
            load=self._read_load(),
            clock_mhz=device.clock_mhz(),
            throttles=device.throttles(),
        )


def too_many_threads(threads: int, usable: Callable[[], int] = usable_threads) -> list[str]:
    """A sentence where torch computes with more threads than this process may run at once."""
    if threads <= usable():
        return []
    return [
        f"{threads} threads on {usable()} that this process may use: they wait for each other, and the times are of "
        "that. Take fewer --threads"
    ]


def _of_others(before: _Look, now: _Look) -> Iterator[str]:
    taken = taken_between(before.cpu, now.cpu)
    if taken is not None and taken.others >= MUCH_TAKEN_CORES:
        yield (
            f"other processes took {taken.others:.1f} of {psutil.cpu_count() or 1} cores while this was timed: close "
            "them, or measure again in a quiet moment"
        )
    if taken is not None and taken.stolen >= MUCH_TAKEN_CORES:
        yield f"the host gave {taken.stolen:.1f} cores to other guests while this was timed: measure again later"


def _of_holders(num: int | None) -> Iterator[str]:
    if num:
        yield (
            f"{num} other {'process holds' if num == 1 else 'processes hold'} memory on this device and may compute in "
            "between: end what is not needed, or take another --device"
        )


def _of_throttles(before: _Look, now: _Look) -> Iterator[str]:
    for cause, count in now.throttles.items():
        rose = count - before.throttles.get(cause, count)
        if rose > 0:
            yield (_QUOTA_SPENT if cause == "quota" else _SLOWED_DOWN).format(cause=cause, count=rose)


def _of_clock(before: _Look, now: _Look) -> Iterator[str]:
    if before.clock_mhz and now.clock_mhz and now.clock_mhz < before.clock_mhz * (1 - MUCH_CLOCK_DROP):
        yield (
            f"the clock fell from {before.clock_mhz:,.0f} to {now.clock_mhz:,.0f} MHz while this was timed: ratios, "
            "taken round by round, stand, times do not. Let the machine cool, or fix its clock"
        )
