from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from profiling.check_report import error_report
from profiling.cli import main
from profiling.columns import MEASUREMENT_COLUMNS, names
from profiling.commands.check import CHECK_EXITS
from profiling.device_lock import owner
from profiling.environment import ROOT
from profiling.runs import read_run
from profiling.table import load_measurements, load_run, load_samples, report_csv
from profiling.workload import Workload

pytestmark = pytest.mark.usefixtures("own_signals")

QUICK = ["--device", "cpu", "--threads", "1", "--time-budget", "0.02", "--quiet-wait", "0"]
ONE_POINT = ["--batch-size", "1", "--seq-len", "5", "--num-heads", "2", "--d-model", "10", "--contenders", "official"]
# As the project's first issue writes it.
ISSUE = ["--batch-size", "1,2", "--seq-len", "16,32", "--num-heads", "2,3,4", "--d-model", "64"]
PATIENCE_S = 60.0


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "profiling", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def issue_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("issue") / "run"
    return folder, run("sweep", *ISSUE, *QUICK, "--out", folder)


@pytest.fixture
def copy(issue_run: tuple[Path, object], tmp_path: Path) -> Path:
    return Path(shutil.copytree(issue_run[0], tmp_path / "run"))


# -- a sweep, for real ------------------------------------------------------------------------------------------------


def test_a_sweep_runs_as_the_issue_writes_it(issue_run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = issue_run
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"run run in {folder}"
    assert "12 points, 4 of them invalid x 4 contenders (custom, custom-fused, official, official-fused)" in lines[2]
    assert any(line.startswith("point 12 of 12: batch 2, seq_len 32, heads 4, d_model 64") for line in lines)
    assert lines[-2] == "finished: 12 of 12 points measured"
    assert "\x1b" not in done.stdout


def test_its_rows_have_the_schema_and_three_heads_are_invalid(issue_run: tuple[Path, object]) -> None:
    rows = load_measurements(issue_run[0])
    header = (issue_run[0] / "measurements.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header.split(",") == names(MEASUREMENT_COLUMNS)
    assert len(rows) == 48
    assert rows[rows["num_heads"] == 3]["status"].tolist() == ["invalid"] * 16
    assert rows[rows["num_heads"] != 3]["status"].tolist() == ["ok"] * 32
    compared = rows[(rows["status"] == "ok") & rows["reference"].notna()]
    assert compared["max_abs_error"].tolist() == [0.0] * 16
    assert compared["speedup"].notna().all()


def test_its_report_is_its_table(issue_run: tuple[Path, object], tmp_path: Path) -> None:
    folder = issue_run[0]
    report = (folder / "report.csv").read_bytes()
    assert report == report_csv(load_run(folder)).encode()
    done = run("export", folder, "--out", tmp_path / "mine.csv")
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "mine.csv"))
    assert (tmp_path / "mine.csv").read_bytes() == report


def test_resume_measures_exactly_what_is_missing(copy: Path) -> None:
    path = copy / "measurements.csv"
    lines = path.read_bytes().splitlines(keepends=True)
    before = lines[:36] + lines[40:45]  # point 9 lies at 33 to 36
    torn = [*lines[:33], *lines[34:45], lines[45][:-9]]  # one row of point 9 missing, point 12 torn
    path.write_bytes(b"".join(torn))
    done = run("sweep", "--out", copy, "--resume")
    assert done.returncode == 0, done.stderr
    assert "10 of 12 measured before" in done.stdout
    assert done.stdout.count("\npoint ") == 2
    after = path.read_bytes().splitlines(keepends=True)
    kept = [line for line in before if b",9,1,16," not in line and b",12,2,32," not in line]
    assert set(kept) <= set(after), "what was there is there byte for byte"
    rows = load_measurements(copy)
    assert len(rows) == 48
    assert not rows.duplicated(["replicate", "point", "contender"]).any()
    assert not load_samples(copy).duplicated(["replicate", "point", "contender", "round"]).any()
    assert (copy / "report.csv").read_bytes() == report_csv(load_run(copy)).encode()


