from __future__ import annotations

from pathlib import Path

import pytest

from profiling.cpu_clocks import clock_facts

NOTHING = dict.fromkeys(("clock_now_mhz", "clock_min_mhz", "clock_max_mhz", "clock_governor", "turbo"))


def plant(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def test_the_clock_of_the_first_core_is_told_in_mhz(tmp_path: Path) -> None:
    first = tmp_path / "cpu0" / "cpufreq"
    plant(first / "scaling_cur_freq", "2345678")
    plant(first / "cpuinfo_min_freq", "800000")
    plant(first / "cpuinfo_max_freq", "3700000")
    plant(first / "scaling_governor", "powersave")
    plant(tmp_path / "cpu1" / "cpufreq" / "scaling_cur_freq", "1100000")
    assert clock_facts(tmp_path, tmp_path / "none") == {
        "clock_now_mhz": 2345.678,
        "clock_min_mhz": 800.0,
        "clock_max_mhz": 3700.0,
        "clock_governor": "powersave",
        "turbo": None,
    }


@pytest.mark.parametrize(
    ("file", "text", "turbo"),
    [
        ("intel_pstate/no_turbo", "1", False),
        ("intel_pstate/no_turbo", "0", True),
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
        ("cpufreq/boost", "perhaps", None),
    ],
)
def test_turbo_is_told_by_whichever_driver_there_is(tmp_path: Path, file: str, text: str, turbo: bool | None) -> None:
    plant(tmp_path / file, text)
    assert clock_facts(tmp_path, tmp_path / "none")["turbo"] is turbo


def test_a_virtual_machine_tells_its_clock_in_cpuinfo(tmp_path: Path) -> None:
    plant(tmp_path / "cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2596.125\n\nprocessor\t: 1\ncpu MHz\t\t: 1300.5")
    assert clock_facts(tmp_path / "none", tmp_path / "cpuinfo") == NOTHING | {"clock_now_mhz": 2596.125}


@pytest.mark.parametrize("text", ["", "0", "<unknown>", "-5"])
def test_a_clock_that_none_can_have_is_none(tmp_path: Path, text: str) -> None:
    plant(tmp_path / "cpu0" / "cpufreq" / "scaling_cur_freq", text)
    plant(tmp_path / "cpuinfo", "cpu MHz : 0.000")
    assert clock_facts(tmp_path, tmp_path / "cpuinfo") == NOTHING


def test_a_system_that_tells_nothing_has_nothing_and_no_error(tmp_path: Path) -> None:
    assert clock_facts(tmp_path / "none", tmp_path / "none") == NOTHING
