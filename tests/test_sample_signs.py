"""What the samples show of a disturbance is told with the next step, and silence means that nothing was seen."""

import pytest

from profiling.measuring.disturbance.sample_signs import (
    clock_warning,
    mode_warnings,
    stall_warnings,
    warnings_of_rounds,
)
from profiling.measuring.latency import Rounds

STEADY = [1.0, 1.01, 0.99] * 20


@pytest.mark.parametrize("floor", [None, 0.0, 0.049])
def test_steady_rounds_are_not_warned_of(floor: float | None) -> None:
    assert warnings_of_rounds({"official": STEADY}, "official", floor) == []


def test_a_clone_that_strays_is_told() -> None:
    (warning,) = warnings_of_rounds({"official": STEADY}, "official", 0.12)
    assert warning.startswith("a clone of official strayed from it by 12 %")


def test_few_rounds_are_told() -> None:
    (warning,) = warnings_of_rounds({"official": [1.0] * 7}, "official", 0.0)
    assert warning.startswith("7 rounds only")


@pytest.mark.parametrize(("last", "told"), [(1.06, "+6 %"), (0.9, "-10 %")])
def test_drift_is_told_with_its_direction(last: float, told: str) -> None:
    (warning,) = warnings_of_rounds({"official": [1.0] * 10 + [1.0] * 10 + [last] * 10}, "official", 0.0)
    assert f"drifted by {told}" in warning


def test_a_reference_that_was_not_timed_is_not_warned_of() -> None:
    assert warnings_of_rounds({}, "official", None) == []


TWO_GROUPS = [7.0, 7.07, 6.93, 7.7, 7.77] * 9


def test_times_in_two_groups_are_told_of_each_contender_that_has_them() -> None:
    samples = {"official": [time * 1e-3 for time in STEADY], "custom": [time * 1e-3 for time in TWO_GROUPS]}
    assert mode_warnings(samples, ["official", "absent"]) == []
    (warning,) = mode_warnings(samples, ["custom", "official"])
    assert warning.startswith("40 % of the times of custom are a group of their own, 10 % slower")
    assert "--threads 1" in warning
    assert "; " not in warning


@pytest.mark.parametrize(("shortest_s", "share"), [(5e-3, "2 %"), (1e-3, "10 %"), (1e-5, "100 %"), (0.0, "100 %")])
def test_a_clock_too_coarse_for_the_shortest_sample_is_told(shortest_s: float, share: str) -> None:
    warning = clock_warning(shortest_s, 1e-4)
    assert warning is not None
    assert warning.startswith(f"the clock's step of 100 µs is {share} of the shortest sample")


@pytest.mark.parametrize("shortest_s", [0.01, 4.0])
def test_a_clock_that_steps_a_hundred_times_in_a_sample_is_fine(shortest_s: float) -> None:
    assert clock_warning(shortest_s, 1e-4) is None


def rounds_of(times: list[float], num_calls: int) -> Rounds:
    return Rounds(samples={"custom": times}, calls_per_sample={"custom": num_calls}, stop_reason="")


def test_a_sample_that_spans_a_pause_is_told() -> None:
    (told,) = stall_warnings(rounds_of([0.002, 0.002, 0.8, 0.002, 0.002], 2), ["custom"])
    assert told.startswith("1 of 5 samples of custom took up to 400 times the median: the process stood still")


@pytest.mark.parametrize(
    ("times", "num_calls"),
    [
        ([0.002, 0.002, 0.2, 0.002, 0.002], 2),  # many times, but 0.4 s: another process had its turn
        ([0.1, 0.1, 1.9, 0.1, 0.1], 1),  # seconds, but not so many times
        ([0.002] * 5, 500),
    ],
)
def test_a_slow_sample_is_no_pause(times: list[float], num_calls: int) -> None:
    assert stall_warnings(rounds_of(times, num_calls), ["custom", "absent"]) == []
