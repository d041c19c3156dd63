from __future__ import annotations

import gc
import random
from collections.abc import Callable

import pytest

from profiling.measuring.devices import Cpu
from profiling.measuring.latency import (
    MIN_ROUNDS_FOR_INTERVAL,
    SAMPLE_S,
    calls_per_sample,
    measure_rounds,
    warm_up,
)
from profiling.settings import MIN_ROUNDS

MS = 1_000_000


class Clock:
    """A clock that only the calls move, and what ran in which order."""

    def __init__(self) -> None:
        self.now = 0
        self.ran: list[str] = []

    def __call__(self) -> int:
        return self.now

    def call(self, name: str, *milliseconds: float) -> Callable[[], None]:
        """A call that takes so long; several times are taken in turn, the last for ever."""
        left = list(milliseconds)

        def run() -> None:
            self.ran.append(name)
            self.now += round((left.pop(0) if len(left) > 1 else left[0]) * MS)

        return run


class Flushing(Cpu):
    """A CPU that notes when its cache is flushed."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.ran = clock.ran

    def flush_cache(self) -> None:
        self.ran.append("flush")


def rounds_of(
    clock: Clock, times_ms: dict[str, float], *, budget_s: float = 1.0, pairs: dict[str, str] | None = None
) -> object:
    return measure_rounds(
        {name: clock.call(name, ms) for name, ms in times_ms.items()},
        pairs or {},
        Cpu(clock),
        budget_s=budget_s,
        rng=random.Random(7),
        call_s={name: ms / 1e3 for name, ms in times_ms.items()},
        on_sample=lambda _: None,
    )


def test_a_sample_is_the_time_of_one_call_as_the_clock_tells_it() -> None:
    rounds = rounds_of(Clock(), {"quick": 0.5, "slow": 7.0}, budget_s=0.05)
    assert rounds.calls_per_sample == {"quick": 8, "slow": 1}
    assert set(rounds.samples["quick"]) == {0.0005}
    assert set(rounds.samples["slow"]) == {0.007}


def test_every_round_runs_every_contender_once_in_an_order_of_its_own() -> None:
    clock = Clock()
    rounds = rounds_of(clock, {"a": 7.0, "b": 7.0, "c": 7.0}, budget_s=0.2)
    orders = [tuple(clock.ran[i : i + 3]) for i in range(0, len(clock.ran), 3)]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert len(set(orders)) > 2
    assert len(orders) == len(rounds.samples["a"]) == len(rounds.samples["c"])


def test_the_same_seed_gives_the_same_order() -> None:
    first, second = Clock(), Clock()
    for clock in (first, second):
        rounds_of(clock, {"a": 7.0, "b": 11.0, "c": 5.0})
    assert first.ran == second.ran


def test_there_are_five_rounds_however_slow() -> None:
    rounds = rounds_of(Clock(), {"a": 5_000.0, "b": 7_000.0}, budget_s=0.1)
    assert len(rounds.samples["a"]) == MIN_ROUNDS == 5


def test_the_budget_is_seconds_of_samples_per_contender() -> None:
    # A round of two contenders takes 10 + 30 ms, so 20 ms of each one's share: 0.4 s are 20 rounds.
    rounds = rounds_of(Clock(), {"a": 10.0, "b": 30.0}, budget_s=0.4)
    assert len(rounds.samples["a"]) == 20
    assert rounds.stop_reason == "time budget of 0.4 s spent"


def test_rounds_end_once_the_ratio_is_known() -> None:
    rounds = rounds_of(Clock(), {"a": 10.0, "b": 30.0}, budget_s=100.0, pairs={"a": "b"})
    assert len(rounds.samples["a"]) == MIN_ROUNDS_FOR_INTERVAL
    assert rounds.stop_reason == "interval within 1 %"


def test_rounds_do_not_end_while_the_ratio_strays() -> None:
    clock = Clock()
    rng = random.Random(3)
    calls = {
        "a": clock.call("a", *(10 * rng.uniform(0.5, 2) for _ in range(5000))),
        "b": clock.call("b", 10.0),
    }
    rounds = measure_rounds(
        calls, {"a": "b"}, Cpu(clock), budget_s=0.9, rng=rng, call_s={"a": 0.01, "b": 0.01}, on_sample=lambda _: None
    )
    assert rounds.stop_reason == "time budget of 0.9 s spent"


def test_a_short_call_is_primed_by_one_that_is_not_timed_and_the_cache_flushed_in_between() -> None:
    clock = Clock()
    measure_rounds(
        {"a": clock.call("a", 9.0, 0.5, 9.0, 0.5, 9.0, 0.5, 9.0, 0.5, 9.0, 0.5)},
        {},
        Flushing(clock),
        budget_s=1e-3,
        rng=random.Random(7),
        call_s={"a": 0.0009},
        on_sample=lambda _: None,
    )
    assert clock.ran[:7] == ["a", "flush", *["a"] * 5]
    assert calls_per_sample(0.0009, 1e-7) == 5


def test_a_long_call_is_not_primed() -> None:
    clock = Clock()
    rounds_of(clock, {"a": 7.0}, budget_s=0.01)
    assert clock.ran == ["a"] * 5


def test_who_is_about_to_run_is_told_before() -> None:
    clock = Clock()
    measure_rounds(
        {"a": clock.call("a", 7.0), "b": clock.call("b", 7.0)},
        {},
        Cpu(clock),
        budget_s=0.01,
        rng=random.Random(7),
        call_s={"a": 0.007, "b": 0.007},
        on_sample=lambda name: clock.ran.append(f"about to run {name}"),
    )
    for said, ran in zip(clock.ran[::2], clock.ran[1::2], strict=True):
        assert said == f"about to run {ran}"


@pytest.mark.parametrize("was_enabled", [True, False])
def test_garbage_collection_is_off_during_rounds_and_as_before_after_them(was_enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    seen: list[bool] = []

    def call() -> None:
        seen.append(gc.isenabled())
        if len(seen) == 3:
            raise RuntimeError("a layer's fault")

    try:
        with pytest.raises(RuntimeError, match="a layer's fault"):
            measure_rounds(
                {"a": call},
                {},
                Cpu(),
                budget_s=1.0,
                rng=random.Random(7),
                call_s={"a": 1.0},
                on_sample=lambda _: None,
            )
        assert seen == [False] * 3
        assert gc.isenabled() == was_enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_a_sample_lasts_long_enough_to_be_timed() -> None:
    for call_s in (1e-9, 1e-7, 3e-6, 1e-3, 3.9e-3):
        assert calls_per_sample(call_s, 1e-7) * max(call_s, 1e-7) >= SAMPLE_S
    assert calls_per_sample(0.004, 1e-7) == calls_per_sample(60.0, 1e-7) == 1


@pytest.mark.parametrize(("step_s", "num_calls"), [(1e-7, 4), (4e-5, 4), (1.5e-4, 15), (1e-3, 100)])
def test_a_sample_lasts_a_hundred_steps_of_the_clock(step_s: float, num_calls: int) -> None:
    assert calls_per_sample(0.001, step_s) == num_calls


def test_the_clock_of_the_device_decides_how_many_calls_make_a_sample() -> None:
    class Coarse(Cpu):
        clock_step_s = 1e-3

    clock = Clock()
    rounds = measure_rounds(
        {"a": clock.call("a", 7.0)},
        {},
        Coarse(clock),
        budget_s=0.01,
        rng=random.Random(7),
        call_s={"a": 0.007},
        on_sample=lambda _: None,
    )
    assert rounds.calls_per_sample == {"a": 15}
    assert rounds.shortest_s == pytest.approx(0.105)


def test_page_faults_are_those_of_the_timed_calls_alone() -> None:
    clock, faults = Clock(), [0]

    def faulting(name: str, each: int, ms: float) -> Callable[[], None]:
        run = clock.call(name, ms)

        def call() -> None:
            run()
            faults[0] += each

        return call

    rounds = measure_rounds(
        {"a": faulting("a", 3, 0.8), "b": faulting("b", 11, 7.0)},
        {},
        Cpu(clock),
        budget_s=0.01,
        rng=random.Random(7),
        call_s={"a": 0.0008, "b": 0.007},  # the first is primed by a call that is not timed
        on_sample=lambda _: faults.__setitem__(0, faults[0] + 1000),
        count_faults=lambda: faults[0],
    )
    assert rounds.calls_per_sample == {"a": 5, "b": 1}
    assert rounds.faults_per_call == {"a": 3.0, "b": 11.0}


def test_faults_that_are_not_counted_are_empty_not_none_at_all() -> None:
    clock = Clock()
    rounds = measure_rounds(
        {"a": clock.call("a", 7.0)},
        {},
        Cpu(clock),
        budget_s=0.01,
        rng=random.Random(7),
        call_s={"a": 0.007},
        on_sample=lambda _: None,
        count_faults=lambda: None,
    )
    assert rounds.faults_per_call == {"a": None}


def test_warming_up_leaves_the_first_call_out_of_its_guess() -> None:
    clock = Clock()
    assert warm_up(clock.call("a", 0.001, 5.0, 3.0), Cpu(clock), 0.0) == 0.003
    assert len(clock.ran) == 3


def test_warming_up_goes_on_for_a_tenth_of_the_budget() -> None:
    clock = Clock()
    warm_up(clock.call("a", 15.625), Cpu(clock), 1.25)
    assert len(clock.ran) == 8


def test_warming_up_a_call_that_takes_no_time_ends() -> None:
    clock = Clock()
    warm_up(clock.call("a", 0.0), Cpu(clock), 1.0)
    assert len(clock.ran) == 1000
