"""How long a sweep still takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from profiling.estimate import workload_seconds
from profiling.settings import SweepSettings
from profiling.workload import Workload

# Seconds of the estimate that count as measured from the start: the first point pays for what is loaded once, and
# should not speak for all the others.
SETTLING_S = 10.0


class SweepClock:
    """Tells the time left: the estimate of what is missing, corrected by how the estimate did so far."""

    def __init__(
        self,
        workloads: Sequence[Workload],
        settings: SweepSettings,
        done: set[tuple[int, int]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._now = settings, now
        costs = [self._cost(workload) for workload in workloads]
        self._left = sum(costs) * settings.replicates - sum(costs[point - 1] for _, point in done)
        self._expected = 0.0
        self._started = now()

    def tick(self, workload: Workload) -> None:
        """A workload is done."""
        self._expected += self._cost(workload)
        self._left -= self._cost(workload)

    def seconds_left(self) -> float:
        """Seconds until the sweep ends."""
        elapsed = self._now() - self._started
        slowness = (elapsed + SETTLING_S) / (self._expected + SETTLING_S)
        return max(0.0, self._left) * (slowness if self._expected else 1.0)

    def _cost(self, workload: Workload) -> float:
        return 0.0 if workload.invalid_reason else workload_seconds(workload, self._settings)
