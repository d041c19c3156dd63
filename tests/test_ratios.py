from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.ratios import Joined, join_replicates, log_ratios, paired_speedup, speed_verdict

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


def test_replicates_are_joined_as_logarithms() -> None:
    found = join_replicates([2.0, 0.5])
    assert found.speedup == pytest.approx(1.0)
    # By hand: mean 0, deviation √2·ln 2, standard error ln 2, t(1) = 12.7062.
    assert (found.low, found.high) == (pytest.approx(2**-12.7062, rel=1e-3), pytest.approx(2**12.7062, rel=1e-3))


def test_the_interval_of_five_replicates_is_students() -> None:
    speedups = [1.1, 1.2, 1.15, 1.12, 1.18]
    logs = [math.log(s) for s in speedups]
    half = 2.7764 * statistics.stdev(logs) / math.sqrt(5)
    found = join_replicates(speedups)
    assert (found.low, found.high) == (
        pytest.approx(math.exp(statistics.fmean(logs) - half), rel=1e-5),
        pytest.approx(math.exp(statistics.fmean(logs) + half), rel=1e-5),
    )


def test_the_interval_is_wider_the_more_contenders_are_compared() -> None:
    # Bonferroni: two compared, 97.5 % each, t(4) = 3.4954 in place of 2.7764.
    speedups = [1.1, 1.2, 1.15, 1.12, 1.18]
    alone, of_two = join_replicates(speedups), join_replicates(speedups, num_compared=2)
    assert of_two.speedup == alone.speedup
    widths = [math.log((found.high or 0) / (found.low or 1)) for found in (alone, of_two)]
    assert widths[1] / widths[0] == pytest.approx(3.4954 / 2.7764, rel=1e-4)


@pytest.mark.parametrize(("num_replicates", "num_compared", "spread"), [(3, 1, 0.01), (5, 1, 0.03), (5, 3, 0.02)])
def test_the_intervals_hold_the_truth_of_all_contenders_together_as_often_as_they_say(
    num_replicates: int, num_compared: int, spread: float
) -> None:
    # Between processes a ratio moves as a whole; the intervals of a point's contenders must all be right at once.
    rng = random.Random(11)
    draws, hits, truth = 3000, 0, 1.07
    for _ in range(draws):
        founds = [
            join_replicates([truth * math.exp(rng.gauss(0, spread)) for _ in range(num_replicates)], num_compared)
            for _ in range(num_compared)
        ]
        hits += all(found.holds(truth) for found in founds)
    # 95 %, give or take three standard errors (0.4 % each); Bonferroni may be a little above.
    assert 0.938 <= hits / draws <= 0.965


def test_one_replicate_has_no_interval_and_none_is_an_error() -> None:
    assert join_replicates([1.7]) == Joined(speedup=pytest.approx(1.7), low=None, high=None, num_replicates=1)
    with pytest.raises(ValueError, match="at least one replicate"):
        join_replicates([])


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=40), st.integers(1, 6))
def test_the_interval_holds_the_speedup_and_mirrors_with_it(speedups: list[float], num_compared: int) -> None:
    found = join_replicates(speedups, num_compared)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.speedup * (1 + 1e-9)
    assert found.speedup <= found.high * (1 + 1e-9)
    mirrored = join_replicates([1 / s for s in speedups], num_compared)
    assert mirrored.speedup == pytest.approx(1 / found.speedup)
    assert mirrored.stray == pytest.approx(found.stray, abs=1e-9)
    # As logarithms: of values that span six decades the ends lie beyond what a quotient can hold.
    assert math.log(mirrored.low or 0) == pytest.approx(-math.log(found.high), abs=1e-6)
    assert math.log(mirrored.high or 0) == pytest.approx(-math.log(found.low), abs=1e-6)


def joined(low: float | None, high: float | None, num_replicates: int = 5) -> Joined:
    speedup = 1.0 if low is None or high is None else math.sqrt(low * high)
    return Joined(speedup=speedup, low=low, high=high, num_replicates=num_replicates)


def clone(stray: float) -> Joined:
    """A clone that strayed by that much, with an interval that does not tell it from 1."""
    return Joined(speedup=1 + stray, low=1 / (1 + 2 * stray), high=(1 + stray) ** 2 * (1 + 2 * stray), num_replicates=5)


