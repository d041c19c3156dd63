"""Who has the processors is told from the system's counters, and left open where they tell nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pytest

from profiling.measuring.disturbance.cpu_times import CpuTimes, Taken, read_cpu_times, taken_between

EARLIER = CpuTimes(wall_s=100.0, busy_s=50.0, stolen_s=7.0, own_s=3.0)

Machine = namedtuple("Machine", "user nice system idle iowait irq softirq steal guest guest_nice")
Own = namedtuple("Own", "user system children_user children_system iowait")


def test_what_others_took_is_what_was_worked_less_our_own_work_per_second() -> None:
    later = CpuTimes(wall_s=110.0, busy_s=69.0, stolen_s=12.0, own_s=15.0)
    assert taken_between(EARLIER, later) == Taken(others=pytest.approx(0.7), stolen=pytest.approx(0.5), wall_s=10.0)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, EARLIER),
        (EARLIER, None),
        (EARLIER, EARLIER),
        (EARLIER, CpuTimes(wall_s=110.0, busy_s=50.0, stolen_s=7.0, own_s=5.0)),
    ],
    ids=["no figure before", "no figure now", "no time between", "counters stand still"],
)
def test_without_counters_that_move_it_is_not_known(before: CpuTimes | None, now: CpuTimes | None) -> None:
    assert taken_between(before, now) is None


def test_time_of_guests_and_of_waiting_is_no_work_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(
        user=101.0, nice=2.0, system=3.0, idle=47.0, iowait=5.0, irq=7.0, softirq=11.0, steal=13.0, guest=17.0,
        guest_nice=1.0,
    )  # fmt: skip
    monkeypatch.setattr(psutil, "cpu_times", lambda: machine)
    times = read_cpu_times()
    assert times is not None
    assert times.busy_s == 101 + 2 + 3 + 7 + 11
    assert times.stolen_s == 13


def test_what_this_process_started_counts_as_its_own_alive_or_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise psutil.NoSuchProcess(7)

    children = [SimpleNamespace(cpu_times=lambda: Own(11.0, 5.0, 3.0, 1.0, 99.0)), SimpleNamespace(cpu_times=gone)]
    process = SimpleNamespace(cpu_times=lambda: Own(2.0, 0.5, 7.0, 0.25, 99.0), children=lambda recursive: children)
    monkeypatch.setattr(psutil, "Process", lambda: process)
    times = read_cpu_times()
    assert times is not None
    assert times.own_s == 2 + 0.5 + 7 + 0.25 + 11 + 5 + 3 + 1


@pytest.mark.parametrize("error", [psutil.AccessDenied(), FileNotFoundError("/proc/stat"), NotImplementedError()])
def test_a_system_without_counters_has_none(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setattr(psutil, "cpu_times", refuse)
    assert read_cpu_times() is None


def test_the_counters_go_on() -> None:
    first = read_cpu_times()
    sum(range(3_000_000))
    second = read_cpu_times()
    assert first is not None
    assert second is not None
    assert second.wall_s > first.wall_s
    assert second.busy_s >= first.busy_s
    assert second.own_s > first.own_s


# Starts another process, says which, and is gone: then that is nobody's child.
ORPHAN = r"""
import subprocess, sys
spinning = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
print(subprocess.Popen([sys.executable, "-c", spinning], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)
"""


@pytest.fixture
def busy_stranger() -> Iterator[psutil.Process]:
    """A process that is not ours keeps a core busy."""
    started = subprocess.run([sys.executable, "-c", ORPHAN], check=True, capture_output=True, text=True)
    stranger = psutil.Process(int(started.stdout))
    yield stranger
    stranger.kill()


def test_what_a_stranger_takes_is_among_what_others_took(busy_stranger: psutil.Process) -> None:
    before, used_before_s = read_cpu_times(), busy_stranger.cpu_times().user
    time.sleep(1.0)
    used_s = busy_stranger.cpu_times().user - used_before_s
    taken = taken_between(before, read_cpu_times())
    assert taken is not None
    assert used_s > 0.1
    assert taken.others * taken.wall_s >= used_s - 0.1
