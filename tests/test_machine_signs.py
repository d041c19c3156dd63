"""What the machine did while something was timed is told with the next step, and silence means: nothing was seen."""

from __future__ import annotations

import os
from typing import Any

import pytest

from profiling.measuring.devices import Cpu
from profiling.measuring.disturbance.cpu_times import CpuTimes
from profiling.measuring.disturbance.machine_signs import Seen, Watch, read_load, too_many_threads


class Told(Cpu):
    """A device whose figures are given one by one: before the rounds, and after them."""

    def __init__(
        self, mhz: tuple[Any, Any] = (None, None), throttles: tuple[Any, Any] = ({}, {}), others: int | None = None
    ) -> None:
        super().__init__()
        self._mhz, self._throttles, self._others = iter(mhz), iter(throttles), others

    def clock_mhz(self) -> float | None:
        return next(self._mhz)  # type: ignore[no-any-return] # the tuple's own

    def throttles(self) -> dict[str, int]:
        return next(self._throttles)  # type: ignore[no-any-return] # the tuple's own

    def other_processes(self) -> int | None:
        return self._others


def seen(device: Cpu | None = None, *, loads: tuple[Any, Any] = (0.5, 0.75), **later: float) -> Seen:
    """What a watch of ten seconds sees, on a machine whose counters moved by these."""
    counters = iter(
        [
            CpuTimes(wall_s=100.0, busy_s=50.0, stolen_s=7.0, own_s=3.0),
            CpuTimes(
                wall_s=110.0,
                busy_s=50.0 + later.get("busy_s", 0.0),
                stolen_s=7.0 + later.get("stolen_s", 0.0),
                own_s=3.0 + later.get("own_s", 0.0),
            ),
        ]
    )
    load = iter(loads)
    return Watch(device or Told(), lambda: next(counters), lambda: next(load)).seen()


def test_a_quiet_machine_is_not_warned_of() -> None:
    quiet = Told(mhz=(3100.0, 2800.0), throttles=({"heat": 7, "quota": 2}, {"heat": 7, "quota": 2}), others=0)
    assert seen(quiet, busy_s=19.0, own_s=18.0) == Seen(
        {"load_start": 0.5, "load_end": 0.75, "clock_mhz": 2800.0}, warnings=[]
    )


def test_figures_that_the_system_does_not_have_stay_empty() -> None:
    nothing = Watch(Told(), lambda: None, lambda: None).seen()
    assert nothing == Seen({"load_start": None, "load_end": None, "clock_mhz": None}, warnings=[])


def test_what_others_took_is_told_in_cores_with_what_to_do() -> None:
    (warning,) = seen(busy_s=19.0, own_s=12.0).warnings
    assert warning.startswith("other processes took 0.7 of ")
    assert "close them" in warning


def test_what_the_host_took_is_told_apart() -> None:
    (warning,) = seen(busy_s=10.0, own_s=10.0, stolen_s=5.0).warnings
    assert warning.startswith("the host gave 0.5 cores to other guests")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("heat", "the device slowed itself down for heat while this was timed (its counter rose by 1,003)"),
        ("power", "the device slowed itself down for power"),
        ("quota", "the container's CPU quota ran out in 1,003 periods"),
    ],
)
def test_a_device_that_slowed_itself_down_is_told_with_the_cause(cause: str, words: str) -> None:
    (warning,) = seen(Told(throttles=({"heat": 5, cause: 7}, {"heat": 5, cause: 1010}))).warnings
    assert warning.startswith(words)


def test_a_cause_that_could_not_be_told_before_is_no_rise() -> None:
    assert seen(Told(throttles=({}, {"heat": 1010}))).warnings == []


def test_a_clock_that_fell_is_told_with_both_figures() -> None:
    fell = seen(Told(mhz=(3100.0, 2700.0)))
    assert fell.warnings[0].startswith("the clock fell from 3,100 to 2,700 MHz while this was timed")
    assert fell.cells["clock_mhz"] == 2700.0


@pytest.mark.parametrize("mhz", [(3100.0, 2800.0), (2000.0, 3100.0), (None, 2700.0), (3100.0, None)])
def test_a_clock_that_rose_or_is_not_known_is_no_warning(mhz: tuple[float | None, float | None]) -> None:
    assert seen(Told(mhz=mhz)).warnings == []


@pytest.mark.parametrize(
    ("num", "words"), [(1, "1 other process holds memory on this device"), (3, "3 other processes hold memory")]
)
def test_other_processes_on_the_device_are_counted(num: int, words: str) -> None:
    (warning,) = seen(Told(others=num)).warnings
    assert warning.startswith(words)


def test_no_warning_holds_what_divides_warnings_in_a_cell() -> None:
    worst = Told(mhz=(3100.0, 2.0), throttles=({"heat": 0, "quota": 0}, {"heat": 7, "quota": 7}), others=3)
    warnings = seen(worst, busy_s=19.0, stolen_s=5.0).warnings
    assert len(warnings) == 6
    assert not any("; " in warning for warning in warnings)


def test_the_load_is_the_systems_own_and_empty_where_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1.25, 7.0, 9.0), raising=False)
    assert read_load() == 1.25
    monkeypatch.delattr(os, "getloadavg")
    assert read_load() is None


def test_this_machine_is_watched() -> None:
    cells = Watch(Cpu()).seen().cells
    assert cells["load_end"] is None or cells["load_end"] >= 0


def test_more_threads_than_may_run_at_once_are_told() -> None:
    assert too_many_threads(2, usable=lambda: 2) == []
    (told,) = too_many_threads(7, usable=lambda: 2)
    assert told.startswith("7 threads on 2 that this process may use")
