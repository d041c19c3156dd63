from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.ratios import join_replicates, log_ratios, median_half_width, paired_speedup, speed_verdict

TIMES = st.floats(1e-7, 1e3)
ROUNDS = st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=50)


def test_speedup_is_the_median_of_the_ratios_of_each_round() -> None:
    # Ratios 2, 3 and 5; a mean or a ratio of medians (7 / 2) would say otherwise.
    assert paired_speedup([4.0, 6.0, 35.0], [2.0, 2.0, 7.0]) == pytest.approx(3.0)


def test_an_even_number_of_rounds_takes_the_geometric_middle() -> None:
    assert paired_speedup([2.0, 8.0], [1.0, 1.0]) == pytest.approx(4.0)


def test_drift_that_hits_both_sides_of_a_round_cancels() -> None:
    assert paired_speedup([3.0, 30.0, 300.0], [2.0, 20.0, 200.0]) == pytest.approx(1.5)


@given(ROUNDS)
def test_swapping_contender_and_reference_inverts_the_speedup(rounds: list[tuple[float, float]]) -> None:
    reference, times = zip(*rounds, strict=True)
    assert paired_speedup(reference, times) * paired_speedup(times, reference) == pytest.approx(1.0)


@given(ROUNDS, st.floats(1e-3, 1e3))
def test_the_unit_of_the_times_does_not_matter(rounds: list[tuple[float, float]], scale: float) -> None:
    reference, times = zip(*rounds, strict=True)
    scaled = paired_speedup([scale * t for t in reference], [scale * t for t in times])
    assert scaled == pytest.approx(paired_speedup(reference, times))


@pytest.mark.parametrize(("reference", "times"), [([], []), ([1.0], [1.0, 2.0]), ([1.0], [])])
def test_times_of_different_rounds_are_refused(reference: list[float], times: list[float]) -> None:
    with pytest.raises(ValueError, match="same rounds, at least one"):
        paired_speedup(reference, times)


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


def test_replicates_are_joined_as_logarithms() -> None:
    speedup, low, high = join_replicates([2.0, 0.5])
    assert speedup == pytest.approx(1.0)
    # By hand: mean 0, deviation √2·ln 2, standard error ln 2, t(1) = 12.706.
    assert (low, high) == (pytest.approx(2**-12.706), pytest.approx(2**12.706))


def test_the_interval_of_five_replicates_is_students() -> None:
    speedups = [1.1, 1.2, 1.15, 1.12, 1.18]
    logs = [math.log(s) for s in speedups]
    half = 2.776 * statistics.stdev(logs) / math.sqrt(5)
    _, low, high = join_replicates(speedups)
    assert (low, high) == (
        pytest.approx(math.exp(statistics.fmean(logs) - half)),
        pytest.approx(math.exp(statistics.fmean(logs) + half)),
    )


def test_one_replicate_has_no_interval_and_none_is_an_error() -> None:
    assert join_replicates([1.7]) == (pytest.approx(1.7), None, None)
    with pytest.raises(ValueError, match="at least one replicate"):
        join_replicates([])


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=40))
def test_the_interval_holds_the_speedup_and_mirrors_with_it(speedups: list[float]) -> None:
    speedup, low, high = join_replicates(speedups)
    assert low is not None
    assert high is not None
    assert low <= speedup * (1 + 1e-9)
    assert speedup <= high * (1 + 1e-9)
    mirrored, mirrored_low, mirrored_high = join_replicates([1 / s for s in speedups])
    assert mirrored == pytest.approx(1 / speedup)
    assert math.log(mirrored_low or 0) == pytest.approx(-math.log(high), abs=1e-6)
    assert math.log(mirrored_high or 0) == pytest.approx(-math.log(low), abs=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "floor", "replicates", "verdict"),
    [
        (1.03, 1.10, 0.0, 5, "faster"),
        (0.90, 0.97, 0.0, 5, "slower"),
        (0.99, 1.01, 0.0, 5, "same"),
        (0.97, 1.10, 0.0, 5, "unsure"),
        (1.01, 1.10, 0.0, 5, "unsure"),
        (1.03, 1.10, 0.05, 5, "unsure"),
        (1.06, 1.10, 0.05, 5, "faster"),
        (0.96, 1.04, 0.05, 5, "unsure"),
        (0.99, 1.01, 0.05, 5, "unsure"),
        (1.03, 1.10, 0.0, 4, "provisional"),
        (None, None, 0.0, 1, "provisional"),
    ],
)
def test_a_verdict_needs_an_interval_clear_of_two_percent_and_of_the_noise(
    low: float | None, high: float | None, floor: float, replicates: int, verdict: str
) -> None:
    assert speed_verdict(low, high, floor, replicates) == verdict


@given(st.floats(0.1, 10), st.floats(1.0, 3.0), st.floats(0, 0.5))
def test_swapping_the_sides_turns_faster_into_slower(low: float, width: float, floor: float) -> None:
    high = low * width
    turned = {"faster": "slower", "slower": "faster", "same": "same", "unsure": "unsure"}
    margin = max(0.02, floor)
    edges = [abs(math.log(end)) / math.log1p(margin) for end in (low, high)]
    if all(abs(edge - 1) > 1e-9 for edge in edges):
        verdict = speed_verdict(low, high, floor, 5)
        assert speed_verdict(1 / high, 1 / low, floor, 5) == turned[verdict]


def test_log_ratios_refuse_rounds_of_different_number() -> None:
    with pytest.raises(ValueError, match="argument"):
        log_ratios([1.0, 2.0], [1.0])
