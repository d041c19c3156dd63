from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dashboard_samples import make_run
from made_up_runs import FakeChild, make_workload

from profiling.child_process import ChildDied, MeasuringChild
from profiling.cli import main
from profiling.laws.fit_trying import ChildTrier, predicted_by_run
from profiling.protocol import Running
from profiling.runs import RunError
from profiling.settings import SweepSettings
from profiling.workload import Grid, GridError

GRID = Grid(batch_size=(1,), seq_len=(64,), num_heads=(2,), d_model=6, device="cpu", threads=1)


# -- a real child -----------------------------------------------------------------------------------------------------


def try_call(child: MeasuringChild, seq_len: int, **how: Any) -> dict[str, Any]:
    workload = make_workload(batch_size=1, seq_len=seq_len, num_heads=2, d_model=6)
    return child.ask({"request": "try_call", "workload": workload.to_dict(), **how}, limit_s=120)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses a process what it allocates beyond a limit")
def test_a_call_beyond_the_limit_is_refused_its_memory_and_one_within_it_runs(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "class Broken:\n    def __init__(self, d_model, num_heads):\n        raise KeyError('my own fault')\n"
        "class Threads:\n    def __init__(self, d_model, num_heads):\n"
        "        raise RuntimeError('Resource temporarily unavailable')\n"
    )
    with MeasuringChild() as child:
        small = try_call(child, 61, contender="custom", limit_mib=96.0)
        # Two heads of 4,409² scores in float32: 148 MiB at once.
        large = try_call(child, 4409, contender="custom", limit_mib=96.0)
        broken = try_call(child, 7, contender=f"{own}:Broken", layer=f"{own}:Broken")
        threads = f"{own}:Threads"
        limited = try_call(child, 7, contender=threads, layer=threads, limit_mib=96.0)
        unlimited = try_call(child, 7, contender=threads, layer=threads)
    assert (small["status"], small["reason"], small["is_limited"]) == ("ok", "", True)
    # Two heads of 61² scores, and at most eight tensors of the input's size.
    assert 2 * 61**2 * 4 <= small["peak_mib"] * 2**20 <= 2 * 2 * 61**2 * 4 + 8 * 61 * 6 * 4
    assert small["call_s"] > 0
    assert small["held_mib"] >= 0
    assert large["status"] == "oom"
    assert large["reason"].startswith("asked for 148 MiB: ")
    assert (large["peak_mib"], large["call_s"]) == (None, None)
    assert broken["status"] == "error"
    assert "my own fault" in broken["reason"]
    assert broken["is_limited"] is False
    assert (limited["status"], limited["reason"]) == ("oom", "a thread could not be started")
    assert unlimited["status"] == "error"


# -- trying, with a child that only answers ---------------------------------------------------------------------------


class TryingChild(FakeChild):
    """Answers `try_call` by a formula: what takes more than its limit is refused."""

    def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
        if request["request"] != "try_call":
            return super().ask(request, limit_s=limit_s)
        FakeChild.asked.append(request)
        size = request["workload"]["seq_len"]
        if error := self.script.get((request["contender"], size)):
            raise error
        held = 5 + 0.001 * size + 1e-5 * size**2
        if request["limit_mib"] is not None and held > request["limit_mib"]:
            told = {"status": "oom", "reason": f"asked for {held:.0f} MiB: RuntimeError"}
            return {**told, "peak_mib": None, "held_mib": None, "call_s": None, "is_limited": True}
        return {
            **{"status": "ok", "reason": "", "peak_mib": held / 2, "held_mib": held},
            **{"call_s": 0.001, "is_limited": True},
        }


@pytest.fixture
def trying(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeChild]]:
    FakeChild.reset()
    for name in ("__enter__", "__exit__"):
        method = (lambda self: self) if name == "__enter__" else (lambda self, *_: self.close())
        monkeypatch.setattr(TryingChild, name, method, raising=False)
    monkeypatch.setattr("profiling.laws.fit_trying.MeasuringChild", TryingChild)
    monkeypatch.setattr("profiling.laws.fit_trying.free_memory_mib", lambda _="cpu": 2000.0)
    yield FakeChild
    FakeChild.reset()


def test_each_size_is_tried_in_a_child_of_its_own_that_ends(trying: type[FakeChild]) -> None:
    with ChildTrier("custom", GRID) as attempt:
        assert (attempt.free_mib, attempt.room_mib) == (2000.0, 1400.0)
        first, second = attempt(1000), attempt(20_000)
    assert (first.status, first.held_mib) == ("ok", pytest.approx(16))
    assert (second.status, second.reason) == ("oom", "asked for 4025 MiB: RuntimeError")
    assert [request["limit_mib"] for request in trying.asked] == [1400.0, 1400.0]
    assert trying.alive == []


