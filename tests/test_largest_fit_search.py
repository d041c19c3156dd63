from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import make_workload

from profiling.child_process import ChildStopped, MeasuringError
from profiling.estimate import call_seconds
from profiling.laws.fit_search import FitPlan, Tried, next_size, predicted_size
from profiling.laws.fit_words import largest_dict, largest_words, tried_words
from profiling.laws.largest_fit import (
    LargestFit,
    find_largest,
    guessed_mib,
    guessed_size,
    room_of,
    safe_size,
)
from profiling.memory_estimate import CHILD_BASE_MIB
from profiling.stopping import StopSwitch
from profiling.workload import GridError

WORKLOAD = make_workload(batch_size=3, num_heads=7, d_model=56)
PLAN = FitPlan(low=64, high=100_000, step=64)


def need(size: int) -> float:
    """MiB: a constant, the tokens and the scores."""
    return 11 + 0.02 * size + 5e-5 * size**2


@dataclasses.dataclass
class Machine:
    """Has so much room, and a process takes what the formula says."""

    room_mib: float
    need: Callable[[int], float] = need
    call_s: float | None = None
    sizes: list[int] = dataclasses.field(default_factory=list)

    def __call__(self, size: int) -> Tried:
        self.sizes.append(size)
        held = self.need(size)
        if held > self.room_mib:
            return Tried(
                size=size, status="oom", reason=f"asked for {held:.0f} MiB: RuntimeError: can't allocate memory"
            )
        return Tried(size=size, peak_mib=held * 0.75, held_mib=held, call_s=self.call_s)


def find(machine: Machine, plan: FitPlan = PLAN, **options: Any) -> LargestFit:
    return find_largest("custom", WORKLOAD, plan, machine, heap="as-is", **{"room_mib": machine.room_mib, **options})


# -- the search -------------------------------------------------------------------------------------------------------


def test_the_longest_sequence_that_fits_is_found_as_exactly_as_asked() -> None:
    machine = Machine(room_mib=2000.0)
    found = find(machine)
    # 5e-5·S² + 0.02·S + 11 = 2000 at 6,110.3.
    assert found.failed is not None
    assert (found.fits or 0) <= 6110 < found.failed.size
    assert found.failed.size - (found.fits or 0) <= 0.05 * found.failed.size
    assert found.law_predicted == 6110
    assert len(machine.sizes) <= 10


def test_it_goes_upwards_from_a_safe_size_by_doubling_at_most_while_all_fits() -> None:
    machine = Machine(room_mib=2000.0)
    found = find(machine)
    assert need(machine.sizes[0]) < 0.05 * machine.room_mib
    first_failure = next((at for at, size in enumerate(machine.sizes) if need(size) > 2000), len(machine.sizes))
    upwards = machine.sizes[: first_failure + 1]
    assert all(smaller < larger <= 2 * smaller for smaller, larger in itertools.pairwise(upwards))
    # Beyond what the law predicts it goes only by what is asked for: nothing far beyond the room is ever asked of it.
    assert max(need(size) for size in machine.sizes) < 1.25 * machine.room_mib
    assert found.stopped == ""


@given(
    st.floats(0, 500), st.floats(0.001, 1), st.floats(0, 1e-3), st.floats(600, 20_000), st.sampled_from([1, 64, 100])
)
def test_whatever_a_layer_takes_the_answer_is_right_and_the_search_ends(
    constant: float, linear: float, square: float, room: float, step: int
) -> None:
    plan = FitPlan(low=100, high=50_000, step=step)
    machine = Machine(room, lambda size: constant + linear * size + square * size**2)
    found = find(machine, plan)
    assert found.stopped == ""
    assert len(set(machine.sizes)) == len(machine.sizes)
    assert all(plan.low <= size <= plan.high for size in machine.sizes)
    if found.fits is None:
        assert machine.need(plan.low) > room
    else:
        assert machine.need(found.fits) <= room
        if found.failed is None:
            assert found.fits == plan.high
        else:
            assert machine.need(found.failed.size) > room
            assert found.failed.size - found.fits <= max(step, 0.05 * found.failed.size)