@pytest.mark.parametrize(
    ("low", "high", "floor", "verdict", "why"),
    [
        (1.03, 1.10, 0.0, "faster", "wholly outside of 1 ± 2 %"),
        (0.90, 0.97, 0.0, "slower", "wholly outside of 1 ± 2 %"),
        (0.99, 1.01, 0.0, "same", "wholly within 1 ± 2 %"),
        (0.97, 1.10, 0.0, "unsure", "0.970 to 1.100 reaches across the edge"),
        (1.01, 1.10, 0.0, "unsure", "more replicates make it narrower"),
        (1.03, 1.10, 0.05, "unsure", "not clear of 1 ± 5 %, by which a clone"),
        (1.06, 1.10, 0.05, "faster", "wholly outside of 1 ± 5 %"),
        (0.96, 1.04, 0.05, "unsure", "by which a clone"),
        (0.99, 1.01, 0.05, "unsure", "by which a clone"),
    ],
)
def test_a_verdict_needs_an_interval_clear_of_two_percent_and_of_the_noise(
    low: float, high: float, floor: float, verdict: str, why: str
) -> None:
    said, reason = speed_verdict(joined(low, high), clone(floor))
    assert said == verdict
    assert why in reason


@pytest.mark.parametrize(("low", "high", "num_replicates"), [(1.3, 1.4, 4), (1.3, 1.4, 2), (None, None, 1)])
def test_below_five_replicates_a_verdict_is_provisional_and_says_how_many_are_missing(
    low: float | None, high: float | None, num_replicates: int
) -> None:
    verdict, reason = speed_verdict(joined(low, high, num_replicates), clone(0.0))
    assert verdict == "provisional"
    missing = 5 - num_replicates
    assert f"{num_replicates} of the 5 replicates needed: {missing} more replicate" in reason
    assert reason.endswith("s" if missing > 1 else "e")


@pytest.mark.parametrize(("low", "high"), [(1.03, 1.05), (0.93, 0.97)])
def test_nothing_is_claimed_where_the_clone_itself_looks_different(low: float, high: float) -> None:
    verdict, reason = speed_verdict(joined(1.5, 1.6), joined(low, high))
    assert verdict == "unsure"
    assert "a clone of the reference differs from it" in reason


@pytest.mark.parametrize("few", [None, Joined(speedup=1.0, low=0.99, high=1.01, num_replicates=4)])
def test_nothing_is_claimed_without_a_clone_in_as_many_replicates(few: Joined | None) -> None:
    verdict, reason = speed_verdict(joined(1.5, 1.6), few)
    assert verdict == "unsure"
    assert f"measured beside it in {few.num_replicates if few else 0} replicates" in reason


def test_an_interval_holds_what_lies_in_it_and_none_holds_nothing() -> None:
    found = joined(0.9, 1.1)
    assert [found.holds(truth) for truth in (0.89, 0.9, 1.0, 1.1, 1.11)] == [False, True, True, True, False]
    assert not joined(None, None).holds(1.0)


@given(st.floats(0.1, 10), st.floats(1.0, 3.0), st.floats(0, 0.5))
def test_swapping_the_sides_turns_faster_into_slower(low: float, width: float, floor: float) -> None:
    high = low * width
    turned = {"faster": "slower", "slower": "faster", "same": "same", "unsure": "unsure"}
    margin = max(0.02, floor)
    edges = [abs(math.log(end)) / math.log1p(margin) for end in (low, high)]
    if all(abs(edge - 1) > 1e-9 for edge in edges):
        verdict, _ = speed_verdict(joined(low, high), clone(floor))
        assert speed_verdict(joined(1 / high, 1 / low), clone(floor))[0] == turned[verdict]


@pytest.mark.parametrize(("speedup", "stray"), [(1.25, 0.25), (0.8, 0.25), (1.0, 0.0)])
def test_a_ratio_strays_as_far_as_its_inverse(speedup: float, stray: float) -> None:
    assert Joined(speedup=speedup, low=None, high=None, num_replicates=1).stray == pytest.approx(stray)


def test_log_ratios_refuse_rounds_of_different_number() -> None:
    with pytest.raises(ValueError, match="argument"):
        log_ratios([1.0, 2.0], [1.0])


@given(st.lists(st.floats(min_value=5e-324, max_value=1.7e308), min_size=1, max_size=5))
def test_no_ratios_whatever_are_too_far_apart_to_be_joined(speedups: list[float]) -> None:
    found = join_replicates(speedups, 3)
    assert 0 < found.speedup < math.inf
    assert found.stray >= 0
    assert speed_verdict(found, found)[0]
