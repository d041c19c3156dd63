"""Folders that cannot be written, or no longer: told before anything is measured where it can be known."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import FakeChild, make_row, make_workload, measured_points, write_run
from real_faults import Talkative, small_disk

from dashboard.jobs import Jobs
from profiling import run_sweep
from profiling.child_process import MeasuringError
from profiling.device_lock import owner
from profiling.disk_room import ROW_BYTES, SAMPLE_BYTES, SHORTEST_SAMPLE_S, needed_bytes, require_room, require_writable
from profiling.events import Event, StepFinished
from profiling.measuring.latency import SAMPLE_S
from profiling.runs import RunError, read_run
from profiling.settings import SweepSettings
from profiling.sweep import sweep
from profiling.table import load_measurements, load_run, load_samples
from profiling.workload import Grid

GRID: dict[str, Any] = {
    "batch_size": [3],
    "seq_len": [5, 7, 11, 13, 17, 19, 23],
    "num_heads": [2],
    "d_model": 10,
    "device": "cpu",
    "contenders": ["custom", "official"],
    "time_budget_s": 0.02,
    "quiet_wait_s": 0,
}
IS_ROOT = os.geteuid() == 0


@contextlib.contextmanager
def unprivileged() -> Iterator[Path]:
    """A folder of a user for whom the bits of a file's mode hold: they do not for root."""
    folder = Path(tempfile.mkdtemp(prefix="mb-user-"))
    if IS_ROOT:
        os.chmod(tempfile.gettempdir(), 0o711)
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if IS_ROOT:
            os.seteuid(0)
        shutil.rmtree(folder, ignore_errors=True)


def assert_whole_lines(folder: Path) -> None:
    for name in ("samples.csv", "measurements.csv"):
        assert (folder / name).read_bytes().endswith(b"\n"), name


def assert_nothing_is_left(fake: type[FakeChild]) -> None:
    assert owner("cpu") is None
    assert fake.alive == []


# -- a disk that fills up while it is measured ------------------------------------------------------------------------


