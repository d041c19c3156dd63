"""What may be claimed of a change between two runs: no alarm where nothing changed, and none missed that shows."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.compare.judging import Change, is_time_regression, joint_noise, time_verdict, uncounted
from profiling.compare.run_to_run import Runs
from profiling.compare.spreads import change_half_widths, corrected_level, error_of_interval
from profiling.intervals import mean_interval
from profiling.ratios import join_replicates

ROWS = 24
LOGS = st.lists(st.floats(min_value=-1, max_value=1), min_size=2, max_size=9)


def a_change(ratio: float, half: float = 0.01, **changes: object) -> Change:
    change = Change(measure="relative", log=math.log(ratio), half=half, half_all=2 * half, noise=0.004, numbers=(5, 7))
    return dataclasses.replace(change, **changes)


# -- intervals ---


@given(LOGS, st.integers(min_value=1, max_value=11))
def test_the_spread_comes_back_from_the_interval_of_a_report(logs: list[float], num_compared: int) -> None:
    joined = join_replicates([math.exp(log) for log in logs], num_compared)
    assert joined.low is not None
    assert joined.high is not None
    middle = min(max(joined.speedup, joined.low), joined.high)  # equal values: the last digit
    error = error_of_interval(middle, joined.low, joined.high, joined.num_replicates, num_compared)
    assert error == pytest.approx(np.std(logs, ddof=1) / math.sqrt(len(logs)), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("low", "high", "number"), [(0.9, 1.1, 1), (0.0, 1.1, 5), (1.05, 1.1, 5), (0.9, math.inf, 5)])
def test_what_is_no_interval_tells_no_spread(low: float, high: float, number: int) -> None:
    assert math.isnan(error_of_interval(1.0, low, high, number, 2))


def half_width(first: float, second: float, numbers: tuple[int, int], level: float = 0.95) -> float:
    sides = [
        Runs(np.zeros((1, 1)), np.array([[error]]), np.array([[float(number)]]))
        for error, number in zip((first, second), numbers, strict=True)
    ]
    return float(change_half_widths((sides[0], sides[1]), np.array([level]))[0])


def test_the_interval_of_a_change_is_that_of_welch() -> None:
    # Equal errors, five replicates each: eight degrees of freedom, t = 2.306.
    assert half_width(0.03, 0.03, (5, 5)) == pytest.approx(2.306 * 0.03 * math.sqrt(2), rel=1e-4)
    # 0.03⁴/6 and 0.01⁴/2 under (0.0009 + 0.0001)²: 1e-6 / (1.35e-7 + 5e-9) = 7.14, so seven: t = 2.3646.
    assert half_width(0.03, 0.01, (7, 3)) == pytest.approx(2.3646 * math.sqrt(0.001), rel=1e-4)


def test_a_run_that_does_not_spread_leaves_the_interval_of_the_other() -> None:
    values = [0.1, 0.13, 0.17, 0.11, 0.19]
    low, high = mean_interval(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(5)
    assert half_width(0.0, error, (11, 5)) == pytest.approx((high - low) / 2)
    assert half_width(0.0, 0.0, (5, 7)) == 0


def test_an_unknown_spread_gives_no_interval() -> None:
    assert math.isnan(half_width(math.nan, 0.01, (5, 5)))


@given(st.floats(1e-6, 1), st.floats(1e-6, 1), st.integers(2, 13), st.integers(2, 13))
def test_an_interval_is_the_same_whichever_run_comes_first(a: float, b: float, n: int, m: int) -> None:
    assert half_width(a, b, (n, m)) == half_width(b, a, (m, n))
    assert half_width(a, b, (n, m)) < half_width(a, b, (n, m), corrected_level(3))


# -- verdicts ---


@pytest.mark.parametrize(
    ("change", "verdict", "why"),
    [
        (a_change(1.05), "slower", "wholly outside of 1 ± 2 %"),
        (a_change(1 / 1.05), "faster", "wholly outside of 1 ± 2 %"),
        (a_change(1.004), "same", "wholly within 1 ± 2 %"),
        (a_change(1.025), "unsure", "across the edge"),
        (a_change(1.004, noise=0.03), "unsure", "clones of the reference strayed so far"),
        (a_change(1.05, noise=0.06), "unsure", "not clear of 1 ± 6 %"),
        (a_change(1.05, noise=0.06, measure="latency"), "unsure", "the references themselves moved so far"),
        (a_change(1.5, noise=math.nan), "unsure", "no clone of the reference"),
        (a_change(1.5, noise=math.nan, measure="latency"), "unsure", "a slower layer from a slower machine"),
        (a_change(1.5, half=math.nan), "unsure", "no time replicate by replicate"),
        (a_change(1.5, numbers=(4, 5)), "provisional", "BASE has 4 of the 5 replicates needed"),
        (a_change(1.5, numbers=(1, 3)), "provisional", "BASE has 1 and NEW has 3"),
        (a_change(1.5, is_reference=True), "unsure", "says that the machine changed"),
        (a_change(1.004, is_reference=True), "same", "the yardstick itself"),
    ],
)
def test_a_verdict_says_no_more_than_the_interval_allows(change: Change, verdict: str, why: str) -> None:
    found, reason = time_verdict(change)
    assert (found, why in reason) == (verdict, True), reason


@given(
    st.floats(min_value=-0.5, max_value=0.5),
    st.floats(min_value=0, max_value=0.2),
    st.floats(min_value=0, max_value=0.1),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_exchanging_the_runs_exchanges_slower_and_faster(
    log: float, half: float, noise: float, num_base: int, num_new: int
) -> None:
    there = a_change(math.exp(log), half, noise=noise, numbers=(num_base, num_new))
    back = a_change(math.exp(-log), half, noise=noise, numbers=(num_new, num_base))
    other = {"slower": "faster", "faster": "slower"}
    verdict = time_verdict(there)[0]
    assert time_verdict(back)[0] == other.get(verdict, verdict)


def test_the_noise_of_two_runs_is_more_than_that_of_each_and_less_than_their_sum() -> None:
    assert joint_noise(0.03, 0.04) == pytest.approx(math.expm1(math.hypot(math.log(1.03), math.log(1.04))))
    assert 0.04 < joint_noise(0.03, 0.04) < 0.07
    assert math.isnan(joint_noise(math.nan, 0.01))


def test_a_regression_needs_the_estimate_above_the_threshold_and_all_intervals_beyond_the_noise() -> None:
    assert is_time_regression(a_change(1.07, 0.01), 0.05)
    assert not is_time_regression(a_change(1.04, 0.001), 0.05), "below the threshold"
    assert not is_time_regression(a_change(1.07, 0.03), 0.05), "the interval of all rows reaches into the noise"
    assert not is_time_regression(a_change(1.07, 0.01, noise=0.06), 0.05), "within what clones strayed by"
    assert not is_time_regression(a_change(1 / 1.07, 0.01), 0.05), "faster"
    assert not is_time_regression(a_change(1.5, math.nan), 0.05), "no interval"


def test_an_interval_beyond_all_numbers_is_still_one() -> None:
    found = a_change(1.0, 5000.0).interval()
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < 1 < found.high < math.inf


def test_the_time_of_a_wrong_layer_does_not_count() -> None:
    assert uncounted("pass", None) is None
    assert uncounted("not-comparable", "pass") is None
    assert uncounted("pass", "fail") == "does not count: its check says fail in NEW"
    assert uncounted("error", "fail") == "does not count: its check says error in BASE and fail in NEW"


# -- many pairs of runs, drawn at random ---


def alarms(
    *, slowdown: float, noise: float, replicates: int, fail_above: float, tries: int = 150, row_by_row: bool = False
) -> tuple[float, float]:
    """The share of comparisons with an alarm, and that of rows found, where every row became slower by so much."""
    draw = np.random.default_rng(20261130)
    shape = (2, tries * ROWS, replicates)
    logs = draw.normal(0, noise, shape)  # of the speed-up; the clone strays likewise
    logs[1] -= math.log(slowdown)
    clones = np.abs(draw.normal(0, noise, shape).mean(axis=2))
    means, errors = logs.mean(axis=2), logs.std(axis=2, ddof=1) / math.sqrt(replicates)
    numbers = np.full((1, tries * ROWS), float(replicates))
    base, new = (Runs(mean[None], error[None], numbers) for mean, error in zip(means, errors, strict=True))
    halves = [
        change_half_widths((base, new), np.full(tries * ROWS, corrected_level(number)))
        for number in (1, 1 if row_by_row else ROWS)
    ]
    found = []
    for place in range(tries * ROWS):
        change = Change(
            measure="relative",
            log=float(means[0, place] - means[1, place]),
            half=float(halves[0][place]),
            half_all=float(halves[1][place]),
            noise=0.0 if row_by_row else joint_noise(*np.expm1(clones[:, place]).tolist()),
            numbers=(replicates, replicates),
        )
        found.append(time_verdict(change)[0] == "slower" and is_time_regression(change, fail_above))
    by_try = np.array(found).reshape(tries, ROWS)
    return float(by_try.any(axis=1).mean()), float(by_try.mean())


@pytest.mark.parametrize("noise", [0.003, 0.009, 0.033])
@pytest.mark.parametrize("replicates", [5, 8])
def test_the_same_layer_measured_twice_raises_no_alarm(noise: float, replicates: int) -> None:
    assert alarms(slowdown=1.0, noise=noise, replicates=replicates, fail_above=0.05)[0] == 0
    assert alarms(slowdown=1.0, noise=noise, replicates=replicates, fail_above=0.0)[0] <= 0.05


def test_a_gate_that_looked_at_each_row_alone_would_cry_wolf() -> None:
    assert alarms(slowdown=1.0, noise=0.033, replicates=5, fail_above=0.0, row_by_row=True, tries=400)[0] > 0.02


@pytest.mark.parametrize(
    ("slowdown", "noise", "replicates", "fail_above"),
    [
        (1.03, 0.0015, 5, 0.02),
        (1.07, 0.006, 5, 0.05),
        (1.07, 0.009, 8, 0.05),
        (1.2, 0.02, 5, 0.05),
        (1.2, 0.033, 8, 0.05),
    ],
)
def test_a_slow_down_that_can_be_seen_is_found(
    slowdown: float, noise: float, replicates: int, fail_above: float
) -> None:
    any_row, each_row = alarms(slowdown=slowdown, noise=noise, replicates=replicates, fail_above=fail_above, tries=20)
    assert any_row == 1
    assert each_row > 0.75


def test_a_slow_down_below_the_threshold_is_let_through() -> None:
    assert alarms(slowdown=1.03, noise=0.003, replicates=5, fail_above=0.05, tries=60)[0] == 0