def test_a_layer_that_jumps_is_closed_in_on_all_the_same() -> None:
    # Another program from 3,000 on, ten times as hungry: no law foresees that.
    machine = Machine(2000.0, lambda size: need(size) * (10 if size > 3000 else 1))
    found = find(machine)
    assert (found.fits or 0) <= 3000
    assert found.failed is not None
    assert 3000 < found.failed.size <= (found.fits or 0) + max(64, 0.05 * found.failed.size)


def test_where_the_first_size_fails_it_goes_down() -> None:
    machine = Machine(room_mib=2000.0, need=lambda size: 100.0 * size)  # far more than is guessed
    assert find(machine, FitPlan(low=4, high=1000, step=1)).fits == 20
    assert machine.sizes[0] > 20


def test_where_not_even_the_shortest_fits_that_is_the_answer() -> None:
    found = find(Machine(room_mib=500.0, need=lambda _: 501.0))
    assert found.fits is None
    assert largest_words(found)[0].startswith(
        "custom was not seen to fit at any seq_len at batch 3, heads 7, d_model 56"
    )


def test_without_a_known_room_it_doubles_until_the_device_refuses() -> None:
    machine = Machine(room_mib=700.0)
    found = find(machine, room_mib=None)
    assert machine.sizes[:3] == [64, 128, 256]
    assert (found.predicted, found.law_predicted) == (None, None)
    assert need(found.fits or 0) <= 700 < need((found.fits or 0) + 256)


def test_where_a_law_foretells_a_length_the_search_starts_there_and_closes_in_around_it() -> None:
    for foretold in (6110, 6110 + 64, 6110 - 64):
        machine = Machine(room_mib=2000.0)
        found = find(machine, predicted=foretold, source="by the memory law of example", starts_there=True)
        assert machine.sizes[0] == foretold // 64 * 64
        assert len(machine.sizes) <= 3
        assert found.failed is not None
        assert (found.fits or 0) <= 6110 < found.failed.size
        assert found.failed.size - (found.fits or 0) <= 0.05 * found.failed.size
    # It goes on from a safe size where nothing would refuse what does not fit.
    machine = Machine(room_mib=2000.0)
    find(machine, predicted=6110, source="by the memory law of example")
    assert machine.sizes[0] < 1000


@given(st.integers(1, 200_000), st.floats(12, 20_000))
def test_a_law_that_is_far_off_misleads_no_search(foretold: int, room: float) -> None:
    machine = Machine(room)
    found = find(machine, predicted=foretold, source="by a law", starts_there=True)
    assert found.stopped == ""
    if found.fits is None:
        assert need(PLAN.low) > room
    else:
        assert need(found.fits) <= room
        assert found.failed is None or found.failed.size - found.fits <= max(64, 0.05 * found.failed.size)


def test_the_next_size_is_none_once_all_is_known() -> None:
    known = [Tried(size=1024), Tried(size=1088, status="oom")]
    assert next_size(known, PLAN, 64, None) is None
    assert next_size([Tried(size=100_000)], PLAN, 64, None) is None
    assert next_size([Tried(size=64, status="oom")], PLAN, 64, None) is None
    assert next_size([], PLAN, 1000, None) == 960


def test_the_law_of_fewer_than_three_sizes_predicts_nothing() -> None:
    fitted = [Tried(size=size, held_mib=need(size)) for size in (64, 128, 256)]
    assert predicted_size(fitted[:2], 2000.0) is None
    assert predicted_size(fitted, None) is None
    assert predicted_size(fitted, 2000.0) == 6110
    assert predicted_size([dataclasses.replace(each, held_mib=None) for each in fitted], 2000.0) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"low": 9, "high": 8}, "from a smaller size to a larger, not from 9 to 8"),
        ({"within": 0.0}, "within must lie between 0 and 1, not 0.0"),
        ({"step": 0}, "step must be a whole number of at least 1, not 0"),
    ],
)
def test_a_search_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(GridError, match=words):
        dataclasses.replace(PLAN, **changes)


# -- the guess --------------------------------------------------------------------------------------------------------


def test_the_guess_counts_scores_tokens_and_weights() -> None:
    # b=3, s=11, h=7, d=56, float32: 10·1,848 tokens, 8·3,136 of weights, 2.5·2,541 scores.
    workload = dataclasses.replace(WORKLOAD, seq_len=11)
    assert guessed_mib(workload, "custom", "as-is") == pytest.approx(4 * (18_480 + 25_088 + 6_352.5) / 2**20)
    assert guessed_mib(workload, "custom-fused", "as-is") == pytest.approx(4 * (18_480 + 25_088) / 2**20)
    assert guessed_mib(workload, "custom", "pinned") > guessed_mib(workload, "custom", "as-is")


