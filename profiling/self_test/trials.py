"""The launches of a self-test: fresh processes that time planted contenders, and the same work one after the other."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping
from typing import Any

from profiling.child_process import MeasuringChild
from profiling.measurer import CHILD_START_LIMIT_S
from profiling.ratios import paired_speedup
from profiling.self_test.settings import PLANTED, REAL, REFERENCE, SelfTestSettings
from profiling.settings import CLONE
from profiling.stopping import StopSwitch
from profiling.workload import Workload

CONTROL = CLONE + REFERENCE
# Timing one layer after the other, two layers share the time that ours takes for two and a clone.
SHARE_OF_EACH = 1.5
LAUNCH_LIMIT_S = 300.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One ratio that one launch told: of a planted contender, the real one, or the clone, over the reference.

    `method` is `paired` (rounds, as in a sweep) or `one after the other` (torch.utils.benchmark). `replicate` numbers
    the launches of a set; the one of the other method has the whole set's time, and the number 1.
    """

    method: str
    set_number: int
    replicate: int
    workload: str
    contender: str
    speedup: float


PAIRED, ONE_AFTER_OTHER = "paired", "one after the other"


class Launcher:
    """Starts the processes of a self-test, one at a time.

    Args:
        settings: what to measure.
        device: torch's name for the device.
        lock_fd: the descriptor that holds the device's lock.
        stop: gives up the launch in flight.
    """

    def __init__(self, settings: SelfTestSettings, device: str, lock_fd: int | None, stop: StopSwitch) -> None:
        self._settings, self._device, self._lock_fd, self._stop = settings, device, lock_fd, stop
        self._rng = random.Random(settings.seed)

    def one_set(self, set_number: int, workloads: list[Workload]) -> Iterator[Trial]:
        """The trials of one set: its replicates, and, before or after them, the other method on equal time."""
        is_first = set_number % 2 == 0  # so that warming up or slowing down of the machine favours neither
        if is_first:
            yield from self._one_after_other(set_number, workloads)
        for replicate in range(1, self._settings.replicates + 1):
            yield from self._paired(set_number, replicate, workloads)
        if not is_first:
            yield from self._one_after_other(set_number, workloads)

    def _paired(self, set_number: int, replicate: int, workloads: list[Workload]) -> Iterator[Trial]:
        with self._child() as child:
            for workload in workloads:
                answer = child.ask(
                    {
                        "request": "time_planted",
                        "workload": workload.to_dict(),
                        "slowdowns": dict(PLANTED),
                        "real": REAL,
                        "reference": REFERENCE,
                        "time_budget_s": self._settings.time_budget_s,
                        "order_seed": self._rng.randrange(2**32),
                    },
                    limit_s=LAUNCH_LIMIT_S,
                )
                yield from _trials(answer["samples_s"], PAIRED, set_number, replicate, workload)

    def _one_after_other(self, set_number: int, workloads: list[Workload]) -> Iterator[Trial]:
        with self._child() as child:
            for workload in workloads:
                answer = child.ask(
                    {
                        "request": "time_one_after_other",
                        "workload": workload.to_dict(),
                        "contenders": [REFERENCE, REAL, CONTROL],
                        "seconds_each": SHARE_OF_EACH * self._settings.replicates * self._settings.time_budget_s,
                    },
                    limit_s=LAUNCH_LIMIT_S,
                )
                medians = {name: [seconds] for name, seconds in answer["median_s"].items()}
                yield from _trials(medians, ONE_AFTER_OTHER, set_number, 1, workload)

    def _child(self) -> MeasuringChild:
        child = MeasuringChild(heap="pinned", lock_fd=self._lock_fd)
        try:
            self._stop.watch(child)
            child.ask({"request": "environment", "device": self._device}, limit_s=CHILD_START_LIMIT_S)
        except BaseException:
            child.close()
            raise
        return child


def _trials(
    times: Mapping[str, list[float]], method: str, set_number: int, replicate: int, workload: Workload
) -> list[Trial]:
    place: dict[str, Any] = {"method": method, "set_number": set_number, "replicate": replicate}
    return [
        Trial(**place, workload=workload.label, contender=name, speedup=paired_speedup(times[REFERENCE], seconds))
        for name, seconds in times.items()
        if name != REFERENCE
    ]
