from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import make_workload

from profiling import estimate as module
from profiling.estimate import (
    call_seconds,
    estimate,
    excess,
    refuse_excess,
    workload_seconds,
)
from profiling.memory_estimate import CHILD_BASE_MIB, check_memory_mib, workload_memory_mib
from profiling.settings import MAX_SECONDS, SweepSettings
from profiling.workload import Grid, GridError

SMALL = Grid(batch_size=(2,), seq_len=(5, 7), num_heads=(2, 3), d_model=10)


def test_points_rows_and_invalid_ones_are_counted() -> None:
    told = estimate(SMALL, SweepSettings(contenders=("custom", "official")))
    assert (told.num_points, told.num_invalid, told.num_rows) == (4, 2, 8)
    assert told.invalid_reasons == ("d_model 10 is not divisible by num_heads 3",)


def test_time_is_the_budget_of_contenders_and_clones_plus_the_calls_outside() -> None:
    settings = SweepSettings(contenders=("custom", "official"), time_budget_s=2.0)
    point = make_workload()
    outside = workload_seconds(point, settings) - module.TIMED_SHARE * 3 * 2.0
    once_each = module.CONTENDER_OVERHEAD_S + module.UNTIMED_CALLS * call_seconds(point)
    assert outside == pytest.approx(module.WORKLOAD_OVERHEAD_S + 2 * once_each)


def test_replicates_multiply_the_time_and_invalid_points_cost_none() -> None:
    once, thrice = (without_ceilings(SMALL, SweepSettings(replicates=replicates)) for replicates in (1, 3))
    assert thrice == pytest.approx(3 * once)
    only_valid = estimate(Grid(batch_size=(2,), seq_len=(5, 7), num_heads=(2,), d_model=10), SweepSettings())
    assert estimate(SMALL, SweepSettings()).seconds == pytest.approx(only_valid.seconds)


def without_ceilings(grid: Grid, settings: SweepSettings) -> float:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ceilings_seconds", lambda _: 0.0)
        return estimate(grid, settings).seconds


@pytest.mark.parametrize(("time_budget_s", "each"), [(0.5, 0.03), (500.0, None)])
def test_ceilings_are_measured_twice_for_a_small_part_of_the_time_or_a_second(
    time_budget_s: float, each: float | None
) -> None:
    settings = SweepSettings(time_budget_s=time_budget_s)
    rest = without_ceilings(SMALL, settings)
    assert estimate(SMALL, settings).seconds - rest == pytest.approx(2 * (rest * each if each else 1.0))


def test_a_grid_without_a_valid_point_has_no_ceilings_measured() -> None:
    invalid = Grid(num_heads=(3,), d_model=10)
    assert estimate(invalid, SweepSettings()).seconds == without_ceilings(invalid, SweepSettings())


def test_a_small_sweep_is_told_to_take_the_time_that_one_took() -> None:
    # 20 s were seen, on two threads that others used as well; its timed rounds alone are 4.8 s.
    grid = Grid(batch_size=(1,), seq_len=(16, 32), num_heads=(2,), d_model=64)
    told = estimate(grid, SweepSettings(time_budget_s=0.2, replicates=2), threads=2)
    assert 12 < told.seconds < 22


def test_the_time_limit_is_a_minute_at_least_many_times_the_estimate_or_as_asked() -> None:
    assert estimate(SMALL, SweepSettings(time_budget_s=0.02)).time_limit_s == 60.0
    slow = estimate(SMALL, SweepSettings(contenders=("official",), time_budget_s=100.0))
    assert slow.time_limit_s == pytest.approx(20 * module.TIMED_SHARE * 100, rel=0.01)
    assert estimate(SMALL, SweepSettings(time_limit_s=3.5)).time_limit_s == 3.5


def test_compiling_has_time_of_its_own_in_the_estimate_and_room_in_the_limit() -> None:
    plain = SweepSettings(contenders=("custom", "official", "official-fused"), time_budget_s=0.02, replicates=3)
    compiled = SweepSettings(
        contenders=("compiled:custom", "compiled:official", "official"), time_budget_s=0.02, replicates=3
    )
    # SMALL has two valid points; each of three replicates makes the compiler ready once.
    more = 3 * (module.COMPILER_START_S + 2 * 2 * module.COMPILE_S)
    assert estimate(SMALL, compiled).seconds - estimate(SMALL, plain).seconds == pytest.approx(more, rel=0.05)
    least = module.TIME_LIMIT_FACTOR * (module.COMPILER_START_S + 2 * module.COMPILE_S)
    assert estimate(SMALL, compiled).time_limit_s >= least
    assert estimate(SMALL, plain).time_limit_s == 60.0


def test_a_grid_without_a_valid_point_has_an_estimate_too() -> None:
    told = estimate(Grid(num_heads=(3,), d_model=10), SweepSettings())
    assert told.num_invalid == told.num_points == 4
    assert told.time_limit_s == 60.0


