"""Kills and power cuts: what was measured is there and readable, and going on measures exactly what is missing."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from browser_server import wait_for
from made_up_runs import FakeChild, make_row, make_run, measured_points, write_run

from profiling.device_lock import owner
from profiling.events import Event, StepStarted
from profiling.host import host_mark
from profiling.resuming import finished_steps, stored_run
from profiling.run_writer import RunWriter
from profiling.runs import ELSEWHERE_PATIENCE_S, RunError, now, read_run
from profiling.safe_files import write_aside
from profiling.sweep import sweep
from profiling.table import load_measurements, load_run, load_samples

pytestmark = pytest.mark.usefixtures("unsynced")

GRID: dict[str, Any] = {
    "batch_size": [3],
    "seq_len": [5, 7],
    "num_heads": [2],
    "d_model": 10,
    "device": "cpu",
    "contenders": ["custom", "official"],
    "time_budget_s": 0.02,
    "quiet_wait_s": 0,
    "replicates": 2,
}
STEPS = [(replicate, seq_len) for replicate in (1, 2) for seq_len in (5, 7)]


def assert_whole(folder: Path) -> None:
    """Each row once, each sample once, no sample without its row, no row without its samples."""
    rows, samples = load_measurements(folder), load_samples(folder)
    place = ["replicate", "point", "contender"]
    assert not rows.duplicated(place).any()
    assert not samples.duplicated([*place, "round"]).any()
    places = {tuple(row) for row in rows[place].to_numpy()}
    sampled = samples[~samples["contender"].str.startswith("clone:")]
    assert {tuple(row) for row in sampled[place].to_numpy()} == places
    assert places == {(r, p, name) for r in (1, 2) for p in (1, 2) for name in ("custom", "official")}
    # Where a real child told the sources of its rows, they are kept beside them.
    files = sorted(path.name for path in folder.iterdir() if path.name != "sources")
    assert files == ["measurements.csv", "report.csv", "run.json", "samples.csv"]


# -- a power cut: whatever of the last write came to the disk ---------------------------------------------------------


@pytest.fixture
def finished(fake: type[FakeChild], tmp_path: Path) -> dict[str, bytes]:
    """The files of a finished run, by name; `.before` of each as it was before the last workload was written."""
    before: dict[str, bytes] = {}

    def on_event(event: Event) -> None:
        if isinstance(event, StepStarted):
            before.update({f"{path.name}.before": path.read_bytes() for path in (tmp_path / "first").iterdir()})

    sweep(GRID, tmp_path / "first", on_event=on_event)
    return before | {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}


def cut_run(folder: Path, finished: dict[str, bytes], *, samples: bytes, measurements: bytes) -> None:
    """A run whose supervisor is gone in the middle of its last workload."""
    folder.mkdir()
    (folder / "run.json").write_bytes(finished["run.json.before"])
    values = json.loads(finished["run.json.before"])
    assert values["state"] == "running"
    (folder / "run.json").write_text(json.dumps(values | {"process_started": 1.0}), encoding="utf-8")
    (folder / "samples.csv").write_bytes(samples)
    (folder / "measurements.csv").write_bytes(measurements)


def go_on(folder: Path, fake: type[FakeChild]) -> list[int]:
    """What a resumed sweep measures."""
    assert read_run(folder).state == "stopped"
    load_run(folder)
    fake.reset()
    sweep({}, folder, resume=True)
    assert_whole(folder)
    return measured_points(fake.asked)


def cut_to_whole_workloads(folder: Path) -> int:
    """Drops what is torn, as a resumed sweep does before it measures; returns how many workloads stand."""
    done = finished_steps(folder, ("custom", "official"), num_replicates=2, num_points=2)
    RunWriter(folder, read_run(folder)).keep_only(done)
    return len(done)


@pytest.mark.parametrize("file", ["samples.csv", "measurements.csv"])
@pytest.mark.parametrize("tail", [b"", b"\0" * 37], ids=["cut", "zeros"])
def test_a_write_torn_at_any_byte_costs_the_workload_in_flight_and_no_other(
    finished: dict[str, bytes], tmp_path: Path, file: str, tail: bytes
) -> None:
    whole, before = finished[file], finished[f"{file}.before"]
    assert whole.startswith(before)
    for offset in range(len(before), len(whole) + 1, 7 if tail else 1):
        folder = tmp_path / f"cut-{offset}"
        cut = whole[:offset] + tail
        if file == "samples.csv":  # written first: its rows were not begun
            cut_run(folder, finished, samples=cut, measurements=finished["measurements.csv.before"])
        else:
            cut_run(folder, finished, samples=finished["samples.csv"], measurements=cut)
        is_whole = file == "measurements.csv" and offset == len(whole)
        if offset % 17 == 0:  # it takes a while
            assert len(load_measurements(folder)) >= 6, "what was measured is readable before anything is mended"
        assert cut_to_whole_workloads(folder) == (4 if is_whole else 3), offset
        for name in ("samples.csv", "measurements.csv"):
            assert (folder / name).read_bytes() == finished[name if is_whole else f"{name}.before"], (name, offset)


def test_a_file_torn_at_any_byte_keeps_its_whole_workloads_and_the_samples_of_those(
    finished: dict[str, bytes], tmp_path: Path
) -> None:
    rows, samples = (finished[name].splitlines(keepends=True) for name in ("measurements.csv", "samples.csv"))
    for offset in range(0, len(finished["measurements.csv"]), 3):
        folder = tmp_path / f"cut-{offset}"
        cut = finished["measurements.csv"][:offset]
        cut_run(folder, finished, samples=finished["samples.csv"], measurements=cut)
        num_done = max(0, cut.count(b"\n") - 1) // 2  # below the header two rows each
        assert cut_to_whole_workloads(folder) == num_done
        assert (folder / "measurements.csv").read_bytes() == b"".join(rows[: 1 + 2 * num_done])
        assert (folder / "samples.csv").read_bytes() == b"".join(samples[: 1 + 4 * num_done])


@pytest.mark.parametrize(("file", "share"), [("samples.csv", 0.0), ("samples.csv", 0.7), ("measurements.csv", 0.6)])
def test_a_sweep_gone_on_with_after_a_torn_write_measures_what_is_missing_and_nothing_else(
    fake: type[FakeChild], finished: dict[str, bytes], tmp_path: Path, file: str, share: float
) -> None:
    whole, before = finished[file], finished[f"{file}.before"]
    files = {"samples": finished["samples.csv"], "measurements": finished["measurements.csv.before"]}
    torn = {file.removesuffix(".csv"): whole[: len(before) + int(share * (len(whole) - len(before)))]}
    cut_run(tmp_path / "run", finished, **files | torn)
    assert go_on(tmp_path / "run", fake) == [7]


@pytest.mark.parametrize("content", [b"", b"\0" * 4096], ids=["empty", "zeros"])
@pytest.mark.parametrize("file", ["samples.csv", "measurements.csv"])
def test_a_file_that_a_crash_of_the_file_system_emptied_is_written_anew(
    fake: type[FakeChild], finished: dict[str, bytes], tmp_path: Path, file: str, content: bytes
) -> None:
    files = {"samples": finished["samples.csv"], "measurements": finished["measurements.csv"]}
    cut_run(tmp_path / "run", finished, **files | {file.removesuffix(".csv"): content})
    if file == "samples.csv":  # rows stand, though the raw times behind them are lost
        fake.reset()
        sweep({}, tmp_path / "run", resume=True)
        assert measured_points(fake.asked) == []
        assert len(load_measurements(tmp_path / "run")) == 8
    else:
        assert go_on(tmp_path / "run", fake) == [5, 7, 5, 7]


def test_columns_in_another_order_are_put_back_before_rows_are_added(
    fake: type[FakeChild], finished: dict[str, bytes], tmp_path: Path
) -> None:
    lines = finished["measurements.csv.before"].decode().splitlines()
    turned = "".join(",".join(reversed(line.split(","))) + "\n" for line in lines)
    cut_run(tmp_path / "run", finished, samples=finished["samples.csv"], measurements=turned.encode())
    assert go_on(tmp_path / "run", fake) == [7]
    assert load_measurements(tmp_path / "run")["latency_median_ms"].tolist() == [2.0] * 8


@pytest.mark.parametrize("content", [b"", b"\0" * 512, b'{"run_id": "ru'], ids=["empty", "zeros", "half"])
def test_half_a_run_json_is_told_and_nothing_beside_it_is_touched(
    fake: type[FakeChild], finished: dict[str, bytes], tmp_path: Path, content: bytes
) -> None:
    cut_run(tmp_path / "run", finished, samples=finished["samples.csv"], measurements=finished["measurements.csv"])
    (tmp_path / "run" / "run.json").write_bytes(content)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for resume in (True, False):
        with pytest.raises(RunError):
            sweep({} if resume else GRID, tmp_path / "run", resume=resume)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_what_was_being_written_aside_when_the_power_went_is_removed_at_the_next_opening(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    write_run(tmp_path, [make_row()])
    names = [f".run.json.{dead.pid}.tmp", f".report.csv.{dead.pid}.tmp", f".run.json.{os.getpid()}.tmp"]
    names += [f".notes.json.{dead.pid}-{dead.pid + 1}.tmp"]
    kept = [".mine.tmp", f".mine.{dead.pid}.tmp", f".report.csv.{os.getppid()}.tmp", ".run.json.99999999999.tmp"]
    for name in [*names, *kept]:
        (tmp_path / name).write_text("half", encoding="utf-8")
    RunWriter(tmp_path, make_run())
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "measurements.csv", *kept}


def test_a_rename_is_waited_for_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def record(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append((path.name, (tmp_path / "file").exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    write_aside(tmp_path / "file", "text")
    assert synced == [(f".file.{os.getpid()}-{threading.get_native_id()}.tmp", False), (tmp_path.name, True)]


def test_an_interrupt_in_mid_write_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    writer = RunWriter(tmp_path, make_run())
    writer.append_measurements([make_row()])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(os, "fsync", interrupt)
    for write in (writer.update, lambda: writer.append_measurements([make_row("official")])):
        with pytest.raises(KeyboardInterrupt):
            write()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# -- kill -9 of the supervisor and of whoever started it, for real ----------------------------------------------------

SLOW = [
    *(
        "--batch-size",
        "3",
        "--seq-len",
        "5,7",
        "--num-heads",
        "2",
        "--d-model",
        "10",
        "--contenders",
        "custom,official",
    ),
    *("--device", "cpu", "--threads", "1", "--time-budget", "0.2", "--quiet-wait", "0", "--replicates", "2"),
]
PATIENCE_S = 60.0


def num_done(folder: Path) -> int:
    try:
        return read_run(folder).progress.done
    except RunError:
        return -1


def temporary_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("mha-bench-child-*"))


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def sweeping(folder: Path, command: list[str]) -> Iterator[tuple[subprocess.Popen[Any], list[psutil.Process]]]:
    """A process that has a sweep measure into `folder`, at its second workload, with what it has started."""
    before = temporary_folders()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    with ended(process):
        wait_for(lambda: num_done(folder) >= 1, "the second workload", PATIENCE_S)
        others = psutil.Process(process.pid).children(recursive=True)
        yield process, others
    _, alive = psutil.wait_procs(others, timeout=PATIENCE_S)
    assert alive == []
    assert owner("cpu") is None
    wait_for(lambda: temporary_folders() <= before, "the end of the temporary folders", PATIENCE_S)


def resume(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profiling", "sweep", "--resume", "--out", str(folder)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=180)


@pytest.mark.soak
def test_a_sweep_killed_with_its_child_leaves_its_rows_and_no_process_and_goes_on_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with sweeping(folder, [sys.executable, "-m", "profiling", "sweep", *SLOW, "--out", str(folder)]) as (
        process,
        others,
    ):
        children = [other for other in others if "--marker" in other.cmdline()]
        assert len(children) == 1
        process.kill()
        children[0].kill()
        process.wait()
        before = load_measurements(folder)
        assert len(before) >= 2
        assert read_run(folder).state == "stopped"
        done = resume(folder)  # at once: of a dead sweep there may be a child at its end, at most
        assert (done.returncode, done.stderr) == (0, "")
    assert_whole(folder)
    assert load_measurements(folder).head(len(before)).equals(before), "what was measured was not measured again"


SERVER = """
import sys, time
from dashboard.jobs import Jobs
from profiling.settings import SweepSettings
from profiling.workload import Grid

