"""What disturbs a measurement is told with the next step, and silence means that nothing was seen."""

import pytest

from profiling.measuring.disturbance import CpuTimes, Watch, read_cpu_times, warnings_of_rounds


def watched(**later: float) -> list[str]:
    """What a watch of ten seconds says, on a machine whose counters moved by these."""
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
    return Watch(lambda: next(counters)).warnings()


def test_a_quiet_machine_is_not_warned_of() -> None:
    assert watched(busy_s=19.0, own_s=18.0) == []


def test_what_others_took_is_told_in_cores_with_what_to_do() -> None:
    (warning,) = watched(busy_s=19.0, own_s=12.0)
    assert warning.startswith("other processes took 0.7 of ")
    assert "close them" in warning


def test_what_the_host_took_is_told_apart() -> None:
    (warning,) = watched(busy_s=10.0, own_s=10.0, stolen_s=5.0)
    assert warning.startswith("the host gave 0.5 cores to other guests")


def test_a_watch_of_no_time_says_nothing() -> None:
    assert Watch(lambda: CpuTimes(1.0, 2.0, 3.0, 4.0)).warnings() == []


def test_the_counters_go_on() -> None:
    first = read_cpu_times()
    sum(range(200_000))
    second = read_cpu_times()
    assert second.wall_s > first.wall_s
    assert second.busy_s >= first.busy_s
    assert second.own_s >= first.own_s


STEADY = [1.0, 1.01, 0.99] * 20


@pytest.mark.parametrize("floor", [None, 0.0, 0.049])
def test_steady_rounds_are_not_warned_of(floor: float | None) -> None:
    assert warnings_of_rounds({"official": STEADY}, "official", floor) == []


def test_a_clone_that_strays_is_told() -> None:
    (warning,) = warnings_of_rounds({"official": STEADY}, "official", 0.12)
    assert warning.startswith("a clone of official strayed from it by 12%")


def test_few_rounds_are_told() -> None:
    (warning,) = warnings_of_rounds({"official": [1.0] * 7}, "official", 0.0)
    assert warning.startswith("7 rounds only")


@pytest.mark.parametrize(("last", "told"), [(1.06, "+6%"), (0.9, "-10%")])
def test_drift_is_told_with_its_direction(last: float, told: str) -> None:
    (warning,) = warnings_of_rounds({"official": [1.0] * 10 + [1.0] * 10 + [last] * 10}, "official", 0.0)
    assert f"drifted by {told}" in warning


def test_a_reference_that_was_not_timed_is_not_warned_of() -> None:
    assert warnings_of_rounds({}, "official", None) == []