@pytest.mark.skipif(not IS_ROOT, reason="mounting takes root: the twin with a limit on the size of a file runs without")
def test_a_full_disk_ends_the_sweep_at_the_row_and_more_room_lets_it_go_on(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiling.measurer.MeasuringChild", Talkative)
    with small_disk(tmp_path / "disk", "512k") as disk:
        folder = disk / "run"
        with pytest.raises(RunError, match=r"samples\.csv cannot be written: No space left on device"):
            sweep(GRID, folder)
        assert_nothing_is_left(fake)
        assert_whole_lines(folder)
        seq_lens = load_measurements(folder)["seq_len"].tolist()
        assert seq_lens == [n for n in GRID["seq_len"][: len(seq_lens) // 2] for _ in "ab"]
        assert 0 < len(seq_lens) < 14
        assert len(load_samples(folder)) == 2000 * len(seq_lens)
        assert len(load_run(folder)) == len(seq_lens)
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        fake.reset()
        assert sweep({}, folder, resume=True).state == "finished"
        assert measured_points(fake.asked) == GRID["seq_len"][len(seq_lens) // 2 :]
        assert not load_samples(folder).duplicated(["replicate", "point", "contender", "round"]).any()


@pytest.mark.soak
def test_a_limit_on_the_size_of_a_file_ends_a_real_sweep_at_the_row(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    grid = ["--batch-size", "1", "--seq-len", "5,7,11,13,17,19,23", "--num-heads", "2", "--d-model", "10"]
    quick = ["--device", "cpu", "--threads", "1", "--time-budget", "0.005", "--quiet-wait", "0"]
    names = ["--contenders", "custom,official"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "profiling", "sweep", *arguments, "--out", str(folder)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, **options)

    done = run(*grid, *quick, *names, preexec_fn=limit)
    words = "csv cannot be written: File too large"
    assert (done.returncode, words in done.stderr, done.stderr.count("\n")) == (1, True, 1), done.stderr
    assert_whole_lines(folder)
    before = load_measurements(folder)
    assert 0 < len(before) < 14
    assert read_run(folder).state == "failed"
    assert owner("cpu") is None
    done = run("--resume")
    assert (done.returncode, done.stderr) == (0, "")
    after = load_measurements(folder)
    assert after["seq_len"].tolist() == [n for n in GRID["seq_len"] for _ in "ab"]
    assert after.head(len(before)).equals(before)


def test_a_run_that_could_not_say_its_end_is_gone_on_with_in_the_same_process(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    def fill_up(event: Event) -> None:
        if isinstance(event, StepFinished):
            monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(RunError, match=r"run\.json cannot be written: No space left on device"):
        sweep(GRID, tmp_path, on_event=fill_up)
    monkeypatch.setattr(os, "fsync", real)
    assert read_run(tmp_path).state == "running", "it could not be said"
    fake.reset()
    assert sweep({}, tmp_path, resume=True).state == "finished"
    assert measured_points(fake.asked) == GRID["seq_len"][1:]


def test_a_sweep_that_can_start_no_process_any_more_ends_and_is_gone_on_with_later(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(FakeChild):
        """The folder of temporary files is full from the second replicate on."""

        def __init__(self, *, heap: str = "as-is", lock_fd: int | None = None) -> None:
            if measured_points(FakeChild.asked):
                raise OSError(28, "No space left on device")
            super().__init__(heap=heap, lock_fd=lock_fd)

    monkeypatch.setattr("profiling.measurer.MeasuringChild", Full)
    with pytest.raises(MeasuringError, match=r"^no measuring process can be started: No space left on device$"):
        sweep({**GRID, "replicates": 2}, tmp_path)
    assert read_run(tmp_path).state == "failed"
    assert load_measurements(tmp_path)["status"].tolist() == ["ok"] * 14
    assert_nothing_is_left(fake)
    monkeypatch.setattr("profiling.measurer.MeasuringChild", FakeChild)
    fake.reset()
    assert sweep({}, tmp_path, resume=True).state == "finished"
    assert measured_points(fake.asked) == GRID["seq_len"]


def test_a_report_that_cannot_be_written_leaves_a_finished_run_finished(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(GRID, tmp_path)
    (tmp_path / "report.csv").unlink()
    (tmp_path / "report.csv").mkdir()
    with pytest.raises(RunError, match=r"report\.csv cannot be written: .*; every row is safe in measurements\.csv"):
        sweep({}, tmp_path, resume=True)
    assert read_run(tmp_path).state == "finished"
    assert_nothing_is_left(fake)


# -- known before anything is measured --------------------------------------------------------------------------------


def test_too_little_room_is_refused_with_the_numbers_and_leaves_no_folder(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("usage", (), {"free": 3 * 2**20})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert sweep(GRID, tmp_path / "small").state == "finished"
    fake.reset()
    with pytest.raises(RunError, match=r"has 3\.00 MiB free, and what is to be measured may fill [\d,.]+ MiB: make"):
        sweep({**GRID, "replicates": 997}, tmp_path / "large")
    assert measured_points(fake.asked) == []
    assert not (tmp_path / "large").exists()
    with pytest.raises(RunError, match="MiB free"):
        sweep({"replicates": 997}, tmp_path / "small", resume=True)
    assert sweep({"replicates": 2}, tmp_path / "small", resume=True).state == "finished"
    assert_nothing_is_left(fake)


@pytest.mark.skipif(not IS_ROOT, reason="mounting takes root: the twin with a made-up disk runs without")
def test_a_disk_too_small_and_one_that_is_read_only_are_refused(fake: type[FakeChild], tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        with pytest.raises(RunError, match=r"has 64\.0 KiB free, and what is to be measured may fill 1\d\d KiB"):
            sweep(GRID, disk / "run")
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        sweep(GRID, disk / "run")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for folder, resume in ((disk / "new", False), (disk / "run", True)):
            with pytest.raises(RunError, match=r"cannot be written: Read-only file system"):
                sweep({} if resume else GRID, folder, resume=resume)
        assert len(load_run(disk / "run")) == 14
    assert_nothing_is_left(fake)


def test_what_a_run_will_fill_follows_from_its_rows_and_raw_times() -> None:
    settings = SweepSettings(contenders=("custom", "official"), time_budget_s=0.4)
    one = needed_bytes(settings, [make_workload()]) - needed_bytes(settings, [])
    # custom, official and the clone of official; a sample lasts 4 ms at least.
    assert one == 2 * ROW_BYTES + 3 * 100 * SAMPLE_BYTES
    assert needed_bytes(settings, [make_workload(num_heads=3)]) - needed_bytes(settings, []) == 2 * ROW_BYTES
    assert SHORTEST_SAMPLE_S == SAMPLE_S


def test_what_is_reserved_for_rows_and_times_is_more_than_real_ones_take() -> None:
    example = Path(__file__).parent.parent / "results" / "example"
    num_rows, num_samples = len(load_measurements(example)), len(load_samples(example))
    files = {path.name: path.stat().st_size for path in example.iterdir()}
    assert (files["measurements.csv"] + 2 * files["report.csv"]) / num_rows < ROW_BYTES
    assert files["samples.csv"] / num_samples + len("20260102-030405-abcd") < SAMPLE_BYTES


def test_a_disk_that_does_not_say_how_full_it_is_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(shutil, "disk_usage", fail)
    require_room(tmp_path / "run", SweepSettings(), [make_workload()])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("file/run", r"/file/run cannot be a run's folder: .*/file is no folder"),
        ("file", "/file cannot be a run's folder: "),
        ("link/run", r"/link is no folder"),
        ("x" * 300, "cannot be written: File name too long"),
        ("nu\0ll", r"cannot be made: .*null"),
    ],
)
def test_a_place_where_no_folder_can_be_is_told_before_a_child_is_started(
    fake: type[FakeChild], tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunError, match=words):
        run_sweep(out=f"{tmp_path}/{name}", **GRID)
    assert fake.asked == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.parametrize("name", [b"two\nlines", b"caf\xe9", b"a b,c", b"-x", b"=1+1"])
def test_a_folder_of_any_name_holds_a_run(fake: type[FakeChild], tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / "missing" / os.fsdecode(name)
    table = run_sweep(out=folder, **GRID)
    assert len(table) == 14
    assert (folder / "measurements.csv").read_bytes().count(b"\n") == 15
    fake.reset()
    assert sweep({}, folder, resume=True).state == "finished"
    assert measured_points(fake.asked) == []


def test_a_folder_or_a_file_without_leave_to_write_is_told() -> None:
    with unprivileged() as folder:
        write_run(folder / "run", [make_row()])
        (folder / "run" / "measurements.csv").chmod(0o444)
        with pytest.raises(RunError, match=r"measurements\.csv cannot be written: it is read-only"):
            require_writable(folder / "run")
        (folder / "run" / "measurements.csv").chmod(0o644)
        require_writable(folder / "run")
        require_writable(folder / "not" / "yet" / "there")
        (folder / "run").chmod(0o555)
        for place in (folder / "run", folder / "run" / "deeper"):
            with pytest.raises(RunError, match="cannot be written: Permission denied"):
                require_writable(place)
        (folder / "run").chmod(0o755)


def test_the_page_says_in_the_sweeps_own_words_why_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").write_text("mine", encoding="utf-8")
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path / "results"))
    job = Jobs().start(Grid(), SweepSettings(), "cpu")
    assert job.wait(60)
    assert job.error == f"{tmp_path}/results/{job.run_id} cannot be a run's folder: {tmp_path}/results is no folder"


# -- taken away underneath --------------------------------------------------------------------------------------------


def replace_by_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("mine", encoding="utf-8")


def cut(folder: Path) -> None:
    path = folder / "measurements.csv"
    path.write_bytes(path.read_bytes()[:-70])


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (shutil.rmtree, r"run\.json cannot be written: No such file or directory"),
        (replace_by_a_file, r"run\.json cannot be written: Not a directory"),
        (
            lambda folder: (folder / "measurements.csv").unlink(),
            r"measurements\.csv was cut or removed by something else",
        ),
        (lambda folder: (folder / "samples.csv").unlink(), r"samples\.csv was cut or removed by something else"),
        (cut, r"measurements\.csv was cut or removed by something else"),
    ],
)
def test_what_is_taken_away_underneath_ends_the_sweep_with_a_sentence(
    fake: type[FakeChild], tmp_path: Path, fault: Callable[[Path], object], words: str
) -> None:
    folder = tmp_path / "run"

    def on_event(event: Event) -> None:
        if isinstance(event, StepFinished) and event.progress.done == 2:
            fault(folder)

    with pytest.raises(RunError, match=words):
        sweep(GRID, folder, on_event=on_event)
    assert_nothing_is_left(fake)
    assert measured_points(fake.asked) in ([5, 7], [5, 7, 11])
    if folder.is_dir():
        assert read_run(folder).state == "failed"
        fake.reset()
        assert sweep({}, folder, resume=True).state == "finished"
        rows = load_measurements(folder)
        assert len(rows) == 14
        assert not rows.duplicated(["replicate", "point", "contender"]).any()
    else:
        assert list(tmp_path.rglob("*.csv")) == [], "nothing is made anew where someone took all away"
