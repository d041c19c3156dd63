from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from profiling.measuring.devices import nvidia_smi
from profiling.measuring.devices.nvidia_smi import NvidiaSmi, run_tool


def tool(*answers: str | None, words: str = "") -> NvidiaSmi:
    """The tool, that gives these answers one after the other to questions with such words, and None to others."""
    left = list(answers)

    def run(arguments: Sequence[str]) -> str | None:
        return left.pop(0) if words in arguments[0] else None

    return NvidiaSmi("GPU-7", run)


def test_the_clock_is_a_number_or_unknown() -> None:
    assert tool("1980\n").clock_mhz() == 1980.0
    for answer in (None, "", "[N/A]\n", "1980, 7\n", "1980,\n"):
        assert tool(answer).clock_mhz() is None


def test_time_spent_slower_is_added_up_by_cause() -> None:
    for answer in ("3, 5, 7, 11\n", "3 us, 5 us, 7 us, 11 us\n"):
        assert tool(answer, words="counters").throttles() == {"heat": 8, "power": 18}


def test_the_tool_is_asked_for_its_counters_by_their_names() -> None:
    asked: list[Sequence[str]] = []

    def note(arguments: Sequence[str]) -> None:
        asked.append(arguments)

    NvidiaSmi("GPU-7", note).throttles()
    counters = "clocks_event_reasons_counters."
    names = ("sw_thermal_slowdown", "hw_thermal_slowdown", "sw_power_cap", "hw_power_brake_slowdown")
    assert asked[0][0] == "--query-gpu=" + ",".join(counters + name for name in names)


def test_an_older_driver_is_asked_what_is_active_and_counted_by_looks() -> None:
    # heat by software; nothing; power cap; idle and an application's own clocks, which are no slowing down.
    smi = tool("0x20", "0x0", "0x4", "0x3", words="clocks_event_reasons.active")
    assert [smi.throttles() for _ in range(4)] == [
        {"heat": 1, "power": 0},
        {"heat": 1, "power": 0},
        {"heat": 1, "power": 1},
        {"heat": 1, "power": 1},
    ]


def test_a_still_older_driver_is_asked_by_the_older_name() -> None:
    assert tool("0x00000000000000C0", words="clocks_throttle_reasons").throttles() == {"heat": 1, "power": 1}


def test_counters_that_a_device_does_not_have_are_not_zero() -> None:
    assert tool("[N/A], [N/A], [N/A], [N/A]", words="counters").throttles() == {}


def test_this_process_is_left_out_of_the_others() -> None:
    listed = f"{os.getpid()}\n4294967291\n4294967295\n4294967291\n"
    assert tool(listed).other_processes(is_on_it=True) == 2
    assert tool(f"{os.getpid()}\n").other_processes(is_on_it=True) == 0
    assert tool("").other_processes(is_on_it=False) == 0


@pytest.mark.parametrize("answer", [None, "", "4294967291\n", "[Not Supported]\n"])
def test_a_list_that_lacks_this_process_tells_nothing(answer: str | None) -> None:
    assert tool(answer).other_processes(is_on_it=True) is None


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool of that name, first on the path, to be written by the test."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    path = tmp_path / "nvidia-smi"
    path.touch()
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_tool_is_run_with_its_arguments(installed: Path) -> None:
    installed.write_text('#!/bin/sh\necho "$1 $2"\n')
    assert run_tool(["-i", "7"]) == "-i 7\n"


def test_a_tool_that_fails_tells_nothing(installed: Path) -> None:
    installed.write_text("#!/bin/sh\necho 1980\nexit 9\n")
    assert run_tool(["-i", "7"]) is None


def test_a_tool_that_hangs_is_given_up(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(nvidia_smi, "LIMIT_S", 0.2)
    started = time.monotonic()
    assert run_tool(["-i", "7"]) is None
    assert time.monotonic() - started < 30


def test_an_absent_tool_tells_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_tool(["-i", "7"]) is None
