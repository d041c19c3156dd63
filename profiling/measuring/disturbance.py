"""What else the machine did while something was timed, and what to do about it."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import psutil

# Shares of one core, and relative differences, from which a reader has to be told.
MUCH_TAKEN_CORES = 0.15
MUCH_STRAY = 0.05
MUCH_DRIFT = 0.05
FEW_ROUNDS = 10


@dataclasses.dataclass(frozen=True)
class CpuTimes:
    """Seconds since some moment: by the clock, of cores at work, of cores lost to other guests of the host, our own."""

    wall_s: float
    busy_s: float
    stolen_s: float
    own_s: float


def read_cpu_times() -> CpuTimes:
    """The counters now."""
    machine, own = psutil.cpu_times(), psutil.Process().cpu_times()
    stolen = getattr(machine, "steal", 0.0)
    idle = machine.idle + getattr(machine, "iowait", 0.0)
    # Time of guests is in user's already.
    guests = getattr(machine, "guest", 0.0) + getattr(machine, "guest_nice", 0.0)
    return CpuTimes(time.perf_counter(), sum(machine) - idle - stolen - guests, stolen, own.user + own.system)


class Watch:
    """Watches the machine from its making until it is asked.

    Args:
        read: gives the counters; the seam for tests.
    """

    def __init__(self, read: Callable[[], CpuTimes] = read_cpu_times) -> None:
        self._read = read
        self._before = read()

    def warnings(self) -> list[str]:
        """Sentences on what others took meanwhile."""
        before, now = self._before, self._read()
        wall_s = now.wall_s - before.wall_s
        if wall_s <= 0:
            return []
        others = (now.busy_s - before.busy_s - (now.own_s - before.own_s)) / wall_s
        stolen = (now.stolen_s - before.stolen_s) / wall_s
        found = []
        if others >= MUCH_TAKEN_CORES:
            found.append(
                f"other processes took {others:.1f} of {psutil.cpu_count() or 1} cores while this was timed: close "
                "them, or measure again in a quiet moment"
            )
        if stolen >= MUCH_TAKEN_CORES:
            found.append(f"the host gave {stolen:.1f} cores to other guests while this was timed: measure again later")
        return found


def warnings_of_rounds(samples: Mapping[str, Sequence[float]], reference: str, noise_floor: float | None) -> list[str]:
    """Sentences on what the samples themselves show: a clone that strays, too few rounds, drift.

    Args:
        samples: contender → seconds of one call, round by round.
        reference: which of them to look at.
        noise_floor: how far the reference's clone strayed from 1; None without a clone.
    """
    found = []
    times = samples.get(reference, [])
    if noise_floor is not None and noise_floor >= MUCH_STRAY:
        found.append(
            f"a clone of {reference} strayed from it by {noise_floor:.0%}: smaller differences say nothing. Measure "
            "on a quieter machine, or longer (--time-budget)"
        )
    if 0 < len(times) < FEW_ROUNDS:
        found.append(f"{len(times)} rounds only: a longer --time-budget makes the figures firmer")
    third = len(times) // 3
    if third >= FEW_ROUNDS:
        first, last = statistics.median(times[:third]), statistics.median(times[-third:])
        if abs(last / first - 1) >= MUCH_DRIFT:
            found.append(
                f"the times drifted by {last / first - 1:+.0%} from the first third of the rounds to the last: ratios, "
                "taken round by round, stand, times do not"
            )
    return found