@given(st.floats(1, 1e5))
def test_the_guessed_size_is_the_longest_within_the_room(room: float) -> None:
    size = guessed_size(WORKLOAD, "custom", "as-is", room)
    assert guessed_mib(dataclasses.replace(WORKLOAD, seq_len=max(1, size)), "custom", "as-is") <= room
    assert guessed_mib(dataclasses.replace(WORKLOAD, seq_len=size + 1), "custom", "as-is") > room


def test_a_call_may_take_what_torch_leaves_of_what_its_process_may_hold() -> None:
    assert room_of(9_000.0, 211.0) == 8_789
    assert room_of(9_000.0) == 9_000 - CHILD_BASE_MIB
    assert room_of(100.0, 211.0) == 0
    assert room_of(None, 211.0) is None


def test_the_first_size_is_safe_in_memory_and_in_time() -> None:
    small = safe_size(WORKLOAD, "custom", "as-is", 100.0)
    assert guessed_mib(dataclasses.replace(WORKLOAD, seq_len=small), "custom", "as-is") <= 2.0
    # With all the memory of the world and a layer that takes little of it, time is what bounds the first size.
    long = safe_size(WORKLOAD, "custom-fused", "as-is", 1e9)
    assert call_seconds(dataclasses.replace(WORKLOAD, seq_len=long)) <= 0.5
    assert call_seconds(dataclasses.replace(WORKLOAD, seq_len=long + 1)) > 0.5


# -- its end ----------------------------------------------------------------------------------------------------------


def test_a_size_that_would_take_too_long_is_not_tried() -> None:
    found = find(Machine(room_mib=1e9, call_s=20.0), limit_s=60.0)
    assert "would take about" in found.stopped
    assert "and a size may take 1 min" in found.stopped
    words = largest_words(found)
    assert words[0].startswith(f"custom fits at least up to seq_len {found.fits:,} at")
    assert words[-1].startswith("the search ended early: ")


def test_compiling_counts_once_towards_how_long_a_size_would_take() -> None:
    machine = Machine(room_mib=2000.0, call_s=0.001)

    def compiling(size: int) -> Tried:
        return dataclasses.replace(machine(size), compile_s=50.0)

    def search(limit_s: float) -> LargestFit:
        return find_largest("custom", WORKLOAD, PLAN, compiling, heap="as-is", room_mib=2000.0, limit_s=limit_s)

    # At most ten times as long, a few calls of milliseconds and what compiling took: neither less nor ten times that.
    assert "would take about 50 s" in search(49.0).stopped
    assert search(60.0).stopped == ""


def test_a_spent_budget_and_a_stop_tell_what_is_known() -> None:
    seconds = itertools.count(0.0, 30.0)
    spent = find(Machine(room_mib=2000.0), budget_s=100.0, clock=lambda: next(seconds))
    assert len(spent.tried) == 3
    assert spent.stopped == "the 100 s for it were spent"
    stop, machine = StopSwitch(), Machine(room_mib=2000.0)

    def interrupted(size: int) -> Tried:
        if len(machine.sizes) == 2:
            stop.request("stopped by SIGINT")
            raise ChildStopped
        return machine(size)

    stopped = find_largest("custom", WORKLOAD, PLAN, interrupted, heap="as-is", room_mib=2000.0, stop=stop)
    assert (len(stopped.tried), stopped.stopped) == (2, "stopped by SIGINT")


def test_a_fault_of_the_machine_ends_the_search_and_what_is_known_stays() -> None:
    machine = Machine(room_mib=2000.0)

    def faulty(size: int) -> Tried:
        if machine.sizes:
            raise MeasuringError("no measuring process can be started")
        return machine(size)

    found = find_largest("custom", WORKLOAD, PLAN, faulty, heap="as-is", room_mib=2000.0)
    assert (len(found.tried), found.stopped) == (1, "no measuring process can be started")
    with pytest.raises(MeasuringError):
        find_largest("custom", WORKLOAD, PLAN, faulty, heap="as-is", room_mib=2000.0)


