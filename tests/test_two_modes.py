"""Times that fall into two groups are told, and those that only scatter are not, however they do."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.measuring.disturbance.two_modes import MIN_SAMPLES, TwoModes, two_modes

Draw = Callable[[random.Random], float]


def share_told(draw: Draw, num_samples: int, num_runs: int = 400) -> float:
    rng = random.Random(7)
    told = [two_modes([draw(rng) for _ in range(num_samples)]) for _ in range(num_runs)]
    return sum(modes is not None for modes in told) / num_runs


def lognormal(sigma: float) -> Draw:
    return lambda rng: 3.0 * math.exp(rng.gauss(0, sigma))


def skewed_with_outliers(rng: random.Random) -> float:
    usual = math.exp(rng.gauss(0, 0.02)) + rng.expovariate(20)
    return usual * (rng.uniform(2, 10) if rng.random() < 0.03 else 1)


def mixed(apart: float, spread: float, slow_share: float, outliers: float = 0.0) -> Draw:
    def draw(rng: random.Random) -> float:
        usual = (1 + apart * (rng.random() < slow_share)) * math.exp(rng.gauss(0, spread))
        return usual * (rng.uniform(2, 10) if rng.random() < outliers else 1)

    return draw


@pytest.mark.parametrize("num_samples", [20, 53, 199])
@pytest.mark.parametrize(
    "draw",
    [
        lognormal(0.01),
        lognormal(0.1),
        lognormal(0.5),
        lambda rng: rng.uniform(1, 1.2),
        lambda rng: rng.uniform(1, 3),
        lambda rng: 1 + rng.expovariate(10),
        lambda rng: 1 + rng.expovariate(1),
        skewed_with_outliers,
    ],
)
def test_times_that_scatter_in_one_group_are_told_as_two_in_at_most_two_of_a_hundred_runs(
    draw: Draw, num_samples: int
) -> None:
    assert share_told(draw, num_samples) <= 0.02


@pytest.mark.parametrize("num_samples", [20, 53, 199])
@pytest.mark.parametrize("outliers", [0.0, 0.03])
def test_two_groups_ten_per_cent_apart_are_found(num_samples: int, outliers: float) -> None:
    assert share_told(mixed(0.1, 0.01, 0.5, outliers), num_samples) >= 0.95


def test_a_group_too_small_or_too_near_is_none() -> None:
    assert share_told(mixed(0.1, 0.01, 0.08), 199) <= 0.01
    assert share_told(mixed(0.04, 0.002, 0.5), 199) <= 0.01


def test_how_far_apart_they_are_and_how_many_are_slow_is_told() -> None:
    assert two_modes([2.0, 2.0, 2.3, 2.0, 2.0] * 5) == TwoModes(pytest.approx(0.15), 0.2)
    assert two_modes([2.3, 2.3, 2.0, 2.3, 2.0] * 5) == TwoModes(pytest.approx(0.15), 0.6)


@given(st.integers(-9, 9))
def test_the_unit_of_the_times_is_of_no_account(power: int) -> None:
    times = [2.0, 2.01, 2.31, 2.3, 1.99] * 7
    here, there = two_modes(times), two_modes([time * 10.0**power for time in times])
    assert here is not None
    assert there is not None
    assert there.apart == pytest.approx(here.apart)
    assert there.slow_share == here.slow_share == 0.4


@pytest.mark.parametrize("times", [[], [1.0], [1.0, 2.0] * (MIN_SAMPLES // 2 - 1), [0.0, 1.0] * 20, [1.0] * 40])
def test_few_times_equal_times_and_a_clock_that_stands_still_are_no_groups(times: list[float]) -> None:
    assert two_modes(times) is None