@given(st.sampled_from(["float32", "bfloat16", "float16", "float64"]), st.integers(1, 64))
def test_more_tokens_never_take_less(dtype: str, seq_len: int) -> None:
    settings = SweepSettings()
    less, more = make_workload(dtype=dtype, seq_len=seq_len), make_workload(dtype=dtype, seq_len=seq_len + 1)
    assert call_seconds(less) < call_seconds(more)
    assert workload_seconds(less, settings) <= workload_seconds(more, settings)
    assert workload_memory_mib(less, settings) < workload_memory_mib(more, settings)
    assert check_memory_mib(less) < check_memory_mib(more)


def test_the_time_limit_stays_one_that_a_clock_can_wait_for() -> None:
    grid = Grid(batch_size=(2**31 - 1,), seq_len=(2**31 - 1,), num_heads=(1,), d_model=5)
    assert estimate(grid, SweepSettings()).time_limit_s == MAX_SECONDS


# -- what nobody would want to start ----------------------------------------------------------------------------------


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 3 GiB left."""
    monkeypatch.setattr(module, "free_memory_mib", lambda device: 3072.0 if device == "cpu" else None)


# 1 and 16 GiB of scores in float32, of which an explicit layer holds four at once.
LARGE = Grid(batch_size=(1, 16), seq_len=(4096,), num_heads=(16,), d_model=64)


def test_points_that_need_more_memory_than_is_free_are_counted_and_the_largest_is_named(free: None) -> None:
    told = estimate(LARGE, SweepSettings(contenders=("custom", "official")))
    assert told.num_too_large == 2
    assert told.largest is not None
    assert (told.largest.batch_size, told.largest.seq_len) == (16, 4096)
    need = CHILD_BASE_MIB + workload_memory_mib(told.largest, SweepSettings(contenders=("custom", "official")))
    assert told.peak_memory_mib == need > 4 * 16 * 1024
    assert excess(told) == (
        "2 of 2 points do not fit, the largest of them: batch 16, seq_len 4096, heads 16, d_model 64 needs about "
        f"{need / 1024:.1f} GiB of memory, of which 3.00 GiB are free"
    )


def test_a_point_alone_is_told_alone(free: None) -> None:
    alone = Grid(batch_size=(16,), seq_len=(4096,), num_heads=(16,), d_model=64)
    told = excess(estimate(alone, SweepSettings(contenders=("custom",))))
    assert told is not None
    assert told.startswith("batch 16, seq_len 4096, heads 16, d_model 64 needs about ")


def test_what_fits_is_not_refused_nor_what_an_accelerator_has_to_hold(free: None) -> None:
    fused = SweepSettings(contenders=("custom-fused",))  # has no scores in memory
    assert excess(estimate(LARGE, fused)) is None
    told = estimate(LARGE, SweepSettings(), device="cuda:0")
    assert (told.free_memory_mib, told.num_too_large, excess(told)) == (None, 0, None)


def test_points_that_cannot_be_are_not_held_against_the_memory(free: None) -> None:
    invalid = Grid(batch_size=(16,), seq_len=(4096,), num_heads=(3,), d_model=64)
    told = estimate(invalid, SweepSettings())
    assert (told.num_too_large, told.largest, excess(told)) == (0, None, None)


def test_a_sweep_of_more_than_a_week_is_refused_with_its_estimate(free: None) -> None:
    # Two valid points of two contenders and a clone, each with 2 h of rounds: about 14 h a replicate.
    long = SweepSettings(contenders=("custom", "official"), time_budget_s=7200.0, replicates=13)
    told = excess(estimate(SMALL, long))
    assert told == "it would take about 7 days, and more than 7 days is taken for a slip of the keyboard"
    fewer = SweepSettings(contenders=("custom", "official"), time_budget_s=7200.0, replicates=11)
    assert excess(estimate(SMALL, fewer)) is None


def test_what_is_refused_says_what_to_do_and_is_let_pass_where_it_is_meant(free: None) -> None:
    settings = SweepSettings(replicates=2**31 - 1)
    with pytest.raises(GridError, match=r"about [\d,]+ years, .*: shorten a list, or give --anyway \(in Python"):
        refuse_excess(estimate(SMALL, settings), settings)
    meant = SweepSettings(replicates=2**31 - 1, anyway=True)
    refuse_excess(estimate(SMALL, meant), meant)


@given(*(st.integers(1, 2**31 - 1) for _ in range(4)))
def test_no_grid_is_beyond_words(batch_size: int, seq_len: int, num_heads: int, replicates: int) -> None:
    grid = Grid(batch_size=(batch_size,), seq_len=(seq_len,), num_heads=(num_heads,), d_model=2**31 - 1)
    told = excess(estimate(grid, SweepSettings(replicates=replicates)))
    assert told is None or len(told) < 400