def test_what_others_have_taken_since_is_not_given_away_twice(
    trying: type[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChildTrier("custom", GRID) as attempt:
        monkeypatch.setattr("profiling.laws.fit_trying.free_memory_mib", lambda _="cpu": 1000.0)
        attempt(1000)
    assert trying.asked[-1]["limit_mib"] == 500.0


def test_a_person_may_give_less_memory_or_lift_the_limit(trying: type[FakeChild]) -> None:
    with ChildTrier("custom", GRID, memory_mib=70.0) as attempt:
        assert attempt(5000).status == "oom"
    with ChildTrier("custom", GRID, anyway=True) as attempt:
        assert attempt.room_mib is None
        assert attempt(20_000).status == "ok"
    assert [request["limit_mib"] for request in trying.asked] == [70.0, None]


def test_where_no_limit_can_be_set_what_is_guessed_not_to_fit_is_not_tried(
    trying: type[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiling.laws.fit_trying.sys.platform", "darwin")
    with ChildTrier("custom", GRID) as attempt:
        refused = attempt(20_000)
        assert attempt(100).status == "ok"
    assert refused.status == "refused"
    assert refused.reason == "it needs about 7.46 GiB, and 1.37 GiB may be taken"
    assert len(trying.asked) == 1


def test_a_child_that_dies_is_an_answer(trying: type[FakeChild]) -> None:
    death = ChildDied("oom", "ended by the kernel's out-of-memory killer", Running("memory", "custom"))
    trying.script[("custom", 1000)] = death
    with ChildTrier("custom", GRID) as attempt:
        tried = attempt(1000)
    assert (tried.status, tried.reason) == ("oom", "ended by the kernel's out-of-memory killer")


@pytest.mark.parametrize(
    ("contender", "grid", "words"),
    [
        ("nobody", GRID, "contenders must be among"),
        ("compiled:custom", GRID, "contender must be a layer as it is, such as custom, not 'compiled:custom'"),
        ("no/such.py:Mine", GRID, "there is no file no/such.py"),
        ("custom", Grid(batch_size=(1,), seq_len=(64,), num_heads=(4,), d_model=6), "d_model 6 is not divisible"),
    ],
)
def test_what_cannot_be_tried_is_refused(contender: str, grid: Grid, words: str) -> None:
    with pytest.raises(GridError, match=words):
        ChildTrier(contender, grid)


# -- the law of a run -------------------------------------------------------------------------------------------------


def test_the_memory_law_of_a_run_predicts_the_length(tmp_path: Path) -> None:
    grid = Grid(batch_size=(3,), seq_len=(96, 192, 384, 768), num_heads=(7,), d_model=56, device="cpu")
    held = {(p, "custom"): {"peak_memory_mib": 1e-5 * size**2} for p, size in enumerate(grid.seq_len, start=1)}
    make_run(tmp_path / "run", grid=grid, settings=SweepSettings(contenders=("custom", "official")), changes=held)
    workload = make_workload(batch_size=3, num_heads=7, d_model=56)
    # 1e-5·S², two tensors of 3·56·4 bytes a token, and twice the weights.
    room = 1e-5 * 5000**2 + (2 * 3 * 56 * 4 * 5000 + 2 * 4 * 56 * 56 * 4) / 2**20
    assert predicted_by_run(tmp_path / "run", "custom", workload, room + 1e-6) == 5000
    with pytest.raises(
        GridError, match=r"a memory law of custom at batch 5, .*: it has one at batch 3, heads 7, d_model 56"
    ):
        predicted_by_run(tmp_path / "run", "custom", make_workload(batch_size=5, num_heads=7, d_model=56), room)
    with pytest.raises(GridError, match="it has none of that contender"):
        predicted_by_run(tmp_path / "run", "custom-fused", workload, room)
    with pytest.raises(RunError):
        predicted_by_run(tmp_path / "none", "custom", workload, room)


# -- the command ------------------------------------------------------------------------------------------------------

COMMAND = ["fits", "custom", "--device", "cpu", "--threads", "1", "--d-model", "6", "--num-heads", "2"]


@pytest.mark.usefixtures("own_signals", "trying")
def test_the_command_tells_the_longest_sequence_for_people_and_machines() -> None:
    told = CliRunner().invoke(main, COMMAND)
    assert told.exit_code == 0, told.output
    # 1e-5·S² + 0.001·S + 5 = 1400 at 11,761.
    assert told.stdout.startswith("custom fits up to seq_len 11,")
    assert "the memory law of the shorter ones that ran predicts 11,761" in told.stdout
    assert "ran out of memory (asked for 1" in told.stderr
    answer = json.loads(CliRunner().invoke(main, [*COMMAND, "--json"]).stdout)
    assert 11_136 < answer["fits"] <= 11_761
    assert answer["law_predicted"] == 11_761
    none = CliRunner().invoke(main, [*COMMAND, "--memory", "1", "--json"])
    assert none.exit_code == 1
    assert json.loads(none.stdout)["fits"] is None


@pytest.mark.usefixtures("own_signals", "trying")
@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        (["--seq-len", "512"], 2, "seq_len is what is searched: leave --seq-len out"),
        (["--heap", "warm"], 2, "heap must be one of pinned, as-is, not 'warm'"),
        (["--memory", "0"], 2, "memory must be a number above 0, not '0'"),
        (["--to", "8"], 2, "from a smaller size to a larger, not from 128 to 8"),
        (["--num-heads", "5"], 2, "d_model 6 is not divisible by num_heads 5"),
        (["--run", "no-such-run"], 1, "there is no run no-such-run"),
        (["--budget", "-1"], 2, "budget must be a number of seconds above 0"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_sentence_and_one_object(
    changes: list[str], status: int, words: str
) -> None:
    done = CliRunner().invoke(main, [*COMMAND, *changes, "--json"])
    assert done.exit_code == status, done.output
    assert words in json.loads(done.stdout)["error"]