# -- words ------------------------------------------------------------------------------------------------------------


def test_the_answer_is_told_with_what_ran_and_what_did_not() -> None:
    found = LargestFit(
        contender="custom",
        workload=make_workload(batch_size=4, num_heads=8, d_model=512),
        tried=(
            Tried(size=11_264, peak_mib=4300.8, limit_mib=6144.0, base_mib=211.0, before_mib=402.0),
            Tried(
                size=11_776,
                status="oom",
                reason="asked for 1.9 GiB: RuntimeError: can't allocate memory",
                asked_mib=1945.6,
                failed_at_mib=4403.2,
            ),
        ),
        predicted=11_900,
        source="by the memory law of example",
        law_predicted=11_800,
        room_mib=5933.0,
        free_mib=8192.0,
        memory_mib=6144.0,
        is_asked=True,
    )
    assert largest_words(found) == [
        "custom fits up to seq_len 11,264 at batch 4, heads 8, d_model 512 (predicted 11,900 by the memory law of "
        "example): 11,264 ran (its call held 4.20 GiB), 11,776 ran out of memory (asked for 1.9 GiB)",
        "the memory law of the shorter ones that ran predicts 11,800",
        "the limit: its process might hold 6.00 GiB in all, as asked, of the 8.00 GiB that were free",
        # 6144 - 402 - 4300.8
        "at 11,264 torch held 211 MiB, the layer and its input 191 MiB, its call at most 4.20 GiB, and the "
        "rest, 1.41 GiB, was free or lay between blocks in use",
        "at 11,776 it was refused 1.90 GiB when it held at least 4.30 GiB",
    ]
    told = largest_dict(found)
    assert (told["fits"], told["predicted"], "seq_len" in told["workload"]) == (11_264, 11_900, False)
    assert (told["memory_mib"], told["room_mib"], told["is_asked"]) == (6144.0, 5933.0, True)
    assert told["tried"][0]["before_mib"] == 402.0
    assert (told["tried"][1]["status"], told["tried"][1]["asked_mib"]) == ("oom", 1945.6)


def test_a_compiler_is_told_apart_from_the_layer_and_what_is_not_known_is_left_out() -> None:
    ran = Tried(size=64, peak_mib=5.0, limit_mib=600.0, base_mib=211.0, before_mib=402.0, compiler_mib=140.0)
    found = LargestFit(
        contender="compiled:custom",
        workload=WORKLOAD,
        tried=(dataclasses.replace(ran, compile_s=17.2),),
        predicted=None,
        source="",
        memory_mib=600.0,
    )
    words = largest_words(found)
    assert "64 ran (its call held 5.00 MiB, compiled in 17 s)" in words[0]
    assert words[1:] == [
        "the limit: its process might hold 600 MiB in all, 90 % of what was free",
        "at 64 torch held 211 MiB, its compiler 140 MiB, the layer and its input 51.0 MiB, its call at most 5.00 MiB, "
        "and the rest, 193 MiB, was free or lay between blocks in use",
    ]
    unknown = dataclasses.replace(found, tried=(Tried(size=64),))
    assert len(largest_words(unknown)) == 2
    assert len(largest_words(dataclasses.replace(unknown, memory_mib=None))) == 1


def test_what_ended_it_besides_memory_is_not_taken_for_it() -> None:
    found = find(Machine(room_mib=1e9), FitPlan(low=64, high=512, step=64))
    assert found.fits == 512
    assert "that is the longest that was asked for" in largest_words(found)
    crashed = dataclasses.replace(
        found, tried=(Tried(size=64), Tried(size=128, status="crashed", reason="ended by signal 11 (SIGSEGV)"))
    )
    words = largest_words(crashed)
    assert words[0].startswith("custom fits at least up to seq_len 64 at")
    assert words[1] == "memory did not end it: 128 did not run: crashed: ended by signal 11 (SIGSEGV)"
    strange = dataclasses.replace(found, tried=(Tried(size=64, status="oom", reason="x"), Tried(size=128)))
    assert "and yet 64 ran out of memory (x)" in largest_words(strange)
    assert tried_words(Tried(size=64, status="refused", reason="it needs 3 GiB")) == "64 was not tried (it needs 3 GiB)"
