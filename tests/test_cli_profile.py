"""`python -m profiling profile`: one real profile for people and machines, and how it ends where it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_up_operators import made_up, made_up_profile, timed
from own_layers import RIGHT, write_layer

from profiling.child_process import ChildDied, ChildStopped
from profiling.cli import main
from profiling.device_lock import DeviceBusy, DeviceLock, owner
from profiling.operators.profiler import OperatorProfiler, TraceNotWritten
from profiling.operators.result import ContenderProfile, OperatorProfile
from profiling.protocol import Running

SMALL = ["--batch-size", "3", "--seq-len", "7", "--num-heads", "2", "--d-model", "10", "--threads", "1"]
CPU = ["--device", "cpu"]
FOUND = made_up_profile(
    made_up("custom", timed("mm", "projections", 400), timed("clone", "copies and layout", 310, 4)),
    made_up("official", timed("mm", "projections", 400)),
    trace_bytes=3_250_586,
)


def profile(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["profile", *SMALL, *CPU, *map(str, arguments)])


def told(done: Result) -> dict[str, Any]:
    assert done.stdout.count("\n") == 1, "one object, and nothing beside it"
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What stands in for profiling: `profile` gives `result` or raises it, `trace` likewise."""
    script: dict[str, Any] = {"result": FOUND, "trace": 3_250_000, "asked": []}

    def answer(kind: str) -> Any:
        if isinstance(script[kind], Exception):
            raise script[kind]
        return script[kind]

    def look(self: OperatorProfiler, num_calls: int, **options: Any) -> OperatorProfile:
        script["asked"].append((self._profiled, self._settings.contenders, num_calls, options["with_trace"]))
        made: OperatorProfile = answer("result")
        return made

    monkeypatch.setattr(OperatorProfiler, "profile", look)
    monkeypatch.setattr(OperatorProfiler, "write_trace", lambda *_, **__: answer("trace"))
    return script


# Dies once it is profiled: after its check and the calls that warm it up.
DIES_LATE = (
    RIGHT
    + """
import os, signal
from torch.autograd import _profiler_enabled

class Dies(Right):
    def forward(self, x):
        if _profiler_enabled():
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().forward(x)
"""
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("trace")
    dies = f"{write_layer(folder, text=DIES_LATE)}:Dies"
    names = ("--contenders", f"custom,official,{dies}")
    return profile(*names, "--iterations", "2", "--trace", folder / "t.json", "--json"), folder / "t.json"


def test_a_layer_that_dies_as_it_is_profiled_says_so_and_nothing_else(real: tuple[Result, Path]) -> None:
    done, _ = real
    assert done.exit_code == 1, done.output
    dies = told(done)["contenders"][2]
    assert (dies["status"], dies["total_ms"], dies["roles"], dies["adds_up"]) == ("crashed", None, [], None)
    assert dies["status_reason"].startswith("ended by signal 11 (SIGSEGV), at mine.py, line ")
    assert dies["status_reason"].endswith(", in operators")
    assert "last words" not in dies["status_reason"], "the profiler's own are none of its"


def test_a_real_profile_adds_up_and_is_one_object(real: tuple[Result, Path]) -> None:
    answer = told(real[0])
    assert answer["workload"]["seq_len"] == 7
    measured = answer["contenders"][:2]
    assert [(each["contender"], each["status"], each["adds_up"]) for each in measured] == [
        ("custom", "ok", True),
        ("official", "ok", True),
    ]
    for each in measured:
        assert sum(role["self_ms"] for role in each["roles"]) == pytest.approx(each["total_ms"])
        assert sum(role["share"] for role in each["roles"]) == pytest.approx(1.0)
        assert {"projections", "scores", "softmax", "weighted sum", "output projection"} <= {
            role["role"] for role in each["roles"]
        }
    assert owner("cpu") is None


def test_its_trace_opens_and_its_size_was_told_first(real: tuple[Result, Path]) -> None:
    done, path = real
    first, second = done.stderr.splitlines()
    assert first.startswith("the trace will take about ")
    assert second.startswith(f"{path}: ")
    trace = told(done)["trace"]
    assert (trace["path"], trace["bytes"]) == (str(path), path.stat().st_size)
    assert trace["expected_bytes"] == pytest.approx(trace["bytes"], rel=0.1)
    assert json.loads(path.read_text())["traceEvents"]


def test_people_get_a_table_and_where_the_difference_comes_from(found: dict[str, Any]) -> None:
    done = profile()
    assert (done.exit_code, done.stderr) == (0, "")
    assert (
        "  -> custom spends 310 µs more in copies and layout: 4 clone calls that official does not make" in done.stdout
    )
    assert found["asked"] == [(["custom", "official"], ("custom", "official"), 10, False)]


def test_the_size_of_a_trace_is_told_without_writing_one(found: dict[str, Any]) -> None:
    found["trace"] = AssertionError("none is to be written")
    answer = told(profile("--trace-size", "--json"))
    assert (answer["trace_bytes"], answer["trace"]) == (3_250_586, None)
    assert found["asked"][0][3], "a trace's size is looked at only where it is asked for"


def test_a_layer_named_alone_stands_beside_its_reference(found: dict[str, Any], tmp_path: Path) -> None:
    name = f"{write_layer(tmp_path)}:Right"
    assert profile("--contender", name, "--reference", "official-fused").exit_code == 0
    assert profile("--contenders", "custom", "--contender", name).exit_code == 0
    assert [asked[0] for asked in found["asked"]] == [[name, "official-fused"], ["custom", name]]


def test_a_layer_that_died_is_told_and_ends_with_one(found: dict[str, Any]) -> None:
    lost = ContenderProfile(contender="mine.py:Dies", status="oom", status_reason="had no memory left, in operators")
    found["result"] = made_up_profile(made_up("custom", timed("mm", "projections", 7)), lost)
    done = profile()
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "mine.py:Dies: oom, had no memory left, in operators")
    assert told(profile("--json"))["contenders"][1]["total_ms"] is None


