from __future__ import annotations

from pathlib import Path

import pytest

from profiling.measuring.devices.throttling import heat_throttles, quota_throttles


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def stat(nr_throttled: int) -> str:
    return f"nr_periods 97\nnr_throttled {nr_throttled}\nthrottled_usec 1009\n"


def test_heat_is_counted_over_all_cores_and_packages(tmp_path: Path) -> None:
    for path, count in (
        ("cpu0/thermal_throttle/core_throttle_count", 3),
        ("cpu0/thermal_throttle/package_throttle_count", 5),
        ("cpu11/thermal_throttle/core_throttle_count", 7),
        ("cpu0/thermal_throttle/core_throttle_total_time_ms", 1013),  # no count
        ("cpufreq/thermal_throttle/core_throttle_count", 1019),  # no core
    ):
        write(tmp_path / path, f"{count}\n")
    assert heat_throttles(tmp_path) == 15


def test_heat_that_is_not_counted_is_unknown(tmp_path: Path) -> None:
    assert heat_throttles(tmp_path) is None
    assert heat_throttles(tmp_path / "absent") is None
    write(tmp_path / "cpu0/thermal_throttle/core_throttle_count", "?\n")
    assert heat_throttles(tmp_path) is None


@pytest.mark.parametrize(
    ("own", "stats", "count"),
    [
        # The second version, from within a container: its own group is the root.
        ("0::/\n", {"cpu.stat": 3}, 3),
        # Told by a path that is not there: so from within a container that was not told so.
        ("0::/docker/abc\n", {"cpu.stat": 5}, 5),
        # Outside of one: a quota of the group above slows it too.
        ("0::/user/app\n", {"user/cpu.stat": 7, "user/app/cpu.stat": 11, "other/cpu.stat": 1009}, 18),
        # The first version has a hierarchy for the processor; another one's is not it.
        ("4:memory:/m\n3:cpuset:/s\n2:cpu,cpuacct:/c\n", {"cpu,cpuacct/c/cpu.stat": 13, "memory/m/cpu.stat": 1013}, 13),
        ("1:cpu:/\n0::/\n", {"cpu/cpu.stat": 17}, 17),
        ("0::/../above\n", {"above/cpu.stat": 19}, 19),
    ],
)
def test_a_spent_quota_is_counted(tmp_path: Path, own: str, stats: dict[str, int], count: int) -> None:
    write(tmp_path / "own", own)
    for path, nr_throttled in stats.items():
        write(tmp_path / "cgroup" / path, stat(nr_throttled))
    assert quota_throttles(tmp_path / "cgroup", tmp_path / "own") == count


def test_a_quota_that_is_not_counted_is_unknown(tmp_path: Path) -> None:
    assert quota_throttles(tmp_path, tmp_path / "absent") is None
    write(tmp_path / "own", "0::/\n")
    assert quota_throttles(tmp_path, tmp_path / "own") is None
    write(tmp_path / "cpu.stat", "usage_usec 1009\n")  # the root of a machine, which has no quota
    assert quota_throttles(tmp_path, tmp_path / "own") is None
