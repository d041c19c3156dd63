"""`python -m profiling check` on layers of one's own: exit status, one JSON object, and never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from own_layers import MISBEHAVING, RIGHT, write_layer

from profiling.check_report import error_report
from profiling.cli import main
from profiling.device_lock import DeviceLock, owner
from profiling.stopping import StopSwitch
from profiling.table import load_run

SMALL = ["--d-model", "10", "--num-heads", "2"]


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_layer(tmp_path_factory.mktemp("own"), text=MISBEHAVING)


def check(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments), *SMALL])


def told(done: Result) -> dict[str, Any]:
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1, "one object, and nothing beside it"
    report: dict[str, Any] = json.loads(done.stdout)
    assert report.keys() >= error_report("", "").keys()
    return report


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("Right", 0, "PASS  "),
        ("Wrong", 1, "FAIL  "),
        ("AnotherDesign", 3, "NOT COMPARABLE  "),
        ("Raises", 4, "ERROR  "),
        ("absent", 4, "ERROR  "),
    ],
)
def test_the_exit_status_is_that_of_the_verdict(mine: Path, name: str, status: int, words: str) -> None:
    done = check(f"{mine}:{name}")
    assert (done.exit_code, done.stderr) == (status, ""), done.output
    assert done.stdout.startswith(f"{words}{mine}:{name}\n")
    assert "\x1b" not in done.stdout
    assert "Traceback" not in done.output


@pytest.mark.soak
def test_a_passing_layer_fits_a_screen_and_says_what_the_check_is_worth(mine: Path) -> None:
    lines = check(f"{mine}:Right").stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines[1:])) <= 100
    assert any(line.startswith("  the check      ") and line.endswith(" planted faults caught") for line in lines)
    assert any("4 of 4 weights" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Hangs", "the layer did not answer within 3 s: give it longer with --time-limit"),
        ("Dies", "the layer took its process down, which ended without an answer, though with exit status 0"),
        ("Exits", "called exit(3)"),
    ],
)
def test_a_layer_that_gives_no_answer_is_an_error_in_the_same_object(mine: Path, name: str, words: str) -> None:
    done = check(f"{mine}:{name}", "--json", "--time-limit", "3")
    assert done.exit_code == 4, done.output
    report = told(done)
    assert report["verdict"] == "error"
    assert words in report["reason"]
    assert owner("cpu") is None


def test_a_file_that_raises_when_imported_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    done = check(f"{write_layer(tmp_path, text='import no_such_module')}:X", "--json")
    assert done.exit_code == 4
    assert told(done)["reason"] == "mine.py, line 1: ModuleNotFoundError: No module named 'no_such_module'"


@pytest.mark.soak
def test_what_a_layer_prints_is_not_in_the_object(mine: Path) -> None:
    done = check(f"{mine}:Prints", "--json")
    assert (done.exit_code, told(done)["verdict"]) == (0, "pass")


@pytest.mark.soak
def test_a_check_waits_for_another_check_and_says_so(mine: Path) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("check")
    timer = threading.Timer(8.0, lock.release)
    timer.start()
    try:
        done = check(f"{mine}:Right")
    finally:
        timer.join()
    assert (done.exit_code, done.stdout[:4]) == (0, "PASS"), done.output
    assert done.stderr.startswith("waiting: cpu is busy since")


def test_an_instance_of_other_sizes_says_at_which_it_was_run(mine: Path) -> None:
    done = CliRunner().invoke(main, ["check", f"{mine}:instance"])
    assert done.exit_code == 0, done.output
    assert (
        done.stdout.splitlines()[1]
        == "  run at d_model 10, heads 2, batch 2, seq_len 8: not as asked (d_model 64, heads 4)"
    )


def test_a_device_that_is_busy_is_told_in_the_object_too(mine: Path) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="long")
    try:
        done = check(f"{mine}:Right", "--json")
        assert (done.exit_code, told(done)["verdict"]) == (4, "error")
        assert "with sweep long" in told(done)["reason"]
        done = check(f"{mine}:Right")
        assert (done.exit_code, done.stdout) == (4, "")
        assert done.stderr.startswith("error: cpu is busy since")
    finally:
        lock.release()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.py:X"], "there is no file none.py in "),
        (["none.py"], "a layer needs a name in its file"),
        (["none.txt:X"], "a layer must be a Python file and a name in it"),
        (["mine"], "contender must be one of custom, custom-fused, or a layer as my_attention.py:MyAttention"),
        (["custom", "--time-limit", "0"], "time_limit must be a number of seconds above 0"),
        (["custom", "--threads", "0"], "threads must be a whole number of at least 1, not 0"),
        (["custom", "--threads", "two"], "threads must be a whole number, not 'two'"),
        (["custom", "--input-scale", "0"], "input_scale must be a number above 0, not '0'"),
        (["custom", "--input-scale", "inf"], "input_scale must be a number above 0, not 'inf'"),
    ],
)
def test_a_wrong_option_has_status_2_and_is_told_in_the_object_too(arguments: list[str], words: str) -> None:
    for options in ([], ["--json"]):
        done = check(*arguments, *options)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith("error: ")
        assert words in done.stderr
        if not options:
            assert done.stdout == ""
            continue
        report = json.loads(done.stdout)
        assert done.stdout.count("\n") == 1
        assert report.keys() == error_report("", "").keys()
        assert (report["verdict"], f"error: {report['reason']}\n") == ("error", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nonsense"], "No such option '--nonsense'"),
        (["custom", "--seq-len"], "requires an argument"),
        (["custom", "custom-fused"], "unexpected extra argument"),
    ],
)
def test_what_the_command_line_cannot_be_read_as_is_told_in_the_object_too(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(main, ["check", "--json", *arguments])
    assert done.exit_code == 2, done.output
    assert json.loads(done.stdout)["verdict"] == "error"
    assert words in json.loads(done.stdout)["reason"]
    assert words in done.stderr
    done = CliRunner().invoke(main, ["check", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.soak
def test_a_check_runs_from_a_folder_in_which_files_are_called_like_ours(tmp_path: Path) -> None:
    write_layer(tmp_path, "mha.py", RIGHT)
    write_layer(tmp_path, "dashboard.py", "raise SystemExit")
    done = subprocess.run(
        [sys.executable, "-m", "profiling", "check", "mha.py:Right", *SMALL],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("PASS  mha.py:Right\n")


@pytest.mark.parametrize(
    ("options", "contenders"),
    [
        (["--contender", "mine.py:Right"], ["mine.py:Right", "official"]),
        (["--contenders", "mine.py:Right,official"], ["mine.py:Right", "official"]),
        (
            ["--contenders", "custom", "--contender", "mine.py:Right", "--contender", "./mine.py:make"],
            ["custom", "mine.py:Right", "./mine.py:make", "official"],
        ),
        (
            ["--contender", "mine.py:Right", "--reference", "official-fused"],
            ["mine.py:Right", "official-fused"],
        ),
    ],
)
def test_a_sweep_takes_layers_of_ones_own(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], contenders: list[str]
) -> None:
    from made_up_runs import FakeChild

    FakeChild.reset()
    monkeypatch.setattr("profiling.measurer.MeasuringChild", FakeChild)
    monkeypatch.setattr(StopSwitch, "on_signals", lambda _: None)
    monkeypatch.chdir(mine.parent)
    point = ["--batch-size", "1", "--seq-len", "5", "--num-heads", "2", "--d-model", "10", "--device", "cpu"]
    done = CliRunner().invoke(main, ["sweep", *point, *options, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    table = load_run(tmp_path / "run")
    assert table["contender"].tolist() == contenders
    assert set(table["reference"].dropna()) == {contenders[-1]}
