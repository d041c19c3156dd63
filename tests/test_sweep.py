from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_runs import FakeChild, make_workload, measured_points
from planted_layers import plant_environment

from profiling import run_sweep
from profiling.child_process import ChildDied, ChildStopped, MeasuringChild, MeasuringError
from profiling.columns import ENVIRONMENT_COLUMNS, MEASUREMENT_COLUMNS, REPORT_COLUMNS, names
from profiling.device_lock import DeviceBusy, DeviceLock, owner
from profiling.events import Ended, Event, Started, StepFinished, StepStarted, Waiting
from profiling.protocol import Running
from profiling.runs import RunError, read_rows, read_run
from profiling.settings import CONTENDERS
from profiling.stopping import StopSwitch
from profiling.sweep import order_seed, sweep
from profiling.table import load_measurements, load_run, load_samples, report_csv
from profiling.workload import GridError, Workload

GRID: dict[str, Any] = {
    "batch_size": [3],
    "seq_len": [5, 7, 11],
    "num_heads": [2],
    "d_model": 10,
    "device": "cpu",
    "contenders": ["custom", "official"],
    "time_budget_s": 0.02,
    "quiet_wait_s": 0,  # other tests are no reason to wait
}


def died(status: str, phase: str, contender: str) -> ChildDied:
    return ChildDied(status, "planted", Running(phase, contender))


def statuses(folder: Path) -> dict[tuple[int, str], str]:
    return {(row["seq_len"], row["contender"]): row["status"] for _, row in load_run(folder).iterrows()}


# -- the walk, with a child that measures nothing ---------------------------------------------------------------------


def test_every_point_is_measured_once_in_order_and_written(fake: type[FakeChild], tmp_path: Path) -> None:
    run = sweep(GRID, tmp_path / "run")
    assert measured_points(fake.asked) == [5, 7, 11]
    assert (run.state, run.progress.done, run.progress.total) == ("finished", 3, 3)
    assert len(load_measurements(tmp_path / "run")) == 6
    samples = load_samples(tmp_path / "run")
    assert samples["latency_ms"].tolist() == [2.0, 3.0] * 6
    assert samples["round"].tolist() == [1, 2] * 6
    assert fake.alive == []
    assert owner("cpu") is None


