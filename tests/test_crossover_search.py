from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiling.child_process import ChildStopped, MeasuringError
from profiling.laws.crossover import search
from profiling.laws.crossover_answer import Crossover, crossover_dict, crossover_words, probe_words
from profiling.laws.crossover_search import LOST, Plan, Probe, Step, first_sizes, next_step
from profiling.stopping import StopSwitch
from profiling.workload import GridError

PLAN = Plan(low=64, high=4096, step=32)


def jitter(number: int, spread: float) -> float:
    return math.exp(spread * (-1) ** number)


@dataclasses.dataclass
class Machine:
    """Measures planted ratios: a curve, a spread between replicates, and reasons why sizes are lost."""

    curve: Callable[[int], float]
    spread: float = 0.001
    lost: Callable[[int], str] = lambda _: ""
    clone: float = 1.0

    def __post_init__(self) -> None:
        self.steps: list[Step] = []

    def __call__(self, step: Step) -> tuple[list[Probe], Path | None]:
        self.steps.append(step)
        return [self._probe(size, step.replicates) for size in step.sizes], Path(f"run-{len(self.steps)}")

    def _probe(self, size: int, replicates: int) -> Probe:
        if reason := self.lost(size):
            return Probe(size=size, lost=reason)
        ratios = tuple(self.curve(size) * jitter(number, self.spread) for number in range(replicates))
        return Probe(size=size, ratios=ratios, clones=(self.clone,) * replicates)


def find(machine: Machine, plan: Plan = PLAN, **options: Any) -> Crossover:
    return search("custom-fused", "official", "seq_len", plan, machine, **options)


# -- a size -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratios", "clones", "sign"),
    [
        ((1.10, 1.11, 1.12), (), "faster"),
        ((0.80, 0.81, 0.82), (), "slower"),
        ((1.001, 1.0, 0.999), (), "same"),
        ((1.10, 1.11, 0.90), (), "unsure"),
        ((1.03, 1.031, 1.032), (1.05, 1.05, 1.05), "unsure"),  # the clone strays as far
        ((1.30, 1.31, 1.32), (1.20, 1.20, 1.20), "unsure"),  # something besides the layers differs
        ((1.30,), (), "unsure"),
        ((), (), "lost"),
    ],
)
def test_a_sign_is_claimed_where_the_interval_lies_outside_of_the_noise(
    ratios: tuple[float, ...], clones: tuple[float, ...], sign: str
) -> None:
    assert Probe(size=7, ratios=ratios, clones=clones).sign == sign


def test_two_looks_at_a_size_widen_its_interval() -> None:
    # Three replicates at 1 - 0.05/2: t is 6.2053 instead of 4.3027.
    joined = Probe(size=7, ratios=(math.exp(0.1), math.exp(0.2), math.exp(0.3))).ratio
    assert joined is not None
    assert joined.high is not None
    assert math.log(joined.high) - 0.2 == pytest.approx(6.2053 * 0.1 / math.sqrt(3), rel=1e-4)


def test_replicates_of_two_runs_are_joined_and_what_was_measured_stays() -> None:
    one, two = Probe(size=7, ratios=(1.1, 1.2), clones=(1.0,)), Probe(size=7, lost="custom: oom: too large")
    both = one.joined_with(two)
    assert (both.ratios, both.clones, both.lost) == ((1.1, 1.2), (1.0,), "custom: oom: too large")
    assert both.sign != LOST


# -- the search -------------------------------------------------------------------------------------------------------


def test_the_first_sizes_spread_evenly_on_a_logarithmic_scale() -> None:
    assert first_sizes(PLAN) == (64, 192, 512, 1440, 4096)
    assert first_sizes(Plan(low=2, high=3)) == (2, 3)
    assert first_sizes(Plan(low=1, high=56, choices=(1, 2, 4, 7, 8, 14, 28, 56))) == (1, 2, 7, 14, 56)


def test_a_planted_crossover_is_found_between_its_neighbours() -> None:
    # Faster where S > 371.
    machine = Machine(lambda size: size / 371)
    found = find(machine)
    assert (found.kind, found.winner, found.from_size) == ("from", "custom-fused", 384)
    before, after = found.changes[0]
    assert (before.size, after.size) == (352, 384)
    answer = " ".join(crossover_words(found))
    assert answer == (
        "custom-fused is faster from seq_len 384 on: at 352 still slower (0.95 [0.95, 0.95]), at 384 faster "
        "(1.04 [1.03, 1.04]); 5 replicates each"
    )
    assert len(machine.steps) <= 9
    assert found.folders[0] == "run-1"