def test_resume_is_refused_where_a_layers_source_differs(copy: Path) -> None:
    values = json.loads((copy / "run.json").read_text(encoding="utf-8"))
    values["sources"]["custom"] = "0" * 16
    (copy / "run.json").write_text(json.dumps(values), encoding="utf-8")
    done = run("sweep", "--out", copy, "--resume")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: run run cannot be resumed: its source of custom was '0000000000000000', now '"
    )
    assert json.loads((copy / "run.json").read_text(encoding="utf-8")) == values


# -- ending one -------------------------------------------------------------------------------------------------------


class Sweep:
    """A sweep that would take hours, started at the command line."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        grid = ["--batch-size", "1", "--seq-len", "5,7", "--num-heads", "2", "--d-model", "10"]
        slow = [
            "--device",
            "cpu",
            "--threads",
            "1",
            "--time-budget",
            "3600",
            "--quiet-wait",
            "0",
            "--contenders",
            "official",
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "profiling", "sweep", *grid, *slow, "--out", str(folder), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.family: list[psutil.Process] = []

    def wait_until_it_measures(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("point "):
                break
        me = psutil.Process(self.process.pid)
        self.family = [me, *me.children(recursive=True)]
        assert len(self.family) >= 2

    def end(self) -> tuple[int, str]:
        _, stderr = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, stderr

    def assert_nothing_is_left(self) -> None:
        _, alive = psutil.wait_procs(self.family, timeout=PATIENCE_S)
        assert alive == []
        assert owner("cpu") is None


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Sweep]]:
    started: list[Sweep] = []

    def begin(*arguments: str) -> Sweep:
        started.append(Sweep(tmp_path / "run", *arguments))
        return started[-1]

    yield begin
    for sweep in started:
        if sweep.process.poll() is None:
            sweep.process.kill()
            sweep.process.communicate()


@pytest.mark.soak
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "end of input"])
def test_a_sweep_stops_in_good_order(start: Callable[..., Sweep], how: str) -> None:
    sweep = start(*(["--stop-on-eof"] if how == "end of input" else []))
    sweep.wait_until_it_measures()
    if how == "SIGTERM":
        second = run("sweep", *ONE_POINT, *QUICK, "--out", sweep.folder.parent / "second")
        assert second.returncode == 1
        assert second.stderr.startswith("error: cpu is busy since 20")
        assert f"with sweep run (process {sweep.process.pid})" in second.stderr
        assert not (sweep.folder.parent / "second").exists()
    asked = time.monotonic()
    if how == "end of input":
        assert sweep.process.stdin is not None
        sweep.process.stdin.close()
        sweep.process.stdin = None
    else:
        sweep.process.send_signal(getattr(signal, how))
    assert sweep.end() == (130, "")
    assert time.monotonic() - asked < 20
    ended = read_run(sweep.folder)
    assert ended.state == "stopped"
    assert ended.state_reason == ("stopped by whoever started it" if how == "end of input" else f"stopped by {how}")
    assert (sweep.folder / "report.csv").exists()
    sweep.assert_nothing_is_left()


def test_a_sweep_stopped_before_it_measures_says_so_and_leaves_no_folder(start: Callable[..., Sweep]) -> None:
    sweep = start()
    while owner("cpu") is None:
        assert sweep.process.poll() is None
        time.sleep(0.01)
    sweep.process.send_signal(signal.SIGTERM)
    assert sweep.end() == (130, "error: stopped by SIGTERM before anything was measured\n")
    assert not sweep.folder.exists()
    sweep.assert_nothing_is_left()


def test_a_killed_sweep_leaves_no_process_frees_the_device_and_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    grid = ["--batch-size", "1", "--seq-len", "5,7,11", "--num-heads", "2", "--d-model", "10"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "profiling",
            "sweep",
            *grid,
            *QUICK,
            "--contenders",
            "custom,official",
            "--out",
            str(folder),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("point 2 "):
            break
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    process.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert alive == []
    assert owner("cpu") is None
    dead = read_run(folder)
    assert (dead.state, dead.progress.done) == ("stopped", 1)
    before = load_measurements(folder)
    assert before["seq_len"].tolist() == [5, 5]
    done = run("sweep", "--out", folder, "--resume")
    assert done.returncode == 0, done.stderr
    assert "1 of 3 measured before" in done.stdout
    rows = load_measurements(folder)
    assert rows["seq_len"].tolist() == [5, 5, 7, 7, 11, 11]
    assert rows.head(2)["measured_at"].tolist() == before["measured_at"].tolist()


def test_a_reader_that_leaves_does_not_end_the_sweep(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "profiling", "sweep", *ONE_POINT, *QUICK, "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # As in most shells: with it set, nothing would be left in a buffer for Python to lose at its end.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    stderr = process.stderr.read()
    assert (process.wait(timeout=PATIENCE_S), stderr) == (0, "")
    process.stderr.close()
    assert read_run(tmp_path / "run").state == "finished"


# -- the other commands -----------------------------------------------------------------------------------------------


def test_check_prints_the_verdict_and_its_evidence() -> None:
    done = run("check", "custom", "--d-model", "10", "--num-heads", "2", "--seq-len", "7", "--batch-size", "3")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "PASS  custom"
    assert any("0.00e+00 at most from the official layer; the plain bound 1e-05 holds" in line for line in lines)
    assert sum(" <- " in line for line in lines) == 4


def test_devices_lists_them_and_marks_the_one_that_auto_means() -> None:
    done = run("devices")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("torch 2.")
    assert sum(line.endswith("<- auto") for line in lines) == 1
    assert any(line.startswith("cpu ") for line in lines)


def test_a_device_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    done = run("sweep", *ONE_POINT, "--device", "cuda:99", "--out", tmp_path / "run")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: device must be auto or one that torch finds here (")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--batch-size", "0"], "batch_size must be a whole number of at least 1, not 0"),
        (["--seq-len", "a"], "seq_len must be whole numbers separated by commas, not 'a'"),
        (["--num-heads", ""], "num_heads must hold at least one value"),
        (["--bias", "perhaps"], "bias must be yes, no or both"),
        (["--contenders", "mine"], "contenders must be among"),
        (["--time-budget", "soon"], "time_budget_s must be a number of seconds, not 'soon'"),
        (["--quiet-wait", "-1"], "quiet_wait_s must be a number of seconds of 0 or more, not -1.0"),
        (["--d-model", "8", "--head-dim", "4"], "d_model and head_dim exclude each other"),
        (["--resume"], "--resume needs --out DIR"),
    ],
)
def test_a_bad_option_is_told_in_a_sentence_with_status_2(arguments: list[str], words: str, tmp_path: Path) -> None:
    out = [] if arguments == ["--resume"] else ["--out", str(tmp_path / "run")]
    done = CliRunner().invoke(main, ["sweep", *arguments, *out])
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["official"], "contender must be one of custom, custom-fused, or a layer as my_attention.py:"),
        (["official-fastpath"], "contender must be one of custom, custom-fused, or a layer as my_attention.py:"),
        (["compiled:custom"], "contender must be a layer as it is, such as custom, not 'compiled:custom'"),
        (["compiled:mine.py:Mine"], "contender must be a layer as it is, such as mine.py:Mine, not"),
        (["custom", "--num-heads", "3", "--d-model", "10"], "d_model 10 is not divisible by num_heads 3"),
        (["custom", "--seq-len", "x"], "seq_len must be a whole number, not 'x'"),
        (["custom", "--dtype", "int8"], "dtype must be one of"),
    ],
)
def test_a_check_that_cannot_be_is_told_with_status_2(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(main, ["check", *arguments])
    assert (done.exit_code, words in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(("verdict", "status"), CHECK_EXITS.items())
def test_the_exit_status_of_a_check_is_its_verdict(verdict: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    report = {
        "verdict": verdict,
        "reason": "planted",
        "max_abs_error": None,
        "error_ratio": None,
        "scope": "all",
        "mapping": [],
    }

    class Checker:
        def __init__(self, _: str) -> None: ...
        def __enter__(self) -> Checker:
            return self

        def __exit__(self, *_: object) -> None: ...
        def check(self, *_: object, **__: object) -> dict[str, Any]:
            return report

    monkeypatch.setattr("profiling.live_check.LiveChecker", Checker)
    done = CliRunner().invoke(main, ["check"])
    assert done.exit_code == status
    words = {"not-comparable": "NOT COMPARABLE"}.get(verdict, verdict.upper())
    assert done.stdout.startswith(f"{words}  custom\n  planted\n")
    assert json.loads(CliRunner().invoke(main, ["check", "--json"]).stdout) == report


@pytest.mark.parametrize(("options", "threads"), [([], 1), (["--threads", "3"], 3)])
def test_a_check_computes_with_the_threads_asked_for(
    options: list[str], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Checker:
        def __init__(self, _: str) -> None: ...
        def __enter__(self) -> Checker:
            return self

        def __exit__(self, *_: object) -> None: ...
        def check(self, workload: Workload, *_: object, **__: object) -> dict[str, Any]:
            asked.append(workload.threads)
            return error_report("planted", "")

    monkeypatch.setattr("profiling.live_check.LiveChecker", Checker)
    assert CliRunner().invoke(main, ["check", *options]).exit_code == 4
    assert asked == [threads]


def test_export_of_what_is_no_run_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["export", str(tmp_path)])
    assert done.exit_code == 2
    assert "holds no run" in done.stderr
    assert CliRunner().invoke(main, ["export", "../../etc"]).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["--help"], ["sweep", "--help"], ["check", "--help"], ["doctor", "--help"], ["--version"]]
)
def test_help_loads_neither_torch_nor_pandas(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from profiling.cli import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        "assert not {'torch', 'pandas', 'numpy', 'streamlit', 'rich'} & set(sys.modules), 'loaded too much'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_every_option_of_a_sweep_says_its_default() -> None:
    shown = CliRunner().invoke(main, ["sweep", "--help"], terminal_width=200).stdout
    taking_values = [option for option in main.commands["sweep"].params if not getattr(option, "is_flag", False)]
    assert len(taking_values) > 15
    for option in taking_values:
        assert f"{option.opts[0]} " in shown
    assert shown.count("[default: ") == len(taking_values)


def test_a_terminal_that_cannot_show_a_sign_does_not_end_a_command() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run("sweep", "--help", env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_an_answer_that_cannot_be_written_ends_with_a_sentence_and_a_status_that_is_no_verdict(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "profiling", "export", "results/example", "--out", str(tmp_path / "t.csv")]
    where = {"cwd": ROOT, "stderr": subprocess.PIPE, "text": True, "timeout": 60}
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, check=False, **where)
    assert (ended.returncode, ended.stderr) == (
        74,
        "error: standard output cannot be written: No space left on device\n",
    )
    read, written = os.pipe()
    os.close(read)  # a reader that has left
    ended = subprocess.run(command, stdout=written, check=False, **where)
    os.close(written)
    assert (ended.returncode, ended.stderr) == (74, "error: standard output cannot be written: Broken pipe\n")
    words = " ".join(command)
    ended = subprocess.run(f"{words} >&-", shell=True, check=False, **where)
    assert (ended.returncode, ended.stderr) == (0, ""), "nobody wants to read, and the status says all"
    assert (tmp_path / "t.csv").stat().st_size > 1000


def test_export_of_what_is_not_there_or_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["export", "no/such"])
    assert (told.exit_code, told.stderr) == (2, "error: there is no folder no/such\n")
    (tmp_path / "report.csv").mkdir()
    for name in ("run.json", "measurements.csv"):
        (tmp_path / name).write_bytes((ROOT / "results" / "example" / name).read_bytes())
    told = CliRunner().invoke(main, ["export", str(tmp_path)])
    assert told.exit_code == 1
    assert told.stderr.endswith("; --out PATH writes the table elsewhere\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("asked", ["--help", "--version"])
def test_help_that_cannot_be_written_ends_with_a_sentence_too(asked: str) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "profiling", asked], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (ended.returncode, ended.stderr) == (
        74,
        "error: standard output cannot be written: No space left on device\n",
    )
