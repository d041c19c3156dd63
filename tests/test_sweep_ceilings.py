from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import ENVIRONMENT, FakeChild, make_run, measured_points, write_run

from profiling.ceilings import (
    MAX_SECONDS,
    MIN_SECONDS,
    ceilings_of,
    ceilings_seconds,
    kept_ceilings,
    with_ceilings,
)
from profiling.child_process import ChildDied, ChildStopped, MeasuringError
from profiling.events import Started, StepFinished
from profiling.protocol import Running
from profiling.runs import read_run
from profiling.stopping import StopSwitch
from profiling.sweep import sweep
from profiling.table import load_run

CEILINGS = {"matmul_gflop_per_s": {"float32": 100.0, "float64": 40.0}, "copy_gb_per_s": 20.0}
MEASURED = {**ENVIRONMENT, "ceilings": CEILINGS}


GRID: dict[str, Any] = {
    "batch_size": [3],
    "seq_len": [5, 7],
    "num_heads": [2],
    "d_model": 10,
    "dtype": ["float32", "float64"],
    "device": "cpu",
    "threads": 1,
    "contenders": ["custom", "official"],
    "time_budget_s": 0.02,
}
EARLY = {"matmul_gflop_per_s": {"float32": 97.0, "float64": 41.0}, "copy_gb_per_s": 17.0}
LATE = {"matmul_gflop_per_s": {"float32": 89.0, "float64": 43.0}, "copy_gb_per_s": 19.0}
BEST = {"float32": (97.0, 19.0), "float64": (43.0, 19.0)}


def best_of(folder: Path) -> dict[str, Any]:
    environment = read_run(folder).environment
    return {dtype: ceilings_of(environment, dtype) for dtype in GRID["dtype"]}


def requests(fake: type[FakeChild]) -> list[str]:
    return [request["request"] for request in fake.asked]


def test_a_sweep_measures_the_ceilings_first_and_last_and_keeps_both_and_the_best(
    fake: type[FakeChild], tmp_path: Path
) -> None:
    fake.ceilings = [dict(EARLY), dict(LATE)]
    sweep(GRID, tmp_path)
    assert requests(fake) == ["environment", "ceilings", *["measure"] * 4, "ceilings"]
    asked = fake.asked[1]
    assert (asked["device"], asked["dtypes"], asked["threads"]) == ("cpu", ["float32", "float64"], 1)
    assert 0.1 <= asked["budget_s"] <= 1.0
    assert best_of(tmp_path) == BEST
    moments = read_run(tmp_path).environment["ceilings"]["measured"]
    assert [{name: moment[name] for name in EARLY} for moment in moments] == [EARLY, LATE]
    assert load_run(tmp_path)["matmul_gflop_per_s"].tolist() == [97.0] * 4 + [43.0] * 4


@pytest.mark.parametrize(
    "failure",
    [
        ChildDied("oom", "planted", Running("ceilings", "")),
        ChildDied("timeout", "gave no answer within 60 s and was ended", Running("ceilings", "")),
        MeasuringError("no such device"),
    ],
)
def test_a_sweep_that_cannot_measure_them_does_without_and_starts_a_fresh_child(
    fake: type[FakeChild], tmp_path: Path, failure: Exception
) -> None:
    fake.ceilings = [failure, dict(LATE)]
    assert sweep(GRID, tmp_path).state == "finished"
    assert requests(fake) == ["environment", "ceilings", "environment", *["measure"] * 4, "ceilings"]
    assert load_run(tmp_path)["status"].tolist() == ["ok"] * 8
    assert best_of(tmp_path) == {"float32": (89.0, 19.0), "float64": (43.0, 19.0)}


def test_the_stop_switch_works_while_they_are_measured(fake: type[FakeChild], tmp_path: Path) -> None:
    fake.ceilings = [ChildStopped()]
    stop = StopSwitch()
    run = sweep(GRID, tmp_path, stop=stop)
    assert (run.state, measured_points(fake.asked)) == ("stopped", [])
    fake.reset()
    fake.ceilings = [dict(EARLY), dict(LATE)]
    assert sweep({}, tmp_path, resume=True).state == "finished"
    assert best_of(tmp_path) == BEST


def test_a_stop_after_the_last_point_finds_everything_measured(fake: type[FakeChild], tmp_path: Path) -> None:
    fake.ceilings = [dict(EARLY), ChildStopped()]
    assert sweep(GRID, tmp_path).state == "finished"
    assert best_of(tmp_path)["float32"] == (97.0, 17.0)


