from __future__ import annotations

from pathlib import Path

import pytest

from profiling.cgroup_limits import OomKills, memory_limit_mib, memory_room_mib, oom_kills, quota_cores


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    return tmp_path / "groups"


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own"
    path.write_text(text, encoding="utf-8")
    return path


def plant(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text + "\n", encoding="utf-8")


def test_the_tightest_group_above_a_process_counts(tmp_path: Path, groups: Path) -> None:
    plant(groups / "pod" / "job", cpu__max="max 100000", memory__max="max")
    plant(groups / "pod", cpu__max="150000 100000", memory__max=str(3 * 2**20))
    plant(groups, cpu__max="700000 100000", memory__max=str(5 * 2**20))
    place = own(tmp_path, "0::/pod/job\n")
    assert quota_cores(groups, place) == 1.5
    assert memory_limit_mib(groups, place) == 3


def test_a_container_that_sees_its_group_as_the_root_is_read_there(tmp_path: Path, groups: Path) -> None:
    plant(groups, cpu__max="250000 100000", memory__max=str(7 * 2**20))
    place = own(tmp_path, "0::/../../kubepods/elsewhere\n")
    assert (quota_cores(groups, place), memory_limit_mib(groups, place)) == (2.5, 7)


def test_the_first_version_has_a_tree_for_each_controller(tmp_path: Path, groups: Path) -> None:
    plant(groups / "cpu,cpuacct" / "job", cpu__cfs_quota_us="350000", cpu__cfs_period_us="100000")
    plant(groups / "memory" / "job", memory__limit_in_bytes=str(11 * 2**20))
    plant(groups / "cpuset" / "job", cpu__cfs_quota_us="100000", cpu__cfs_period_us="100000")
    place = own(tmp_path, "7:cpuset:/job\n4:memory:/job\n1:cpu,cpuacct:/job\n")
    assert (quota_cores(groups, place), memory_limit_mib(groups, place)) == (3.5, 11)


@pytest.mark.parametrize("quota", ["max 100000", "max", "", "100000 0", "-1 100000", "abc def", "²00 100000"])
def test_what_is_no_limit_of_time_is_none(tmp_path: Path, groups: Path, quota: str) -> None:
    plant(groups, cpu__max=quota)
    assert quota_cores(groups, own(tmp_path, "0::/")) is None


def test_minus_one_in_the_first_version_is_no_limit(tmp_path: Path, groups: Path) -> None:
    plant(groups / "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    assert quota_cores(groups, own(tmp_path, "1:cpu:/")) is None


@pytest.mark.parametrize("limit", ["max", "", "-1", "9223372036854771712"])
def test_what_is_no_limit_of_memory_is_none(tmp_path: Path, groups: Path, limit: str) -> None:
    plant(groups / "memory", memory__limit_in_bytes=limit)
    assert memory_limit_mib(groups, own(tmp_path, "4:memory:/")) is None


@pytest.mark.parametrize("text", ["", "nonsense", ":::", "1:cpu", "\0"])
def test_a_system_that_tells_no_groups_has_no_limits(tmp_path: Path, groups: Path, text: str) -> None:
    assert quota_cores(groups, own(tmp_path, text)) is None
    assert memory_limit_mib(groups, tmp_path / "none") is None


def test_room_is_what_the_tightest_group_has_left_and_its_files_count_as_free(tmp_path: Path, groups: Path) -> None:
    mib = 2**20
    # Of 12 MiB 10 are used, 3 of them by files alone; the group above has 4 MiB left.
    inner = f"anon {7 * mib}\ninactive_file {3 * mib}"
    plant(groups / "job", memory__max=str(12 * mib), memory__current=str(10 * mib), memory__stat=inner)
    plant(groups, memory__max=str(20 * mib), memory__current=str(16 * mib))
    place = own(tmp_path, "0::/job")
    assert memory_room_mib(groups, place) == 4
    plant(groups, memory__current=str(13 * mib))
    assert memory_room_mib(groups, place) == 5
    plant(groups / "job", memory__current=str(17 * mib))
    assert memory_room_mib(groups, place) == 0


def test_room_in_the_first_version_counts_the_files_of_the_groups_below(tmp_path: Path, groups: Path) -> None:
    mib = 2**20
    stat = f"inactive_file {mib}\ntotal_inactive_file {2 * mib}"
    plant(
        groups / "memory" / "job",
        memory__limit_in_bytes=str(12 * mib),
        memory__usage_in_bytes=str(9 * mib),
        memory__stat=stat,
    )
    plant(groups / "memory", memory__limit_in_bytes=str(2**63 - 4096), memory__usage_in_bytes=str(100 * mib))
    assert memory_room_mib(groups, own(tmp_path, "4:memory:/job")) == 5


@pytest.mark.parametrize("limit", ["max", "", "-1", str(2**62)])
def test_where_nothing_limits_memory_its_room_is_not_known(tmp_path: Path, groups: Path, limit: str) -> None:
    plant(groups, memory__max=limit, memory__current="5")
    assert memory_room_mib(groups, own(tmp_path, "0::/")) is None


# -- whom the kernel has ended ----------------------------------------------------------------------------------------


def machine(tmp_path: Path, text: str = "oom_kill_other 5\noom_kill 7\n") -> Path:
    path = tmp_path / "vmstat"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_nearest_group_that_counts_is_read_in_the_second_version(tmp_path: Path, groups: Path) -> None:
    plant(groups / "pod" / "job", memory__events="low 0\nmax 5\noom 3\noom_kill 2\noom_group_kill 0")
    plant(groups / "pod", memory__events="oom_kill 11")
    found = oom_kills(groups, own(tmp_path, "0::/pod/job\n"), machine(tmp_path))
    assert found == OomKills(2, is_of_group=True)


def test_the_nearest_group_that_counts_is_read_in_the_first_version(tmp_path: Path, groups: Path) -> None:
    plant(groups / "memory" / "job", memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 3")
    plant(groups / "memory", memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 13")
    place = own(tmp_path, "7:cpuset:/job\n4:memory:/job\n0::/\n")
    assert oom_kills(groups, place, machine(tmp_path)) == OomKills(3, is_of_group=True)


def test_a_container_that_sees_its_group_as_the_root_is_counted_there(tmp_path: Path, groups: Path) -> None:
    plant(groups / "memory", memory__oom_control="oom_kill 5")
    place = own(tmp_path, "4:memory:/docker/not-seen-here\n")
    assert oom_kills(groups, place, machine(tmp_path)) == OomKills(5, is_of_group=True)


@pytest.mark.parametrize("text", ["", "oom_kill", "oom_kill many", "oom_kill -1", "oom_group_kill 3"])
def test_without_a_group_that_counts_the_machines_count_is_told_as_such(
    tmp_path: Path, groups: Path, text: str
) -> None:
    plant(groups, memory__events=text)
    assert oom_kills(groups, own(tmp_path, "0::/"), machine(tmp_path)) == OomKills(7, is_of_group=False)
    assert oom_kills(groups, tmp_path / "none", machine(tmp_path, text)) == OomKills(0, is_of_group=False)
