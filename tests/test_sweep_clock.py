from __future__ import annotations

import pytest
from made_up_runs import make_workload

from profiling.estimate import workload_seconds
from profiling.settings import SweepSettings
from profiling.sweep_clock import SETTLING_S, SweepClock

SETTINGS = SweepSettings(contenders=("custom", "official"), replicates=3)
SHORT, LONG = make_workload(seq_len=7), make_workload(seq_len=4001, d_model=512, num_heads=8)
COST = {workload: workload_seconds(workload, SETTINGS) for workload in (SHORT, LONG)}


class Hand:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_before_anything_is_measured_the_time_left_is_the_estimate() -> None:
    clock = SweepClock([SHORT, LONG], SETTINGS, set(), Hand())
    assert clock.seconds_left() == pytest.approx(3 * (COST[SHORT] + COST[LONG]))


def test_what_was_measured_before_is_not_left() -> None:
    clock = SweepClock([SHORT, LONG], SETTINGS, {(1, 2), (2, 2)}, Hand())
    assert clock.seconds_left() == pytest.approx(3 * COST[SHORT] + COST[LONG])


def test_on_a_machine_three_times_as_slow_the_time_left_grows_towards_three_times_the_estimate() -> None:
    hand = Hand()
    clock = SweepClock([LONG], SETTINGS, set(), hand)
    factors = []
    for left in (2, 1):
        hand.now += 3 * COST[LONG]
        clock.tick(LONG)
        factors.append(clock.seconds_left() / (left * COST[LONG]))
    measured = COST[LONG]
    assert factors[0] == pytest.approx((3 * measured + SETTLING_S) / (measured + SETTLING_S))
    assert 1 < factors[0] < factors[1] < 3


def test_an_invalid_point_costs_nothing() -> None:
    invalid = make_workload(num_heads=3)
    clock = SweepClock([SHORT, invalid], SETTINGS, set(), Hand())
    assert clock.seconds_left() == pytest.approx(3 * COST[SHORT])
    clock.tick(invalid)
    assert clock.seconds_left() == pytest.approx(3 * COST[SHORT])


def test_the_time_left_is_never_negative() -> None:
    clock = SweepClock([SHORT], SETTINGS, {(1, 1), (2, 1), (3, 1)}, Hand())
    clock.tick(SHORT)
    assert clock.seconds_left() == 0.0