def test_a_resumed_run_keeps_the_best_of_all_its_moments(fake: type[FakeChild], tmp_path: Path) -> None:
    stop = StopSwitch()

    def after_one(event: object) -> None:
        if isinstance(event, StepFinished):
            stop.request("by hand")

    fake.ceilings = [dict(EARLY)]
    assert sweep(GRID, tmp_path, stop=stop, on_event=after_one).state == "stopped"
    fake.reset()
    fake.ceilings = [{}, dict(LATE)]
    assert sweep({}, tmp_path, resume=True).state == "finished"
    assert best_of(tmp_path) == BEST
    assert len(read_run(tmp_path).environment["ceilings"]["measured"]) == 3


def test_where_nothing_is_left_to_measure_ceilings_are_not_measured_either(
    fake: type[FakeChild], tmp_path: Path
) -> None:
    fake.ceilings = [dict(EARLY), dict(LATE)]
    sweep(GRID, tmp_path)
    fake.reset()
    sweep({}, tmp_path, resume=True)
    assert requests(fake) == ["environment"]
    assert best_of(tmp_path) == BEST
    fake.reset()
    sweep({**GRID, "num_heads": [3]}, tmp_path / "invalid")
    assert requests(fake) == ["environment"]


@pytest.mark.parametrize("time_budget_s", [0.02, 9.0])
def test_a_sweep_spends_on_its_ceilings_what_its_estimate_says(
    fake: type[FakeChild], tmp_path: Path, time_budget_s: float
) -> None:
    told: list[float] = []

    def listen(event: object) -> None:
        if isinstance(event, Started):
            told.append(event.estimate.seconds)

    sweep({**GRID, "time_budget_s": time_budget_s}, tmp_path, on_event=listen)
    budgets = [request["budget_s"] for request in fake.asked if request["request"] == "ceilings"]
    assert budgets == [ceilings_seconds(told[0])] * 2
    assert sum(budgets) < 0.07 * told[0]


# -- what a run keeps -------------------------------------------------------------------------------------------------


def test_of_each_ceiling_the_best_moment_stands_and_every_moment_is_kept() -> None:
    first = {"matmul_gflop_per_s": {"float32": 90.0, "float16": None}, "copy_gb_per_s": 21.0}
    second = {"matmul_gflop_per_s": {"float32": 97.0, "float16": 11.0}, "copy_gb_per_s": None}
    environment = with_ceilings(with_ceilings(ENVIRONMENT, first, "early"), second, "late")
    assert environment["ceilings"] == {
        "matmul_gflop_per_s": {"float32": 97.0, "float16": 11.0},
        "copy_gb_per_s": 21.0,
        "measured": [{"measured_at": "early", **first}, {"measured_at": "late", **second}],
    }
    assert {name: environment[name] for name in ENVIRONMENT} == ENVIRONMENT
    assert json.loads(json.dumps(environment)) == environment


def test_a_moment_that_gave_nothing_takes_nothing_away() -> None:
    kept = with_ceilings(with_ceilings(ENVIRONMENT, CEILINGS, "early"), {}, "late")
    assert ceilings_of(kept, "float32") == (100.0, 20.0)
    assert ceilings_of(with_ceilings(ENVIRONMENT, {}, "only"), "float32") == (None, None)


@pytest.mark.parametrize("broken", ["fast", True, -3.0, 0, float("nan"), float("inf"), None, [97.0]])
def test_a_ceiling_that_is_no_rate_is_none(broken: object) -> None:
    environment = {"ceilings": {"matmul_gflop_per_s": {"float32": broken}, "copy_gb_per_s": broken, "measured": broken}}
    assert ceilings_of(environment, "float32") == (None, None)
    assert ceilings_of(with_ceilings(environment, CEILINGS, "late"), "float32") == (100.0, 20.0)


def test_a_resumed_run_takes_over_its_ceilings_and_nothing_else() -> None:
    assert kept_ceilings(MEASURED) == {"ceilings": CEILINGS}
    assert kept_ceilings(ENVIRONMENT) == {}


def test_ceilings_take_a_small_part_of_a_short_sweep_and_no_more_than_a_second_of_a_long_one() -> None:
    assert ceilings_seconds(20.0) == pytest.approx(0.6)
    assert ceilings_seconds(0.5) == MIN_SECONDS
    assert ceilings_seconds(36_000.0) == MAX_SECONDS == 1.0


def test_a_run_with_ceilings_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_run(tmp_path, [], environment=MEASURED)
    assert read_run(tmp_path).environment == make_run(environment=MEASURED).environment
