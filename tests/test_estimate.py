from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import make_workload

from profiling import estimate as module
from profiling.estimate import (
    call_seconds,
    estimate,
    free_memory_mib,
    workload_memory_mib,
    workload_seconds,
)
from profiling.settings import MAX_SECONDS, SweepSettings
from profiling.workload import Grid

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


def test_scores_dominate_the_memory_of_an_explicit_layer_and_not_of_a_fused_one() -> None:
    point = make_workload(batch_size=4, seq_len=1024, num_heads=8, d_model=512)
    explicit = workload_memory_mib(point, SweepSettings(contenders=("custom",)))
    fused = workload_memory_mib(point, SweepSettings(contenders=("custom-fused",)))
    # One (B, H, S, S) in float32 is 128 MiB.
    assert explicit - fused == pytest.approx(2 * 128)


@given(st.sampled_from(["float32", "bfloat16", "float16", "float64"]), st.integers(1, 64))
def test_more_tokens_never_take_less(dtype: str, seq_len: int) -> None:
    settings = SweepSettings()
    less, more = make_workload(dtype=dtype, seq_len=seq_len), make_workload(dtype=dtype, seq_len=seq_len + 1)
    assert call_seconds(less) < call_seconds(more)
    assert workload_seconds(less, settings) <= workload_seconds(more, settings)
    assert workload_memory_mib(less, settings) < workload_memory_mib(more, settings)


def test_free_memory_obeys_the_containers_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_container_memory", lambda: [(300 * 2**20, 100 * 2**20)])
    assert free_memory_mib() == 200
    monkeypatch.setattr(module, "_container_memory", lambda: [(100 * 2**20, 300 * 2**20)])
    assert free_memory_mib() == 0


def test_the_time_limit_stays_one_that_a_clock_can_wait_for() -> None:
    grid = Grid(batch_size=(2**31 - 1,), seq_len=(2**31 - 1,), num_heads=(1,), d_model=5)
    assert estimate(grid, SweepSettings()).time_limit_s == MAX_SECONDS