def test_what_is_written_has_the_row_schema(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep(GRID, tmp_path)
    header, *rows = (tmp_path / "measurements.csv").read_text(encoding="utf-8").splitlines()
    assert header.split(",") == names(MEASUREMENT_COLUMNS)
    assert len(rows) == 6
    assert load_measurements(tmp_path)["source_hash"].tolist() == ["hash of custom", "hash of official"] * 3


def test_a_replicate_is_a_fresh_child_that_passes_over_the_grid_again(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep({**GRID, "replicates": 2}, tmp_path)
    kinds = [request.get("order_seed", "start") for request in fake.asked if request["request"] != "ceilings"]
    assert [kind == "start" for kind in kinds] == [True, False, False, False] * 2
    assert len(set(kinds)) == 7, "each replicate of each point has an order of its own"
    assert load_measurements(tmp_path)["replicate"].tolist() == [1] * 6 + [2] * 6


def test_invalid_points_are_rows_that_nobody_measured(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep({**GRID, "num_heads": [3]}, tmp_path)
    assert measured_points(fake.asked) == []
    table = load_run(tmp_path)
    assert table["status"].tolist() == ["invalid"] * 6
    assert set(table["status_reason"]) == {"d_model 10 is not divisible by num_heads 3"}
    assert table["head_dim"].isna().all()


def test_a_death_costs_the_contender_that_ran_and_the_rest_is_measured_again(
    fake: type[FakeChild], tmp_path: Path
) -> None:
    fake.script = {("custom", 7): died("crashed", "latency", "custom")}
    sweep(GRID, tmp_path)
    assert statuses(tmp_path)[7, "custom"] == "crashed"
    assert [status for place, status in statuses(tmp_path).items() if place != (7, "custom")] == ["ok"] * 5
    asked = [request["contenders"] for request in fake.asked if request["request"] == "measure"]
    assert asked == [["custom", "official"], ["custom", "official"], ["official"], ["custom", "official"]]
    assert load_run(tmp_path)["status_reason"].dropna().tolist() == ["planted, in latency"]


@pytest.mark.parametrize(
    ("phase", "words"), [("request", "planted, before any contender ran"), ("oracle", "planted, in oracle")]
)
def test_a_death_that_nobody_can_be_blamed_for_is_tried_once_more(
    fake: type[FakeChild], tmp_path: Path, phase: str, words: str
) -> None:
    fake.script = {("custom", 7): died("crashed", phase, "")}
    sweep(GRID, tmp_path)
    assert measured_points(fake.asked) == [5, 7, 7, 11]
    assert [statuses(tmp_path)[7, name] for name in ("custom", "official")] == ["crashed", "crashed"]
    assert load_run(tmp_path)["status_reason"].dropna().tolist() == [words, words]
    assert statuses(tmp_path)[11, "custom"] == "ok"


def test_a_death_with_a_name_does_not_use_up_the_second_try(fake: type[FakeChild], tmp_path: Path) -> None:
    deaths = iter([died("crashed", "latency", "custom"), died("crashed", "oracle", ""), None])

    class Twice(FakeChild):
        def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
            death = next(deaths) if request["request"] == "measure" else None
            if death is not None:
                raise death
            return super().ask(request, limit_s=limit_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profiling.measurer.MeasuringChild", Twice)
        sweep({**GRID, "seq_len": [5]}, tmp_path)
    assert statuses(tmp_path) == {(5, "custom"): "crashed", (5, "official"): "ok"}


def test_a_timeout_before_any_contender_ran_is_not_repeated(fake: type[FakeChild], tmp_path: Path) -> None:
    fake.script = {("custom", 7): died("timeout", "request", "")}
    sweep(GRID, tmp_path)
    assert measured_points(fake.asked) == [5, 7, 11]
    assert statuses(tmp_path)[7, "official"] == "timeout"


def test_a_refusal_of_the_child_makes_the_point_unavailable(fake: type[FakeChild], tmp_path: Path) -> None:
    fake.script = {("custom", 7): MeasuringError("no such dtype here")}
    sweep(GRID, tmp_path)
    assert statuses(tmp_path)[7, "custom"] == statuses(tmp_path)[7, "official"] == "unavailable"


def test_what_was_waited_for_a_quiet_machine_is_taken_from_what_the_run_may_wait(
    fake: type[FakeChild], tmp_path: Path
) -> None:
    class Waiting(FakeChild):
        def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
            answer = super().ask(request, limit_s=limit_s)
            for row in answer.get("rows", {}).values():  # a platform without the figure leaves it empty
                row["waited_s"] = {5: 1.25, 7: None, 11: 3.5}[request["workload"]["seq_len"]]
            return answer

    fake.script = {("custom", 7): ChildDied("crashed", "planted", Running("latency", "custom", 0.5))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profiling.measurer.MeasuringChild", Waiting)
        sweep({**GRID, "quiet_wait_s": 5.0, "replicates": 2}, tmp_path)
    left = [request["quiet_wait_s"] for request in fake.asked if request["request"] == "measure"]
    # 5, 7 and again without the contender that died, 11; then all of that once more.
    assert left == [5.0, 3.75, 3.25, 3.25, 0.0, 0.0, 0.0, 0.0]


def test_the_child_inherits_the_lock_and_the_heap(fake: type[FakeChild], tmp_path: Path) -> None:
    seen: list[FakeChild] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StepStarted):
            seen.extend(fake.alive)

    sweep({**GRID, "heap": "as-is"}, tmp_path, on_event=on_event)
    assert {child.heap for child in seen} == {"as-is"}
    assert all(child.lock_fd is not None for child in seen)


def test_a_listener_hears_everything_in_order(fake: type[FakeChild], tmp_path: Path) -> None:
    heard: list[Event] = []
    sweep({**GRID, "seq_len": [5, 7]}, tmp_path, on_event=heard.append)
    kinds = [type(event) for event in heard]
    assert kinds == [Started, StepStarted, StepFinished, StepStarted, StepFinished, Ended]
    finished = [event for event in heard if isinstance(event, StepFinished)]
    assert [event.progress.done for event in finished] == [1, 2]
    assert [row["contender"] for row in finished[0].rows] == ["custom", "official"]


def test_the_run_says_how_far_it_has_come_while_it_runs(fake: type[FakeChild], tmp_path: Path) -> None:
    seen: list[tuple[str, int, str]] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StepStarted):
            run = read_run(tmp_path)
            seen.append((run.state, run.progress.done, run.progress.label))

    sweep({**GRID, "seq_len": [5, 7]}, tmp_path, on_event=on_event)
    assert seen == [
        ("running", 0, "batch 3, seq_len 5, heads 2, d_model 10"),
        ("running", 1, "batch 3, seq_len 7, heads 2, d_model 10"),
    ]


def stop_at(seq_len: int, stop: StopSwitch) -> Any:
    def on_event(event: Event) -> None:
        if isinstance(event, StepStarted) and f"seq_len {seq_len}," in event.progress.label:
            stop.request("by hand")

    return on_event


def test_a_stopped_sweep_keeps_what_was_measured_and_resume_measures_the_rest(
    fake: type[FakeChild], tmp_path: Path
) -> None:
    stop = StopSwitch()
    run = sweep(GRID, tmp_path, stop=stop, on_event=stop_at(7, stop))
    assert (run.state, run.state_reason, run.progress.done) == ("stopped", "by hand", 1)
    assert fake.alive == []
    assert owner("cpu") is None
    assert (tmp_path / "report.csv").exists()
    fake.reset()
    again = sweep({}, tmp_path, resume=True)
    assert (again.state, again.started_at) == ("finished", run.started_at)
    assert measured_points(fake.asked) == [7, 11]
    assert load_measurements(tmp_path)["seq_len"].tolist() == [5, 5, 7, 7, 11, 11]


def test_a_stop_before_anything_began_is_an_exception_not_a_run(fake: type[FakeChild], tmp_path: Path) -> None:
    stop = StopSwitch()
    stop.request("too early")
    with pytest.raises(ChildStopped):
        sweep(GRID, tmp_path / "run", stop=stop)
    assert not (tmp_path / "run").exists()
    assert owner("cpu") is None
    assert fake.alive == []


def test_resume_measures_exactly_what_is_missing_and_never_twice(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep({**GRID, "replicates": 2}, tmp_path)
    path = tmp_path / "measurements.csv"
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[4]  # replicate 1, seq_len 7, official: its point is incomplete
    lines[-1] = lines[-1][:-7]  # replicate 2, seq_len 11, official: torn
    path.write_bytes(b"".join(lines))
    fake.reset()
    heard: list[Event] = []
    sweep({}, tmp_path, resume=True, on_event=heard.append)
    assert measured_points(fake.asked) == [7, 11]
    rows = load_measurements(tmp_path)
    assert not rows.duplicated(["replicate", "point", "contender"]).any()
    assert len(rows) == 12
    samples = load_samples(tmp_path)
    assert not samples.duplicated(["replicate", "point", "contender", "round"]).any()
    assert len(samples) == 24
    assert next(event for event in heard if isinstance(event, Started)).num_steps_done == 4
    fake.reset()
    sweep({}, tmp_path, resume=True)
    assert measured_points(fake.asked) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seq_len": [5, 7]}, "its grid had seq_len [5, 7, 11], now [5, 7]"),
        ({"time_budget_s": 0.5}, "its settings had time_budget_s 0.02, now 0.5"),
        ({"threads": 2}, "its grid had threads None, now 2"),
    ],
)
def test_resume_with_other_options_is_refused_and_changes_nothing(
    fake: type[FakeChild], tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    sweep(GRID, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RunError) as caught:
        sweep(options, tmp_path, resume=True)
    assert words in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert owner("cpu") is None


def test_resume_with_the_same_options_repeated_is_fine(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep(GRID, tmp_path)
    assert sweep(GRID, tmp_path, resume=True).state == "finished"


# -- more replicates --------------------------------------------------------------------------------------------------


def steps(folder: Path) -> list[tuple[int, int]]:
    """The (replicate, seq_len) of each row, each twice: two contenders."""
    rows = load_measurements(folder)
    assert not rows.duplicated(["replicate", "point", "contender"]).any()
    return [(int(row["replicate"]), int(row["seq_len"])) for _, row in rows[rows["contender"] == "custom"].iterrows()]


def test_a_finished_run_is_extended_by_the_replicates_that_are_more(fake: type[FakeChild], tmp_path: Path) -> None:
    first = sweep({**GRID, "replicates": 2}, tmp_path)
    before = (tmp_path / "measurements.csv").read_bytes()
    fake.reset()
    heard: list[Event] = []
    seen: list[tuple[str, str | None, int]] = []

    def on_event(event: Event) -> None:
        heard.append(event)
        if isinstance(event, StepStarted):
            run = read_run(tmp_path)
            seen.append((run.state, run.ended_at, run.settings.replicates))

    again = sweep({"replicates": 5}, tmp_path, resume=True, on_event=on_event)
    assert measured_points(fake.asked) == [5, 7, 11] * 3
    assert seen == [("running", None, 5)] * 9
    assert steps(tmp_path) == [(replicate, seq_len) for replicate in range(1, 6) for seq_len in (5, 7, 11)]
    assert (tmp_path / "measurements.csv").read_bytes().startswith(before), "what was there is there byte for byte"
    assert len(load_samples(tmp_path)) == 5 * 3 * 2 * 2
    started = next(event for event in heard if isinstance(event, Started))
    assert (started.num_steps_done, started.run.progress.total) == (6, 15)
    assert [event.progress.done for event in heard if isinstance(event, StepFinished)] == list(range(7, 16))
    assert (again.state, again.started_at, again.progress.done) == ("finished", first.started_at, 15)
    assert again.progress.total == 15
    assert load_run(tmp_path)["num_replicates"].tolist() == [5] * 6
    assert (tmp_path / "report.csv").read_bytes() == report_csv(load_run(tmp_path)).encode()
    fake.reset()
    sweep({"replicates": 5}, tmp_path, resume=True)
    assert measured_points(fake.asked) == []


def test_an_extended_run_names_the_commits_of_both_its_parts(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for commit, replicates in (("abc", 1), ("def", 2)):
        monkeypatch.setattr("profiling.opening.host_environment", lambda commit=commit: {"commit": commit})
        sweep({**GRID, "replicates": replicates}, tmp_path, resume=replicates > 1)
    assert set(load_run(tmp_path)["commit"]) == {"abc, def"}
    monkeypatch.setattr("profiling.opening.host_environment", lambda: {"commit": "measured nothing"})
    sweep({}, tmp_path, resume=True)
    assert set(load_run(tmp_path)["commit"]) == {"abc, def"}
    assert read_run(tmp_path).environment["blas"] == "MKL 2024.2"


def test_each_replicate_of_an_extension_is_a_fresh_child(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep({**GRID, "replicates": 2}, tmp_path)
    fake.reset()
    sweep({"replicates": 4}, tmp_path, resume=True)
    kinds = [request["request"] for request in fake.asked]
    assert kinds == ["environment", "ceilings", *["environment", *["measure"] * 3] * 2, "ceilings"]


def test_a_stopped_run_is_gone_on_with_and_extended_at_once(fake: type[FakeChild], tmp_path: Path) -> None:
    stop = StopSwitch()
    sweep({**GRID, "replicates": 2}, tmp_path, stop=stop, on_event=stop_at(11, stop))
    fake.reset()
    table = run_sweep(out=tmp_path, resume=True, replicates=3)
    assert measured_points(fake.asked) == [11, 5, 7, 11, 5, 7, 11]
    assert steps(tmp_path) == [(replicate, seq_len) for replicate in (1, 2, 3) for seq_len in (5, 7, 11)]
    assert table["num_replicates"].tolist() == [3] * 6


def test_a_stopped_extension_is_gone_on_with_by_resume_alone(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep(GRID, tmp_path)
    stop = StopSwitch()
    stopped = sweep({"replicates": 3}, tmp_path, resume=True, stop=stop, on_event=stop_at(7, stop))
    assert (stopped.state, stopped.progress.done, stopped.progress.total) == ("stopped", 4, 9)
    fake.reset()
    assert sweep({}, tmp_path, resume=True).state == "finished"
    assert measured_points(fake.asked) == [7, 11, 5, 7, 11]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"replicates": 1}, "replicates must be at least the 2 that it has, not 1"),
        ({"replicates": 5, "time_budget_s": 0.5}, "its settings had time_budget_s 0.02, now 0.5"),
        ({"replicates": 5, "contenders": ["official"]}, "its settings had contenders ['custom', 'official'], now"),
    ],
)
def test_an_extension_that_changes_anything_else_is_refused_and_changes_nothing(
    fake: type[FakeChild], tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    sweep({**GRID, "replicates": 2}, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RunError) as caught:
        sweep(options, tmp_path, resume=True)
    assert words in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_of_an_earlier_schema_version_is_not_gone_on_with(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep(GRID, tmp_path)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 1}), encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RunError, match="cannot be resumed: its schema version was 1, now 2"):
        sweep({"replicates": 5}, tmp_path, resume=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# -- the order of the rounds ------------------------------------------------------------------------------------------


def test_a_point_measured_alone_has_the_order_that_it_has_in_a_grid(fake: type[FakeChild], tmp_path: Path) -> None:
    def orders(folder: str, **changes: Any) -> list[int]:
        fake.reset()
        sweep({**GRID, "replicates": 2, **changes}, tmp_path / folder)
        return [request["order_seed"] for request in fake.asked if request["request"] == "measure"]

    whole, alone = orders("grid"), orders("alone", seq_len=[7])
    assert [whole[1], whole[4]] == alone


def test_every_field_of_a_workload_and_the_replicate_make_the_order() -> None:
    changes: dict[str, Any] = {
        **{"batch_size": 5, "seq_len": 11, "num_heads": 5, "d_model": 20, "dtype": "float64", "device": "cuda:0"},
        **{"mode": "training", "bias": True, "causal": True, "threads": 7, "seed": 43},
    }
    assert set(changes) == set(Workload.__dataclass_fields__)
    seeds = [order_seed(make_workload(**{name: value}), 1) for name, value in changes.items()]
    assert len({*seeds, order_seed(make_workload(), 1), order_seed(make_workload(), 2)}) == len(changes) + 2


def test_the_order_of_a_point_is_the_same_on_every_day_and_machine() -> None:
    assert order_seed(make_workload(), 1) == 782383891


# -- what keeps a sweep from measuring, and how it ends ---------------------------------------------------------------


def test_resume_under_another_torch_is_refused(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(GRID, tmp_path)
    monkeypatch.setattr(FakeChild, "torch_version", "2.14.0")
    with pytest.raises(RunError, match=r"its torch version was '2\.13\.0', now '2\.14\.0'"):
        sweep({}, tmp_path, resume=True)


def test_a_second_sweep_is_refused_and_leaves_no_folder(fake: type[FakeChild], tmp_path: Path) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="first")
    try:
        with pytest.raises(DeviceBusy, match=r"cpu is busy since .* with sweep first"):
            sweep(GRID, tmp_path / "second")
        assert not (tmp_path / "second").exists()
        holder = owner("cpu")
        assert holder is not None
        assert holder.run_id == "first", "the refused sweep must not take the owner's name away"
    finally:
        lock.release()


def test_a_sweep_waits_for_a_live_check(fake: type[FakeChild], tmp_path: Path) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("check")
    heard: list[Event] = []

    def on_event(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Waiting):
            threading.Timer(0.2, lock.release).start()

    assert sweep(GRID, tmp_path, on_event=on_event).state == "finished"
    assert isinstance(heard[0], Waiting)
    assert heard[0].owner.kind == "check"


def test_a_sweep_that_waits_can_be_stopped(fake: type[FakeChild], tmp_path: Path) -> None:
    lock, stop = DeviceLock("cpu"), StopSwitch()
    lock.acquire("check")
    try:
        with pytest.raises(ChildStopped):
            sweep(GRID, tmp_path / "run", stop=stop, on_event=lambda _: stop.request("enough"))
    finally:
        lock.release()
    assert fake.asked == []


def test_a_full_disk_ends_the_sweep_with_a_sentence_and_the_earlier_rows(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fill_up(event: Event) -> None:
        if isinstance(event, StepFinished):
            monkeypatch.setattr(os, "fsync", full)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match=r"cannot be written: .*No space left on device"):
        sweep(GRID, tmp_path, on_event=fill_up)
    monkeypatch.setattr(os, "fsync", real)
    assert owner("cpu") is None
    assert fake.alive == []
    assert load_measurements(tmp_path)["seq_len"].tolist()[:2] == [5, 5]
    fake.reset()
    values = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    (tmp_path / "run.json").write_text(json.dumps(values | {"process_started": 1.0}), encoding="utf-8")
    sweep({}, tmp_path, resume=True)
    assert measured_points(fake.asked) == [7, 11]


def test_a_bug_in_a_listener_ends_the_run_as_failed(fake: type[FakeChild], tmp_path: Path) -> None:
    def broken(event: Event) -> None:
        if isinstance(event, StepFinished):
            raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        sweep(GRID, tmp_path, on_event=broken)
    assert read_run(tmp_path).state == "failed"
    assert owner("cpu") is None
    assert fake.alive == []


def test_a_sweep_without_a_folder_makes_one_among_the_results(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    table = run_sweep(**GRID)
    (folder,) = tmp_path.iterdir()
    assert set(table["run_id"]) == {folder.name}


def test_a_slow_starter_does_not_overwrite_a_run_that_came_first(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = DeviceLock.acquire

    def late(self: DeviceLock, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(DeviceLock, "acquire", acquire)
        sweep({**GRID, "seed": 2}, tmp_path)  # another one, from beginning to end, while this one was starting
        acquire(self, *arguments, **options)

    monkeypatch.setattr(DeviceLock, "acquire", late)
    with pytest.raises(RunError, match="already holds run"):
        sweep({**GRID, "seed": 1}, tmp_path)
    assert read_run(tmp_path).grid.seed == 2
    assert len(load_measurements(tmp_path)) == 6


def test_a_listener_that_raises_at_once_does_not_leave_the_run_running(fake: type[FakeChild], tmp_path: Path) -> None:
    def listen(event: Event) -> None:
        raise ZeroDivisionError("planted")

    with pytest.raises(ZeroDivisionError):
        sweep(GRID, tmp_path, on_event=listen)
    assert (read_run(tmp_path).state, read_run(tmp_path).state_reason) == ("failed", "planted")


def test_resuming_a_table_with_another_header_is_refused_and_changes_nothing(
    fake: type[FakeChild], tmp_path: Path
) -> None:
    sweep(GRID, tmp_path)
    path = tmp_path / "measurements.csv"
    path.write_text(path.read_text().replace(",", ";"))
    before = path.read_bytes()
    with pytest.raises(RunError, match="has no column"):
        sweep({}, tmp_path, resume=True)
    assert path.read_bytes() == before


def test_an_option_that_is_none_is_refused_before_anything_starts(fake: type[FakeChild], tmp_path: Path) -> None:
    with pytest.raises(GridError, match="grid has no field 'heads'"):
        sweep({**GRID, "heads": [3]}, tmp_path / "run")
    assert fake.asked == []
    assert not (tmp_path / "run").exists()


def test_the_packages_names_are_loaded_when_they_are_used() -> None:
    import profiling

    assert profiling.__all__ == ["load_run", "run_sweep"]
    assert profiling.load_run is load_run
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        profiling.nothing  # noqa: B018


# -- for real: a measuring child, and layers that take it down --------------------------------------------------------

FAULTS = {
    "custom@3": "kill in latency",
    "custom@5": "hang in warm-up",
    "custom@7": "exit 0 in memory",
    "custom@11": "raise in check",
    "custom-fused@11": "nan in check",
    "official@13": "kill in check",
    "custom@17": "out of memory in latency",
    "official-fused@17": "print in warm-up",
}


class Impatient(MeasuringChild):
    """Waits 3 s, not a minute, for the one point that hangs."""

    def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
        hangs = request.get("workload", {}).get("seq_len") == 5 and "custom" in request["contenders"]
        return super().ask(request, limit_s=3.0 if hangs else limit_s)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, pd.DataFrame]]:
    """One sweep in which most points have a layer that misbehaves; the last has none."""
    folder = tmp_path_factory.mktemp("faulty") / "run"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in plant_environment(tmp_path_factory.mktemp("plants"), FAULTS).items():
            patch.setenv(name, value)
        patch.setattr("profiling.measurer.MeasuringChild", Impatient)
        table = run_sweep(
            out=folder,
            batch_size=[1],
            seq_len=[3, 5, 7, 11, 13, 17, 29],
            num_heads=[2],
            d_model=10,
            device="cpu",
            threads=1,
            time_budget_s=0.02,
            quiet_wait_s=0,
        )
        yield folder, table


def row(faulty: tuple[Path, pd.DataFrame], seq_len: int, contender: str) -> Any:
    table = faulty[1]
    return table[(table["seq_len"] == seq_len) & (table["contender"] == contender)].iloc[0]


def test_run_sweep_returns_what_load_run_gives(faulty: tuple[Path, pd.DataFrame]) -> None:
    folder, table = faulty
    pd.testing.assert_frame_equal(table, load_run(folder))
    assert list(table.columns) == names(REPORT_COLUMNS)
    assert len(table) == 28
    assert (folder / "report.csv").read_bytes() == report_csv(table).encode()


def test_a_point_without_a_fault_is_whole_whatever_went_before(faulty: tuple[Path, pd.DataFrame]) -> None:
    seq_len = 29
    for name in CONTENDERS:
        found = row(faulty, seq_len, name)
        assert found["status"] == "ok"
        assert found["latency_p5_ms"] <= found["latency_median_ms"] <= found["latency_p95_ms"]
        assert found["peak_memory_mib"] > 0
    assert row(faulty, seq_len, "custom")["max_abs_error"] == 0.0
    assert row(faulty, seq_len, "custom")["check_verdict"] == "pass"
    assert row(faulty, seq_len, "custom-fused")["speedup"] > 0


@pytest.mark.parametrize(
    ("seq_len", "contender", "status", "words"),
    [
        (3, "custom", "crashed", r"ended by signal 9 \(SIGKILL\).*, in latency"),
        (5, "custom", "timeout", r"gave no answer within 3 s and was ended, in warm-up"),
        (7, "custom", "crashed", r"ended without an answer, though with exit status 0.*, in memory"),
        (11, "custom", "error", r"RuntimeError: planted \[/red\]"),
        (13, "official", "crashed", r"ended by signal 9 \(SIGKILL\).*, in check"),
        (17, "custom", "oom", r"can't allocate memory"),
    ],
)
def test_a_layer_that_misbehaves_costs_its_own_row(
    faulty: tuple[Path, pd.DataFrame], seq_len: int, contender: str, status: str, words: str
) -> None:
    found = row(faulty, seq_len, contender)
    assert found["status"] == status
    assert pd.Series([found["status_reason"]]).str.contains(words).all(), found["status_reason"]
    for column in REPORT_COLUMNS:
        if column.kind == "float" and column not in ENVIRONMENT_COLUMNS:
            assert found[column.name] is pd.NA, column.name
    for other in set(CONTENDERS) - {contender}:
        assert row(faulty, seq_len, other)["status"] == "ok"
        assert row(faulty, seq_len, other)["latency_median_ms"] > 0


def test_where_the_reference_died_the_speedup_is_empty_and_the_rest_stands(
    faulty: tuple[Path, pd.DataFrame],
) -> None:
    found = row(faulty, 13, "custom")
    assert found["speedup"] is pd.NA
    assert found["speed_verdict"] is pd.NA
    assert found["max_abs_error_oracle"] < 1e-5
    assert row(faulty, 13, "custom-fused")["speedup"] > 0


def test_an_output_of_nan_is_an_infinite_error_and_fails(faulty: tuple[Path, pd.DataFrame]) -> None:
    found = row(faulty, 11, "custom-fused")
    assert (found["status"], found["check_verdict"]) == ("ok", "fail")
    assert found["max_abs_error"] == found["max_abs_error_oracle"] == math.inf
    assert found["latency_median_ms"] > 0


def test_a_layer_that_prints_megabytes_and_forged_answers_is_measured(faulty: tuple[Path, pd.DataFrame]) -> None:
    assert row(faulty, 17, "official-fused")["status"] == "ok"


def test_every_number_of_a_row_follows_from_its_raw_samples(faulty: tuple[Path, pd.DataFrame]) -> None:
    folder, table = faulty
    samples = load_samples(folder)
    for _, found in table[table["seq_len"] == 29].iterrows():
        of = {
            name: group["latency_ms"].to_numpy(float)
            for name, group in samples[samples["point"] == found["point"]].groupby("contender")
        }
        mine = pd.Series(of[found["contender"]])
        assert found["num_samples"] == len(mine)
        assert found["latency_median_ms"] == pytest.approx(mine.median())
        assert found["latency_p95_ms"] == pytest.approx(mine.quantile(0.95))
        assert found["throughput_tokens_per_s"] == pytest.approx(found["seq_len"] / (mine.median() / 1e3))
        if found["reference"] is not pd.NA:
            theirs = of[found["reference"]]
            assert math.log(found["speedup"]) == pytest.approx(pd.Series(theirs / mine).map(math.log).median())
            clone = pd.Series(theirs / of["clone:" + found["reference"]]).map(math.log).median()
            assert found["noise_floor"] == pytest.approx(math.exp(abs(clone)) - 1)
            assert found["clone_speedup"] == pytest.approx(math.exp(clone))


def test_a_finished_sweep_leaves_nothing_behind(faulty: tuple[Path, pd.DataFrame]) -> None:
    folder, _ = faulty
    assert owner("cpu") is None
    assert sorted(path.name for path in folder.iterdir()) == [
        "measurements.csv",
        "report.csv",
        "run.json",
        "samples.csv",
        "sources",
    ]
    run = read_run(folder)
    assert (run.state, run.threads, run.ended_at is not None) == ("finished", 1, True)
    assert len(read_rows(folder / "measurements.csv", MEASUREMENT_COLUMNS)) == 28
