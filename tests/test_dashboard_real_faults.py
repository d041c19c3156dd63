"""The page over runs that real faults befell: what was measured stays in sight, and what befell the rest is told."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from dashboard_fakes import FakeChecker, opened
from faulty_layers import FAULTY, SEQ_LEN
from made_up_runs import FakeChild
from own_layers import write_layer
from real_faults import Talkative, small_disk, wait_until

from dashboard import services
from dashboard.jobs import Jobs
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks
from profiling import run_sweep
from profiling.device_lock import owner
from profiling.events import Event, StepFinished
from profiling.leftovers import FOLDER_PREFIX
from profiling.run_list import list_runs
from profiling.runs import RunError, read_run
from profiling.settings import SweepSettings
from profiling.sweep import sweep
from profiling.table import load_measurements, load_run
from profiling.workload import Grid

WHOLE = 11
GRID: dict[str, Any] = {
    "batch_size": [3],
    "seq_len": [SEQ_LEN, WHOLE],
    "num_heads": [2],
    "d_model": 10,
    "device": "cpu",
    "threads": 1,
    "contenders": ["custom", "official"],
    "time_budget_s": 0.01,
    "quiet_wait_s": 0,
}


@pytest.fixture(autouse=True)
def jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """The page's own sweeps, started for real; its live check is none."""
    real, checks = Jobs(), LiveChecks(FakeChecker)
    monkeypatch.setattr(services, "jobs", lambda: real)
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "layers", lambda: Layers(specs=(), complaints=()))
    yield real
    checks.close()
    if real.last is not None and real.last.is_alive:
        real.last.stop()
        real.last.wait(30)


def text(app: Any) -> str:
    assert not app.exception, app.exception
    parts = (part.value for part in (*app.markdown, *app.caption, *app.info, *app.warning, *app.error))
    return "\n".join(parts).replace("\\", "")  # what keeps a text from being markdown


def shown_table(app: Any) -> Any:
    """The table of the run as the page shows it."""
    return next(each.value for each in app.dataframe if "contender" in each.value.columns)


def results_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(folder))
    return folder


# -- layers that run out of memory, and that end their process --------------------------------------------------------


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faulty")
    write_layer(folder, text=FAULTY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        mine = ["mine.py:TorchOomInLatency", "mine.py:SegfaultsInLatency"]
        run_sweep(out=folder / "results" / "r", **{**GRID, "contenders": [*mine, "custom"]})
    return folder / "results"


def test_a_run_of_layers_that_fail_shows_each_status_its_reason_and_the_numbers_of_the_others(
    faulty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results_in(faulty, monkeypatch)
    app = opened(run="r", tab="Table")
    told = text(app)
    reasons = load_run(faulty / "r").set_index(["contender", "seq_len"])["status_reason"]
    for contender, status, words in (
        ("mine.py:TorchOomInLatency", "oom", "asked for 16.0 TiB: RuntimeError"),
        ("mine.py:SegfaultsInLatency", "crashed", "ended by signal 11 (SIGSEGV), at mine.py, line "),
    ):
        assert words in reasons[contender, SEQ_LEN]
        assert status in told
        assert words in told
    table = shown_table(app).set_index(["contender", "seq_len"])
    assert table["status"]["TorchOomInLatency", SEQ_LEN] == "oom"
    assert table["status"]["SegfaultsInLatency", SEQ_LEN] == "crashed"
    assert table["latency_median_ms"].notna().sum() == len(table) - 2
    for contender in ("custom", "official"):
        for seq_len in (SEQ_LEN, WHOLE):
            assert table["latency_median_ms"][contender, seq_len] > 0


# -- a disk that is full, or read-only --------------------------------------------------------------------------------


def assert_shows_what_was_measured(results: Path, words: str) -> None:
    """The page tells why the run ended, and shows the rows that were measured before."""
    (run,) = list_runs(results).runs
    rows = load_measurements(results / run.run_id)
    assert 0 < len(rows) < 14
    app = opened(run=run.run_id, tab="Table")
    told = text(app)
    assert words in told
    assert len(shown_table(app)) == len(rows)
    assert (shown_table(app)["latency_median_ms"] > 0).all()
    assert owner("cpu") is None


LONG = {**GRID, "seq_len": [5, 7, 11, 13, 17, 19, 23]}


NEEDS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="mounting takes root: the twin with a limit on the size of a file runs without"
)


@NEEDS_ROOT
def test_a_run_that_a_full_disk_ended_is_shown_with_its_message_and_its_rows(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiling.measurer.MeasuringChild", Talkative)
    with small_disk(tmp_path / "disk", "512k") as disk:
        results_in(disk, monkeypatch)
        with pytest.raises(RunError, match="No space left on device"):
            sweep(LONG, disk / "r")
        assert_shows_what_was_measured(disk, "samples.csv cannot be written: No space left on device")
        assert fake.alive == []


@pytest.mark.soak
def test_a_run_that_a_limit_on_its_files_ended_is_shown_with_its_message_and_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = results_in(tmp_path / "results", monkeypatch)
    words = "--batch-size 1 --seq-len 5,7,11,13,17,19,23 --num-heads 2 --d-model 10 --device cpu --threads 1"
    how = "--time-budget 0.005 --quiet-wait 0 --contenders custom,official"
    command = [sys.executable, "-m", "profiling", "sweep", *words.split(), *how.split(), "--out", str(results / "r")]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))

    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, preexec_fn=limit)
    assert done.returncode == 1
    assert_shows_what_was_measured(results, "csv cannot be written: File too large")