def test_roles_that_do_not_add_up_end_with_one(found: dict[str, Any]) -> None:
    found["result"] = made_up_profile(made_up("custom", timed("mm", "projections", 7), total_ns=9_000))
    done = profile()
    assert done.exit_code == 1
    assert "warning: the operators of custom do not add up: 2.00 µs less" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seq-len", "7,11"], "seq_len must be a whole number, not '7,11'"),
        (["--num-heads", "3"], "d_model 10 is not divisible by num_heads 3"),
        (["--iterations", "ten"], "iterations must be a whole number, not 'ten'"),
        (["--max-trace-mib", "0"], "max_trace_mib must be a number above 0, not '0'"),
        (["--contenders", "custom,custom"], "contenders must name each contender once, not 'custom' twice"),
        (["--contenders", "mine"], "contenders must be among"),
        (["--time-limit", "-1"], "time_limit must be a number of seconds above 0, not -1.0"),
        (["--mode", "dreaming"], "mode must be one of inference, training, not 'dreaming'"),
    ],
)
def test_an_option_that_cannot_be_ends_with_two(found: dict[str, Any], arguments: list[str], words: str) -> None:
    done = profile(*arguments, "--json")
    assert done.exit_code == 2, done.output
    assert told(done)["error"].startswith(words)
    assert done.stderr.startswith(f"error: {words}")
    assert found["asked"] == []


def test_an_option_that_there_is_not_is_told_in_the_object_too() -> None:
    done = profile("--iteration-count", "3", "--json")
    assert done.exit_code == 2
    assert "--iteration-count" in told(done)["error"]
    empty = profile("--trace", "", "--json")
    assert (empty.exit_code, told(empty)["error"]) == (
        2,
        "Invalid value for '--trace': it is empty, which names nothing.",
    )


def test_a_trace_without_a_place_is_refused_before_anything_is_profiled(found: dict[str, Any], tmp_path: Path) -> None:
    done = profile("--trace", tmp_path / "gone" / "t.json", "--json")
    assert done.exit_code == 74
    assert "there is no folder" in told(done)["error"]
    assert found["asked"] == []


def test_a_trace_that_cannot_be_written_ends_with_seventy_four_and_the_profile_is_told(
    found: dict[str, Any], tmp_path: Path
) -> None:
    found["trace"] = TraceNotWritten("t.json cannot be written: No space left on device")
    done = profile("--trace", tmp_path / "t.json")
    assert done.exit_code == 74
    assert "profiled call" in done.stdout
    assert done.stderr.splitlines() == [
        "the trace will take about 3.10 MiB",
        "error: t.json cannot be written: No space left on device",
    ]
    answer = told(profile("--trace", tmp_path / "t.json", "--json"))
    assert (answer["error"], len(answer["contenders"])) == ("t.json cannot be written: No space left on device", 2)


def test_a_process_that_dies_of_the_trace_is_told(found: dict[str, Any], tmp_path: Path) -> None:
    found["trace"] = ChildDied("crashed", "was ended by signal 9", Running("trace", "custom"))
    assert profile("--trace", tmp_path / "t.json").exit_code == 1


@pytest.mark.parametrize(("stopped", "status"), [(ChildStopped(), 130), (None, 1)])
def test_a_stop_and_a_busy_device_have_their_statuses(
    found: dict[str, Any], stopped: Exception | None, status: int
) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="long")
    holder = owner("cpu")
    assert holder is not None
    lock.release()
    found["result"] = stopped or DeviceBusy(holder)
    done = profile("--json")
    assert done.exit_code == status
    assert ("with sweep long" in told(done)["error"]) == (stopped is None)
