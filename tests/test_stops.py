"""A signal at any moment of a sweep: what was measured stands, its state says the end, and the rest can be measured."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from made_up_runs import FakeChild, measured_points

from profiling import table
from profiling.child_process import ChildStopped
from profiling.columns import MEASUREMENT_COLUMNS
from profiling.device_lock import DeviceLock, owner
from profiling.disk_room import require_room
from profiling.events import Ended, Event, StepStarted
from profiling.folder_lock import FolderLock
from profiling.progress import describe
from profiling.protocol import Marker
from profiling.run_writer import RunWriter
from profiling.runs import read_rows, read_run
from profiling.stopping import StopSwitch
from profiling.sweep import sweep
from profiling.table import load_run, load_samples

pytestmark = pytest.mark.usefixtures("own_signals", "unsynced")

GRID: dict[str, Any] = {
    "batch_size": [3],
    "seq_len": [5],
    "num_heads": [2],
    "d_model": 10,
    "device": "cpu",
    "contenders": ["custom", "official"],
    "time_budget_s": 0.02,
    "quiet_wait_s": 0,
    "replicates": 2,
}
PATIENCE_S = 60.0


def interrupting(
    monkeypatch: pytest.MonkeyPatch, moment: int, *, after: bool, numbers: tuple[signal.Signals, ...]
) -> list[str]:
    """From now on signals come before or after the `moment`-th step that a sweep takes; gives the steps taken."""
    steps: list[str] = []

    def watched(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            steps.append(name)
            is_now = len(steps) == moment
            for number in numbers if is_now and not after else ():
                signal.raise_signal(number)
            try:
                return run(*arguments, **options)
            finally:
                for number in numbers if is_now and after else ():
                    signal.raise_signal(number)

        return step

    for place, names in (
        (FakeChild, ("__init__", "ask", "close")),
        (RunWriter, ("__init__", "update", "append_samples", "append_measurements", "keep_only")),
        (DeviceLock, ("acquire", "release")),
        (FolderLock, ("acquire", "release")),
        (table, ("load_table", "report_csv", "write_aside")),
    ):
        for name in names:
            monkeypatch.setattr(place, name, watched(name, getattr(place, name)))
    monkeypatch.setattr("profiling.opening.require_room", watched("require_room", require_room))
    return steps


def begin(folder: Path) -> str:
    """Runs a sweep as the command line does; returns its state, or that nothing was measured."""
    stop = StopSwitch()
    stop.on_signals()
    try:
        run = sweep(GRID, folder, stop=stop)
    except ChildStopped:
        return "before anything was measured"
    assert run.state == "finished" or run.state_reason.startswith("stopped by SIG")
    return run.state


@pytest.mark.parametrize(
    ("after", "numbers"), [(False, (signal.SIGTERM,)), (True, (signal.SIGINT, signal.SIGHUP))], ids=["before", "after"]
)
def test_a_signal_at_any_step_ends_a_sweep_in_good_order(
    fake: type[FakeChild], tmp_path: Path, after: bool, numbers: tuple[signal.Signals, ...]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        steps = interrupting(patch, 0, after=after, numbers=numbers)
        assert begin(tmp_path / "whole") == "finished"
    assert len(steps) > 20
    ends = set()
    for moment in range(1, len(steps) + 1):
        folder = tmp_path / str(moment)
        with pytest.MonkeyPatch.context() as patch:
            taken = interrupting(patch, moment, after=after, numbers=numbers)
            end = begin(folder)
        ends.add(end)
        what = f"{moment}: {taken[moment - 1]}"
        assert owner("cpu") is None, what
        assert fake.alive == [], what
        if end == "before anything was measured":
            assert not folder.exists(), what
            continue
        run, rows = read_run(folder), read_rows(folder / "measurements.csv", MEASUREMENT_COLUMNS)
        assert run.state == end, what
        assert len(rows) == 2 * run.progress.done, what
        assert list(folder.glob(".*")) == [], what
        if moment % 5 == 0:  # it takes a while
            fake.reset()
            sweep({}, folder, resume=True)
            assert len(measured_points(fake.asked)) == 2 - run.progress.done, what
            assert read_rows(folder / "measurements.csv", MEASUREMENT_COLUMNS)[: len(rows)] == rows, what
            assert len(load_run(folder)) == 2, what
    assert ends == {"before anything was measured", "stopped", "finished"}


def test_a_signal_during_the_report_of_a_finished_run_leaves_it_finished_and_says_how_to_get_the_table(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(_: object) -> str:
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the report was waited for")

    monkeypatch.setattr(table, "report_csv", slow)
    heard: list[Event] = []
    stop = StopSwitch()
    stop.on_signals()
    run = sweep(GRID, tmp_path / "run", stop=stop, on_event=heard.append)
    assert run.state == "finished"
    ended = heard[-1]
    assert isinstance(ended, Ended)
    assert ended.report is None
    assert describe(ended)[-1] == f"no table yet: python -m profiling export {tmp_path / 'run'}"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["measurements.csv", "run.json", "samples.csv"]


def test_a_large_run_that_is_stopped_is_not_waited_for_and_keeps_no_table_of_before(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiling.sweep.MOST_ROWS_REPORTED_AFTER_A_STOP", 5)
    sweep(GRID, tmp_path)
    assert (tmp_path / "report.csv").exists()
    stop = StopSwitch()

    def on_event(event: Event) -> None:
        if isinstance(event, StepStarted):
            assert not (tmp_path / "report.csv").exists(), "whatever ends this sweep, no table lacks its rows"
        if isinstance(event, StepStarted) and event.progress.replicate == 4:
            stop.request("by hand")

    with monkeypatch.context() as patch:
        patch.setattr(table, "load_table", lambda _: pytest.fail("a large run was read"))
        run = sweep({"replicates": 5}, tmp_path, resume=True, stop=stop, on_event=on_event)
    assert (run.state, run.progress.done) == ("stopped", 3)
    assert not (tmp_path / "report.csv").exists()
    assert sweep({}, tmp_path, resume=True).state == "finished"
    assert (tmp_path / "report.csv").exists()


# -- a suspension, for real -------------------------------------------------------------------------------------------

SUSPENDED_S = 6.0
LIMIT_S = 5


def running_phase() -> str:
    markers = Path(tempfile.gettempdir()).glob("mha-bench-child-*/running")
    return next((Marker(path).read().phase for path in markers), "")


@pytest.mark.soak
def test_a_sweep_that_was_suspended_longer_than_a_workload_may_take_loses_no_row(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    grid = ["--batch-size", "1", "--seq-len", "5", "--num-heads", "2", "--d-model", "10", "--contenders", "official"]
    quick = ["--device", "cpu", "--threads", "1", "--quiet-wait", "0", "--time-budget", "1.5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "profiling", "sweep", *grid, *quick, "--time-limit", str(LIMIT_S), "--out", folder],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("point 1 "):
                break
        me = psutil.Process(process.pid)
        children = [child for child in me.children(recursive=True) if "--marker" in child.cmdline()]
        while running_phase() != "latency":
            assert process.poll() is None
            time.sleep(0.01)
        for member in (me, *children):
            member.suspend()
        time.sleep(SUSPENDED_S)
        for member in (*children, me):
            member.resume()
        process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    rows = load_run(folder)
    assert (read_run(folder).state, rows["status"].tolist()) == ("finished", ["ok"])
    assert rows["latency_median_ms"].max() < 1e3 * SUSPENDED_S / 20, "the pause is in no median"
    longest_ms = load_samples(folder)["latency_ms"].max() * rows["calls_per_sample"][0]
    is_in_a_sample = longest_ms > 1e3 * SUSPENDED_S / 2  # and not in the moment between two of them
    assert ("the process stood still" in str(rows["warnings"][0])) == is_in_a_sample