def test_the_second_contender_can_be_the_one_that_wins() -> None:
    found = find(Machine(lambda size: 900 / size))
    assert (found.kind, found.winner) == ("from", "official")
    assert found.from_size is not None
    assert 900 < found.from_size < 1000
    # Told as the winner's ratio, so that it is below 1 before and above 1 after.
    assert " still slower (0." in crossover_words(found)[0]
    assert " faster (1." in crossover_words(found)[0]


@given(st.integers(70, 4000), st.floats(0.3, 2.0))
@settings(max_examples=40)
def test_every_planted_crossover_is_bracketed_as_exactly_as_asked_or_its_noise_is_told(at: int, power: float) -> None:
    found = find(Machine(lambda size: (size / at) ** power, spread=0.0001))
    told = [probe for probe in found.told if probe.sign == "slower"], [p for p in found.told if p.sign == "faster"]
    assert all(probe.size < at for probe in told[0])
    assert all(probe.size > at for probe in told[1])
    if found.kind == "from":
        before, after = found.changes[0]
        sizes = [probe.size for probe in found.probes if before.size <= probe.size <= after.size]
        for smaller, larger in itertools.pairwise(sizes):
            signs = {probe.sign in ("slower", "faster") for probe in found.probes if probe.size in (smaller, larger)}
            assert larger - smaller <= max(32, 0.1 * larger) or signs == {False} or found.stopped


def test_where_one_always_wins_nothing_is_bisected() -> None:
    machine = Machine(lambda size: 1.2 + size / 10_000)
    found = find(machine)
    assert (found.kind, found.from_size, len(machine.steps)) == ("always", None, 1)
    assert crossover_words(found) == [
        "custom-fused is always faster than official at 5 sizes of seq_len from 64 to 4,096 (nearest to even at 64: "
        "1.21 [1.20, 1.21]; 5 replicates each)"
    ]
    never = find(Machine(lambda _: 0.5))
    assert never.kind == "never"
    assert "custom-fused is never faster than official" in crossover_words(never)[0]
    assert "nearest to even at 64: 2.00" in crossover_words(never)[0]


def test_an_uncertain_sign_gets_more_replicates_once_and_then_counts_as_noise() -> None:
    machine = Machine(lambda size: 0.8 if size < 200 else 1.3 if size > 2000 else 1.01, spread=0.06)
    found = find(machine, dataclasses.replace(PLAN, max_sizes=7))
    first, second = machine.steps[:2]
    assert (first.sizes, first.replicates) == ((64, 192, 512, 1440, 4096), 5)
    assert (second.sizes, second.replicates) == ((512, 1440), 5)
    assert all(len(probe.ratios) == 10 for probe in found.probes if probe.sign == "unsure")
    (answer, *_) = crossover_words(found)
    assert "in between cannot be told: both are within noise at" in answer


def test_where_all_is_noise_nothing_is_told() -> None:
    found = find(Machine(lambda _: 1.01, spread=0.08))
    assert (found.kind, found.winner) == ("untold", None)
    assert "cannot be told: at 5 sizes of seq_len from 64 to 4,096 both are within noise" in crossover_words(found)[0]
    assert "; 10 replicates each" in crossover_words(found)[0]


def test_a_tie_is_no_reason_for_more_replicates() -> None:
    machine = Machine(lambda _: 1.001)
    assert find(machine).kind == "untold"
    assert len(machine.steps) == 1


def test_a_sign_that_changes_twice_is_told_and_not_hidden() -> None:
    found = find(Machine(lambda size: 1.2 if 150 < size < 1000 else 0.8))
    assert len(found.changes) == 2
    words = crossover_words(found)
    assert words[0].startswith("official is faster from seq_len")
    assert words[1].startswith("the sign does not change once but 2 times: official at ")
    assert "; custom-fused at 992, official at 1,056" in words[1]


