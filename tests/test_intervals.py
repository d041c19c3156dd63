from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.intervals import mean_interval, median_half_width, proportion_interval, t_quantile


@pytest.mark.parametrize(
    ("level", "freedom", "t"),
    [  # from the printed tables
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 4, 2.776),
        (0.95, 7, 2.365),
        (0.95, 30, 2.042),
        (0.99, 4, 4.604),
        (0.90, 9, 1.833),
        (0.98, 3, 4.541),
        (0.95, 1000, 1.962),
    ],
)
def test_students_t_is_that_of_the_tables(level: float, freedom: int, t: float) -> None:
    assert t_quantile(level, freedom) == pytest.approx(t, abs=6e-4)


@given(st.floats(0.01, 0.998), st.integers(1, 200))
def test_students_t_falls_with_the_degrees_of_freedom_and_rises_with_the_level(level: float, freedom: int) -> None:
    assert t_quantile(level, freedom) > t_quantile(level, freedom + 1)
    assert t_quantile(level, freedom) < t_quantile(level + 0.001, freedom)


@pytest.mark.parametrize(("level", "freedom"), [(0.0, 3), (1.0, 3), (0.95, 0), (-0.1, 2), (math.nan, 2)])
def test_a_level_that_is_no_probability_is_refused(level: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        t_quantile(level, freedom)


def test_the_interval_of_a_mean_by_hand() -> None:
    # 1, 2, 3: mean 2, deviation 1, t(2) = 4.3027.
    low, high = mean_interval([1.0, 3.0, 2.0])
    assert (low, high) == (pytest.approx(2 - 4.3027 / math.sqrt(3), abs=1e-4), pytest.approx(2 + 2.4841, abs=1e-3))


def test_one_value_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two numbers, not 1"):
        mean_interval([3.0])


@pytest.mark.parametrize(("num_values", "level"), [(2, 0.95), (5, 0.95), (5, 0.99), (8, 0.9)])
def test_the_interval_of_a_mean_covers_the_truth_as_often_as_it_says(num_values: int, level: float) -> None:
    rng = random.Random(13)
    draws = 4000
    hits = 0
    for _ in range(draws):
        low, high = mean_interval([rng.gauss(0.3, 2.0) for _ in range(num_values)], level)
        hits += low <= 0.3 <= high
    assert abs(hits / draws - level) < 3.5 * math.sqrt(level * (1 - level) / draws)


def test_the_interval_of_a_median_runs_between_the_textbook_ranks() -> None:
    # 95 % for 20 values: ranks 6 and 15; for 50: ranks 18 and 33 (rounded outwards here).
    assert median_half_width(list(range(1, 21))) == (15 - 6) / 2
    assert median_half_width(list(range(1, 51))) == (33 - 18) / 2


def test_the_interval_of_few_values_is_all_of_them() -> None:
    assert median_half_width([3.0, 1.0, 2.0]) == 1.0


def test_the_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    rng = random.Random(7)
    hits, draws = 0, 1000
    for _ in range(draws):
        values = sorted(rng.lognormvariate(0.0, 1.0) for _ in range(31))
        half = median_half_width(values)
        # The interval runs between two order statistics; find it by its width, then look whether 1 lies in it.
        low, high = next((values[i], values[30 - i]) for i in range(16) if (values[30 - i] - values[i]) / 2 == half)
        hits += low <= 1.0 <= high
    assert 0.93 < hits / draws <= 1.0


@pytest.mark.parametrize(
    ("num_hits", "num_tries", "low", "high"),
    [  # by hand from Wilson's formula, z = 1.95996
        (0, 20, 0.0, 0.1611),
        (5, 100, 0.0215, 0.1118),
        (7, 7, 0.6457, 1.0),
    ],
)
def test_the_interval_of_a_share_is_wilsons(num_hits: int, num_tries: int, low: float, high: float) -> None:
    assert proportion_interval(num_hits, num_tries) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize(("num_hits", "num_tries"), [(-1, 3), (4, 3), (0, 0)])
def test_a_count_that_is_none_is_refused(num_hits: int, num_tries: int) -> None:
    with pytest.raises(ValueError, match="num_hits must lie between 0 and num_tries"):
        proportion_interval(num_hits, num_tries)