@NEEDS_ROOT
def test_a_disk_that_becomes_read_only_ends_the_sweep_with_a_sentence_and_the_page_shows_the_rows(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        results_in(disk, monkeypatch)

        def remount(how: str) -> None:
            subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)

        def on_event(event: Event) -> None:
            if isinstance(event, StepFinished) and event.progress.done == 2:
                remount("ro")

        with pytest.raises(RunError, match=r"cannot be written: Read-only file system"):
            sweep(LONG, disk / "r", on_event=on_event)
        assert fake.alive == []
        assert owner("cpu") is None
        assert load_measurements(disk / "r")["seq_len"].tolist() == [5, 5, 7, 7]
        # It could not say its end; this process, which is not its own any more, is what its folder names.
        assert read_run(disk / "r").state == "running"
        assert len(shown_table(opened(run="r", tab="Table"))) == 4
        remount("rw")
        fake.reset()
        assert sweep({}, disk / "r", resume=True).state == "finished"
        assert len(load_run(disk / "r")) == 14


# -- a folder that is taken away --------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_sweep_whose_folder_is_taken_away_while_it_measures_says_so_in_the_page_and_makes_none_anew(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = results_in(tmp_path / "results", monkeypatch)
    grid = Grid(batch_size=(3,), seq_len=tuple(range(5, 200)), num_heads=(2,), d_model=10, device="cpu", threads=1)
    job = jobs.start(grid, SweepSettings(contenders=("custom",), time_budget_s=0.01, quiet_wait_s=0), "cpu")
    folder = results / job.run_id
    process = psutil.Process(job.pid)
    assert wait_until(lambda: not job.is_alive or (folder / "measurements.csv").exists(), 60)
    assert job.is_alive, job.error
    children = process.children(recursive=True)
    assert children
    folder.rename(tmp_path / "gone")  # at once: what is taken apart file by file may be written between
    shutil.rmtree(tmp_path / "gone")
    assert job.wait(60)
    assert job.error.startswith(f"{folder}/")
    assert "cannot be written: No such file or directory" in job.error
    told = text(opened())
    assert job.error in told
    assert list(results.iterdir()) == [], "nothing is made anew where someone took all away"
    assert owner("cpu") is None
    assert wait_until(lambda: not any(child.is_running() for child in children), 20)
    assert list(Path(os.environ["TMPDIR"]).glob(f"{FOLDER_PREFIX}*")) == []