grid = Grid(batch_size=(3,), seq_len=(5, 7), num_heads=(2,), d_model=10, device="cpu", threads=1)
settings = SweepSettings(contenders=("custom", "official"), replicates=2, time_budget_s=0.2, quiet_wait_s=0.0)
job = Jobs().start(grid, settings, "cpu")
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_sweep_of_a_server_that_ends_stops_in_good_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before = temporary_folders()
    with ended(process):
        wait_for(lambda: any(num_done(folder) >= 1 for folder in tmp_path.iterdir()), "the second workload", PATIENCE_S)
        others = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(getattr(signal, how))
        process.wait(PATIENCE_S)
    _, alive = psutil.wait_procs(others, timeout=PATIENCE_S)
    assert alive == []
    (folder,) = tmp_path.iterdir()
    run = read_run(folder)
    assert (run.state, run.state_reason) == ("stopped", "stopped by whoever started it")
    assert len(load_measurements(folder)) == 2 * run.progress.done > 0
    assert (folder / "report.csv").exists()
    assert owner("cpu") is None
    wait_for(lambda: temporary_folders() <= before, "the end of the temporary folders", PATIENCE_S)


# -- a run that another machine writes --------------------------------------------------------------------------------


def test_a_run_of_another_machine_counts_as_running_as_long_as_it_writes(tmp_path: Path) -> None:
    elsewhere = {"state": "running", "host": "another", "pid": os.getpid(), "process_started": 1.0}
    write_run(tmp_path, [make_row()], **elsewhere)
    assert read_run(tmp_path).state == "running"
    with pytest.raises(RunError, match=rf"is still running \(process {os.getpid()} on another machine, since 2026-"):
        stored_run(tmp_path, resume=True)
    values = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert values["updated_at"] <= now()
    for updated_at in ("2026-01-02T03:04:05+00:00", "yesterday", "2026-01-02T03:04:05"):
        (tmp_path / "run.json").write_text(json.dumps(values | {"updated_at": updated_at}), encoding="utf-8")
        assert read_run(tmp_path).state == "stopped"
    assert ELSEWHERE_PATIENCE_S >= 600, "a workload may take long, and nothing is written meanwhile"


def test_a_run_says_which_machine_wrote_it_without_naming_it(fake: type[FakeChild], tmp_path: Path) -> None:
    sweep(GRID, tmp_path)
    host = read_run(tmp_path).host
    assert host == host_mark()
    assert len(host) == 12
    assert platform.node() not in (tmp_path / "run.json").read_text(encoding="utf-8")
