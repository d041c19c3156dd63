"""Who has the processors: seconds of work since the machine started, of this process and of all others."""

from __future__ import annotations

import contextlib
import dataclasses
import time

import psutil

# Counters that stand still while this process works count nothing: some sandboxes show zeros.
STANDSTILL_S = 0.05


@dataclasses.dataclass(frozen=True)
class CpuTimes:
    """Seconds since some moment: by the clock, of cores at work, of cores lost to other guests of the host, our own."""

    wall_s: float
    busy_s: float
    stolen_s: float
    own_s: float


@dataclasses.dataclass(frozen=True)
class Taken:
    """Cores that others had, on average between two looks `wall_s` apart."""

    others: float
    stolen: float
    wall_s: float


def read_cpu_times() -> CpuTimes | None:
    """The counters now; None where the system has none."""
    try:
        machine, own_s = psutil.cpu_times(), _own_seconds()
    except (psutil.Error, OSError, NotImplementedError):
        return None
    stolen = getattr(machine, "steal", 0.0)
    idle = machine.idle + getattr(machine, "iowait", 0.0)
    # Time of guests is in user's already.
    guests = getattr(machine, "guest", 0.0) + getattr(machine, "guest_nice", 0.0)
    return CpuTimes(time.perf_counter(), sum(machine) - idle - stolen - guests, stolen, own_s)


def taken_between(before: CpuTimes | None, now: CpuTimes | None) -> Taken | None:
    """What others took between two looks; None where that cannot be told."""
    if before is None or now is None or now.wall_s <= before.wall_s:
        return None
    wall_s, busy_s, own_s = now.wall_s - before.wall_s, now.busy_s - before.busy_s, now.own_s - before.own_s
    if busy_s <= 0 and own_s > STANDSTILL_S:
        return None
    return Taken((busy_s - own_s) / wall_s, (now.stolen_s - before.stolen_s) / wall_s, wall_s)


def _own_seconds() -> float:
    """Of this process and what it started, such as a compiler's helpers: alive or gone."""
    process = psutil.Process()
    seconds = sum(process.cpu_times()[:4])  # user, system, and both of children that are gone
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            seconds += sum(child.cpu_times()[:4])
    return float(seconds)