@pytest.mark.parametrize(("before", "after"), [(0.8, 1.2), (1.2, 0.8)])
@pytest.mark.parametrize("later", [1.0, 1.015, 0.985])
def test_a_winner_that_does_not_win_to_the_end_is_told_with_its_end(before: float, after: float, later: float) -> None:
    found = find(Machine(lambda size: before if size < 150 else after if size < 1000 else later))
    assert (found.kind, len(found.changes)) == ("from", 1)
    assert found.to_size is not None
    assert found.from_size is not None
    assert found.from_size < found.to_size < 1000
    said = crossover_words(found)[0]
    assert said.startswith(f"{found.winner} is faster from seq_len {found.from_size} to {found.to_size}: ")
    assert "within noise again at" in said
    assert "4,096" in said
    assert crossover_dict(found)["to_size"] == found.to_size


def test_memory_that_ends_bounds_the_search_and_is_told() -> None:
    machine = Machine(
        lambda size: 0.9 + 0 * size, lost=lambda size: "official: oom: asked for 9 GiB" if size > 1800 else ""
    )
    found = find(machine)
    assert found.kind == "never"
    measured = max(probe.size for probe in found.measured)
    assert 1600 < measured <= 1800
    lost = [probe.size for probe in found.probes if probe.sign == LOST]
    assert min(lost) - measured <= 0.1 * min(lost)
    assert "nothing is known of seq_len" in crossover_words(found)[1]
    assert "official: oom: asked for 9 GiB" in crossover_words(found)[1]
    # Once both signs are seen, how far memory reaches is nobody's question here.
    crossed = Machine(lambda size: size / 300, lost=lambda size: "official: oom: x" if size > 1800 else "")
    assert [probe.size for probe in find(crossed).probes if probe.sign == LOST] == [4096]


def test_where_nothing_can_be_measured_that_is_the_answer() -> None:
    found = find(Machine(lambda _: 1.0, lost=lambda _: "custom-fused: error: broken"))
    assert found.kind == "untold"
    assert crossover_words(found) == [
        "whether custom-fused or official is faster cannot be told: at no seq_len were both measured",
        "nothing is known of seq_len 64: custom-fused: error: broken, and at 4 further sizes",
    ]


def test_fewer_than_five_replicates_are_provisional() -> None:
    found = find(Machine(lambda _: 1.5), dataclasses.replace(PLAN, replicates=2, max_replicates=3))
    assert crossover_words(found)[-1] == "provisional: 2 of the 5 replicates needed"


# -- its end ----------------------------------------------------------------------------------------------------------


def test_a_spent_budget_ends_the_search_with_what_is_known() -> None:
    seconds = iter([0.0, 10.0, 110.0])
    found = find(Machine(lambda size: size / 371), budget_s=100.0, clock=lambda: next(seconds))
    assert len(found.folders) == 1
    assert (found.kind, found.from_size) == ("from", 512)
    assert crossover_words(found)[-1] == "the search ended early: the 100 s for it were spent"


def test_a_stop_tells_what_is_known_so_far() -> None:
    stop, machine = StopSwitch(), Machine(lambda size: size / 371)

    def interrupted(step: Step) -> tuple[list[Probe], Path | None]:
        if len(machine.steps) == 2:
            stop.request("stopped by SIGINT")
            raise ChildStopped
        return machine(step)

    found = search("a", "b", "seq_len", PLAN, interrupted, stop=stop)
    assert len(found.folders) == 2
    assert found.kind == "from"
    assert crossover_words(found)[-1] == "the search ended early: stopped by SIGINT"


def test_a_fault_of_the_machine_ends_the_search_but_loses_nothing() -> None:
    machine = Machine(lambda size: size / 371)

    def faulty(step: Step) -> tuple[list[Probe], Path | None]:
        if machine.steps:
            raise MeasuringError("no measuring process can be started")
        return machine(step)

    assert search("a", "b", "seq_len", PLAN, faulty).stopped == "no measuring process can be started"
    machine.steps = [Step((1,), 1)]
    with pytest.raises(MeasuringError):
        search("a", "b", "seq_len", PLAN, faulty)


def test_a_step_that_brings_nothing_is_not_asked_for_again() -> None:
    calls = []

    def mute(step: Step) -> tuple[list[Probe], Path | None]:
        calls.append(step)
        return [], None

    assert search("a", "b", "seq_len", PLAN, mute).stopped == "the last step measured nothing"
    assert len(calls) == 1


