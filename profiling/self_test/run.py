"""Runs a self-test from end to end, part by part, within its time, and writes what it found."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiling.child_process import ChildStopped, MeasuringChild, MeasuringError
from profiling.device_lock import DeviceLock
from profiling.environment import host_environment
from profiling.measurer import CHILD_START_LIMIT_S
from profiling.self_test.findings import Finding, finding_of_cost, finding_of_coverage, findings_of_trials
from profiling.self_test.harness import harness_cost
from profiling.self_test.record import require_writable, write_record
from profiling.self_test.settings import SelfTestSettings
from profiling.self_test.synthetic import all_coverages
from profiling.self_test.trials import Launcher, Trial
from profiling.stopping import StopSwitch
from profiling.units import format_duration

MIN_SETS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelfTest:
    """A self-test as it ended: what it found, the raw ratios, and on what.

    Attributes:
        stop_reason: why no further set was made.
    """

    settings: SelfTestSettings
    findings: tuple[Finding, ...]
    trials: tuple[Trial, ...]
    environment: dict[str, Any]
    stop_reason: str

    @property
    def is_refuted(self) -> bool:
        """Whether some finding contradicts what the measuring claims by more than chance."""
        return any(finding.refutes for finding in self.findings)


def run_self_test(
    settings: SelfTestSettings,
    folder: Path,
    *,
    tell: Callable[[str], None] = lambda _: None,
    stop: StopSwitch | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SelfTest:
    """Measures on this machine how far the figures of a sweep can be trusted, and writes it into `folder`.

    Args:
        settings: what to measure, and for how long.
        folder: where the table and the raw ratios go.
        tell: told in a sentence what goes on.
        stop: ends it early; what is measured by then is still told.
        clock: seconds.

    Raises:
        DeviceBusy: someone else measures on the device.
        MeasuringError: a process could not measure in the very first set; the message says why.
        RunError: the folder cannot be written.
        ChildStopped: `stop` was used before there was anything to tell.
    """
    stop = stop or StopSwitch()
    require_writable(folder)
    deadline = clock() + settings.time_limit_s
    tell("made-up numbers: does the interval hold the truth?")
    found = [finding_of_coverage(*coverage) for coverage in all_coverages(settings.seed)]
    tell("a sweep of two points: what does the harness cost?")
    cost = finding_of_cost(*harness_cost(settings, stop))
    device = _device(settings, stop)
    environment = {**host_environment(), **device}
    workloads = settings.workloads(device["device"], device["torch_threads"])
    lock = DeviceLock(device["device"])
    lock.acquire("self-test", pause=stop.pause)
    trials: list[Trial] = []
    stop_reason, set_s = f"{settings.max_sets} sets made", 0.0
    try:
        launcher = Launcher(settings, device["device"], lock.fd, stop)
        for number in range(1, settings.max_sets + 1):
            started = clock()
            tell(_set_words(number, settings, set_s))
            trials += list(launcher.one_set(number, workloads))
            set_s = clock() - started
            if MIN_SETS <= number < settings.max_sets and clock() + set_s > deadline:
                stop_reason = f"time limit of {settings.time_limit_s:g} s after {number} sets"
                break
    except (ChildStopped, MeasuringError) as error:
        if not trials:
            raise
        stop_reason = stop.reason or f"a process failed in set {number}: {error}"
    finally:
        lock.release()
    findings = tuple(sorted([*findings_of_trials(trials), cost, *found], key=lambda finding: finding.part))
    ended = SelfTest(
        settings=settings,
        findings=findings,
        trials=tuple(trials),
        environment=environment,
        stop_reason=stop_reason,
    )
    write_record(ended, folder)
    return ended


def _set_words(number: int, settings: SelfTestSettings, set_s: float) -> str:
    told = f"set {number} of up to {settings.max_sets}: {settings.replicates} fresh processes and one of the usual way"
    left_s = (settings.max_sets - number + 1) * set_s
    return f"{told}, about {format_duration(left_s)} left" if set_s else told


def _device(settings: SelfTestSettings, stop: StopSwitch) -> dict[str, Any]:
    """What a child says of the device that the settings mean: its name, threads, torch's version."""
    with MeasuringChild(heap="pinned") as child:
        stop.watch(child)
        answer = child.ask({"request": "environment", "device": settings.device}, limit_s=CHILD_START_LIMIT_S)
    return {name: answer[name] for name in ("device", "device_name", "torch_version", "torch_threads")}