def test_the_search_always_ends_within_its_sizes() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        signs = rng.choice([0.8, 1.0, 1.3], size=200)
        found = find(Machine(lambda size, signs=signs: float(signs[size % 200]), spread=0.01))
        assert len(found.probes) <= PLAN.max_sizes


def test_a_layer_against_a_copy_of_itself_seldom_seems_to_cross() -> None:
    rng = np.random.default_rng(4)
    crossed = claimed = 0
    for _ in range(60):

        def measure(step: Step) -> tuple[list[Probe], Path | None]:
            drawn = [np.exp(rng.normal(0, 0.02, (2, step.replicates))) for _ in step.sizes]
            found = [
                Probe(size=size, ratios=tuple(map(float, two[0])), clones=tuple(map(float, two[1])))
                for size, two in zip(step.sizes, drawn, strict=True)
            ]
            return found, None

        found = search("a", "b", "seq_len", PLAN, measure)
        crossed += found.kind == "from"
        claimed += len(found.told)
    assert crossed <= 1
    assert claimed <= 6  # of 300 sizes and more


def test_a_noisy_crossover_is_bracketed_by_what_is_told() -> None:
    rng = np.random.default_rng(8)
    right = told = 0
    for _ in range(40):

        def measure(step: Step) -> tuple[list[Probe], Path | None]:
            noise = [np.exp(rng.normal(0, 0.02, (2, step.replicates))) for _ in step.sizes]
            return [
                Probe(
                    size=size,
                    ratios=tuple(float(each) * (size / 700) ** 0.5 for each in two[0]),
                    clones=tuple(map(float, two[1])),
                )
                for size, two in zip(step.sizes, noise, strict=True)
            ], None

        found = search("a", "b", "seq_len", PLAN, measure)
        if found.kind == "from":
            told += 1
            before, after = found.changes[-1]
            right += before.size < 700 < after.size and after.size <= 3 * before.size
    assert told >= 38
    assert right >= told - 2


def test_head_counts_are_chosen_from_those_that_divide_the_width() -> None:
    choices = (1, 2, 4, 8, 16, 32, 64)
    found = find(Machine(lambda size: size / 6), Plan(low=1, high=64, choices=choices))
    assert {probe.size for probe in found.probes} <= set(choices)
    assert found.from_size == 8


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"low": 9, "high": 9}, "from a smaller size to a larger, not from 9 to 9"),
        ({"within": 1.0}, "within must lie between 0 and 1, not 1.0"),
        ({"replicates": 1}, "replicates must be at least 2, which is what an interval needs, not 1"),
        ({"replicates": 6, "max_replicates": 5}, "max_replicates must be at least replicates, 6, not 5"),
        ({"step": 0}, "step must be a whole number of at least 1, not 0"),
        ({"choices": (7,)}, "choices must be at least two sizes"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(GridError, match=words):
        dataclasses.replace(PLAN, **changes)


def test_the_next_step_depends_on_nothing_but_what_is_known() -> None:
    known = [Probe(size=size, ratios=(0.8, 0.81, 0.8)) for size in first_sizes(PLAN)]
    assert next_step(known, PLAN) is None
    known[-1] = Probe(size=4096, ratios=(1.2, 1.21, 1.2))
    assert next_step(reversed(known), PLAN) == next_step(known, PLAN) == Step((2432,), 5)


def test_an_answer_for_machines_holds_every_size_and_run() -> None:
    told = crossover_dict(find(Machine(lambda size: size / 371)))
    assert (told["kind"], told["to_size"]) == ("from", None)
    assert told["probes"][0]["size"] == 64
    assert told["probes"][0]["ratio_low"] < told["probes"][0]["ratio"] < told["probes"][0]["ratio_high"] < 1
    assert told["runs"][0] == "run-1"
    assert told["stopped"] is None


def test_a_measured_size_is_told_as_it_comes() -> None:
    probe = Probe(size=384, ratios=(1.05, 1.06, 1.05))
    assert probe_words(probe, "a", "b").startswith("at 384 a faster than b (1.05 [1.0")
    assert probe_words(Probe(size=9, lost="a: oom: big"), "a", "b") == "at 9 not compared: a: oom: big"
