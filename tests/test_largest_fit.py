from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from dashboard_samples import make_run
from made_up_runs import FakeChild, make_workload

from profiling.child_process import ChildDied, MeasuringChild, MeasuringError
from profiling.cli import main
from profiling.laws.fit_prediction import predicted_by_run
from profiling.laws.fit_trying import TOLD, ChildTrier
from profiling.measuring.compiler_room import CompilerRoom
from profiling.measuring.devices import Cpu
from profiling.protocol import Running
from profiling.runs import RunError
from profiling.settings import SweepSettings
from profiling.workload import Grid, GridError

GRID = Grid(batch_size=(1,), seq_len=(64,), num_heads=(2,), d_model=6, device="cpu", threads=1)


# -- a real child -----------------------------------------------------------------------------------------------------


def try_call(child: MeasuringChild, seq_len: int, mode: str = "inference", **how: Any) -> dict[str, Any]:
    workload = make_workload(batch_size=1, seq_len=seq_len, num_heads=2, d_model=6, mode=mode)
    return child.ask({"request": "try_call", "workload": workload.to_dict(), **how}, limit_s=300)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses a process what it allocates beyond a limit")
def test_a_call_beyond_the_limit_is_refused_its_memory_and_one_within_it_runs(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "class Broken:\n    def __init__(self, d_model, num_heads):\n        raise KeyError('my own fault')\n"
        "class Threads:\n    def __init__(self, d_model, num_heads):\n"
        "        raise RuntimeError('Resource temporarily unavailable')\n"
        # As torch words it, but at a moment at which the process holds little.
        "class Freed:\n    def __init__(self, d_model, num_heads):\n        raise RuntimeError("
        "'DefaultCPUAllocator: not enough memory: you tried to allocate 1048576 bytes.')\n"
    )
    with MeasuringChild() as child:
        empty = child.ask({"request": "memory_now", "device": "cpu", "threads": 1}, limit_s=120)
        limit = empty["held_mib"] + 96
        small = try_call(child, 61, contender="custom", limit_mib=limit)
        # Two heads of 4,409² scores in float32: 148 MiB at once.
        large = try_call(child, 4409, contender="custom", limit_mib=limit)
        broken = try_call(child, 7, contender=f"{own}:Broken", layer=f"{own}:Broken")
        threads = f"{own}:Threads"
        limited = try_call(child, 7, contender=threads, layer=threads, limit_mib=limit)
        unlimited = try_call(child, 7, contender=threads, layer=threads)
        freed = f"{own}:Freed"
        let_go = try_call(child, 7, contender=freed, layer=freed, limit_mib=limit)
        by_itself = try_call(child, 7, contender=freed, layer=freed)
        tiny = try_call(child, 7, contender="custom", limit_mib=11.0)
    assert (empty["device"], empty["free_mib"]) == ("cpu", None)
    assert (small["status"], small["reason"], small["is_limited"]) == ("ok", "", True)
    # Two heads of 61² scores, and at most eight tensors of the input's size.
    assert 2 * 61**2 * 4 <= small["peak_mib"] * 2**20 <= 2 * 2 * 61**2 * 4 + 8 * 61 * 6 * 4
    assert small["call_s"] > 0
    assert (small["compile_s"], small["compiler_mib"], small["asked_mib"]) == (None, None, None)
    # What was free or lay in the heap's last pages may have been given back meanwhile.
    assert 20 < empty["held_mib"] <= small["base_mib"] + 1 <= small["before_mib"] + 1 < limit
    assert small["held_mib"] >= 0
    assert large["status"] == "oom"
    assert large["reason"].startswith("asked for 148 MiB: ")
    assert (large["peak_mib"], large["call_s"]) == (None, None)
    assert large["asked_mib"] == 2 * 4409**2 * 4 / 2**20
    # What was refused would have gone beyond, by what the process itself said then.
    assert large["failed_at_mib"] <= limit < large["failed_at_mib"] + large["asked_mib"]
    assert broken["status"] == "error"
    assert "my own fault" in broken["reason"]
    assert broken["is_limited"] is False
    assert (limited["status"], limited["reason"]) == ("oom", "a thread could not be started")
    assert unlimited["status"] == "error"
    # What was held and what was refused make up the limit, also where the former was given back before anyone looked.
    assert (let_go["status"], let_go["asked_mib"], by_itself["asked_mib"]) == ("oom", 1.0, 1.0)
    assert let_go["failed_at_mib"] == pytest.approx(limit - 1)
    assert by_itself["failed_at_mib"] < limit - 1, "without a limit nothing but what was seen is known"
    assert tiny["status"] == "refused"
    assert "are held by torch alone, and 11.0 MiB may be held" in tiny["reason"]


# -- trying, with a child that only answers ---------------------------------------------------------------------------


BASE_MIB = 200.0


class TryingChild(FakeChild):
    """Answers `try_call` by a formula: what takes more than its limit, beside torch, is refused."""

    free_mib: float | None = None  # of a device with memory of its own
    is_limited = True

    def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
        if request["request"] == "memory_now":
            return {"device": request["device"], "free_mib": self.free_mib, "held_mib": BASE_MIB}
        if request["request"] == "environment":
            return super().ask(request, limit_s=limit_s) | {"device": request["device"]}
        assert request["request"] == "try_call"
        assert FakeChild.alive == [self], "another process holds memory meanwhile"
        FakeChild.asked.append(request)
        size = request["workload"]["seq_len"]
        if error := self.script.get((request["contender"], size)):
            raise error
        held = 5 + 0.001 * size + 1e-5 * size**2
        answer = dict.fromkeys(TOLD) | {"status": "ok", "reason": "", "base_mib": BASE_MIB, "before_mib": BASE_MIB + 5}
        answer["is_limited"] = self.is_limited
        if request["limit_mib"] is not None and request["limit_mib"] <= BASE_MIB + 2:
            return answer | {"status": "refused", "reason": "all is held by torch alone"}
        if self.is_limited and request["limit_mib"] is not None and BASE_MIB + held > request["limit_mib"]:
            told = {"status": "oom", "reason": f"asked for {held - 5:.0f} MiB: RuntimeError"}
            return answer | told | {"asked_mib": held - 5, "failed_at_mib": BASE_MIB + 5}
        return answer | {"peak_mib": held - 5, "held_mib": held, "call_s": 0.001}


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
        # 90 % of what is free may be held in all, torch included.
        assert (attempt.free_mib, attempt.memory_mib, attempt.room_mib) == (2000.0, 1800.0, 1600.0)
        first, second = attempt(1000), attempt(20_000)
    assert (first.status, first.held_mib) == ("ok", pytest.approx(16))
    assert (second.status, second.reason) == ("oom", "asked for 4020 MiB: RuntimeError")
    assert (second.limit_mib, second.asked_mib, second.failed_at_mib) == (1800.0, pytest.approx(4020), 205.0)
    assert [request["limit_mib"] for request in trying.asked] == [1800.0, 1800.0]
    assert trying.alive == []


def test_what_others_have_taken_since_is_not_given_away_twice(
    trying: type[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChildTrier("custom", GRID) as attempt:
        monkeypatch.setattr("profiling.laws.fit_trying.free_memory_mib", lambda _="cpu": 1000.0)
        attempt(1000)
    assert trying.asked[-1]["limit_mib"] == 900.0


def test_what_leaves_the_call_no_room_at_all_is_told_rather_than_tried_at_other_lengths(
    trying: type[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChildTrier("custom", GRID) as attempt:
        monkeypatch.setattr("profiling.laws.fit_trying.free_memory_mib", lambda _="cpu": 101.0)
        with pytest.raises(MeasuringError, match="all is held by torch alone"):
            attempt(1000)
    assert trying.alive == []


def test_a_person_may_give_less_memory_or_lift_the_limit(trying: type[FakeChild]) -> None:
    with ChildTrier("custom", GRID, memory_mib=270.0) as attempt:
        assert attempt.room_mib == 70.0
        assert attempt(5000).status == "oom"
    with ChildTrier("custom", GRID, anyway=True) as attempt:
        assert attempt.room_mib is None
        assert attempt(20_000).status == "ok"
    assert [request["limit_mib"] for request in trying.asked] == [270.0, None]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"memory_mib": 1801.0}, "at most 1.76 GiB, 90 % of the 1.95 GiB that are free here, not 1.76 GiB"),
        ({"memory_mib": 200.0}, "more than the 200 MiB that a process holds here with torch loaded"),
        ({"memory_mib": 300.0, "anyway": True}, "memory must be left out with anyway"),
    ],
)
@pytest.mark.usefixtures("trying")
def test_a_limit_that_nothing_can_be_held_to_is_refused_and_the_device_given_back(
    how: dict[str, Any], words: str
) -> None:
    for _ in range(2):
        with pytest.raises(GridError, match=words), ChildTrier("custom", GRID, **how):
            pass


@pytest.mark.usefixtures("own_signals")
def test_on_a_device_with_memory_of_its_own_that_is_searched_and_nothing_else(
    trying: type[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TryingChild, "free_mib", 1000.0)
    monkeypatch.setattr("profiling.laws.fit_trying.free_memory_mib", lambda _="cpu": None)
    told = CliRunner().invoke(main, [*COMMAND, "--device", "cuda:0", "--json"])
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    # 1e-5·S² + 0.001·S + 5 = 900 - 200 at 8,287.
    assert (answer["free_mib"], answer["memory_mib"], answer["room_mib"]) == (1000.0, 900.0, 700.0)
    assert 8287 / 1.05 - 128 < answer["fits"] <= 8287
    tried = [request for request in trying.asked if request["request"] == "try_call"]
    assert {request["limit_mib"] for request in tried} == {900.0}
    assert trying.alive == []


def test_where_a_device_cannot_be_told_its_limit_what_goes_beyond_did_not_fit(
    trying: type[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TryingChild, "free_mib", 1000.0)
    monkeypatch.setattr(TryingChild, "is_limited", False)
    grid = dataclasses.replace(GRID, device="cuda:0")
    with ChildTrier("custom", grid, memory_mib=300.0) as attempt:
        assert attempt(1000).status == "ok"
        beyond = attempt(5000)
    assert (beyond.status, beyond.reason) == ("oom", "it held 460 MiB, and 300 MiB may be held")
    assert trying.alive == []


def test_where_no_limit_can_be_set_what_is_guessed_not_to_fit_is_not_tried(
    trying: type[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiling.laws.fit_trying.sys.platform", "darwin")
    with ChildTrier("custom", GRID) as attempt:
        refused = attempt(20_000)
        assert attempt(100).status == "ok"
    assert refused.status == "refused"
    assert refused.reason == "it needs about 7.46 GiB, and 1.56 GiB may be taken"
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
    # 1e-5·S² + 0.001·S + 5 = 1600 at 12,580.
    assert told.stdout.startswith("custom fits up to seq_len 12,")
    assert "the memory law of the shorter ones that ran predicts 12,579" in told.stdout
    assert "ran out of memory (asked for 1" in told.stderr
    answer = json.loads(CliRunner().invoke(main, [*COMMAND, "--json"]).stdout)
    assert 12_579 / 1.05 - 128 < answer["fits"] <= 12_579
    assert answer["law_predicted"] == 12_579
    none = CliRunner().invoke(main, [*COMMAND, "--memory", "204", "--json"])
    assert none.exit_code == 1
    assert json.loads(none.stdout)["fits"] is None


@pytest.mark.usefixtures("own_signals", "trying")
@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        (["--seq-len", "512"], 2, "seq_len is what is searched: leave --seq-len out"),
        (["--heap", "warm"], 2, "heap must be one of pinned, as-is, not 'warm'"),
        (["--memory", "0"], 2, "memory must be an amount above 0 such as 600MiB or 1.5GiB"),
        (["--memory", "-1"], 2, "not '-1'"),
        (["--memory", "abc"], 2, "not 'abc'"),
        (["--memory", "1TiB"], 2, "memory must be at most 1.76 GiB, 90 % of the 1.95 GiB that are free here"),
        (["--memory", "0.1GiB"], 2, "memory must be more than the 200 MiB that a process holds here"),
        (["--memory", "600", "--anyway"], 2, "memory must be left out with anyway"),
        (["--to", "8"], 2, "from a smaller size to a larger, not from 128 to 8"),
        (["--num-heads", "5"], 2, "d_model 6 is not divisible by num_heads 5"),
        (["--run", "no-such-run"], 2, "there is no run no-such-run"),
        (["--budget", "-1"], 2, "budget must be a number of seconds above 0"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_sentence_and_one_object(
    changes: list[str], status: int, words: str
) -> None:
    done = CliRunner().invoke(main, [*COMMAND, *changes, "--json"])
    assert done.exit_code == status, done.output
    assert words in json.loads(done.stdout)["error"]


@pytest.mark.usefixtures("own_signals", "trying")
def test_how_slow_a_compiled_search_is_stands_before_its_first_length() -> None:
    told = CliRunner().invoke(main, ["fits", "compiled:custom", *COMMAND[2:], "--to", "256", "--json"])
    first, *rest = told.stderr.splitlines()
    assert "each length is compiled anew" in first
    assert "tens of seconds to minutes each" in first
    assert rest[0].startswith("256 ran")
    assert json.loads(told.stdout)["fits"] == 256
    plain = CliRunner().invoke(main, [*COMMAND, "--to", "256"])
    assert "compiled" not in plain.stderr
    told_by_help = " ".join(CliRunner().invoke(main, ["fits", "--help"]).stdout.split())
    assert "tens of seconds to minutes for each" in told_by_help


# -- a compiled layer -------------------------------------------------------------------------------------------------


class LimitedDevice(Cpu):
    """Holds what it is told, and keeps the limits that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.limits = 300 * 2**20, []

    def held_bytes(self) -> int | None:
        return self.held

    def limit_bytes(self, limit: int | None) -> bool:
        self.limits.append(limit)
        return True


def test_a_compiler_works_beyond_the_limit_and_what_it_leaves_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    callbacks = SimpleNamespace(start=[], end=[])
    handler = SimpleNamespace(
        register_start_callback=callbacks.start.append,
        register_end_callback=callbacks.end.append,
        remove_start_callback=callbacks.start.remove,
        remove_end_callback=callbacks.end.remove,
    )
    monkeypatch.setattr("profiling.measuring.compiler_room._handler", lambda: handler)
    device, said = LimitedDevice(), []
    with CompilerRoom(device, 7 * 2**20, said.append) as room:
        for left in (11, 13):  # the call forwards, then backwards
            callbacks.start[0](SimpleNamespace())
            device.held += left
            callbacks.end[0](SimpleNamespace())
            device.held += 1700  # the call's own
    assert device.limits == [None, 7 * 2**20] * 2
    assert room.left_bytes == 24
    assert room.seconds > 0
    assert said == ["compile", "warm-up"] * 2
    assert (callbacks.start, callbacks.end) == ([], [])


def test_a_compiler_that_runs_out_of_time_is_not_taken_for_what_does_not_fit(trying: type[FakeChild]) -> None:
    death = ChildDied("timeout", "gave no answer within 300 s and was ended", Running("compile", "compiled:custom"))
    trying.script[("compiled:custom", 1000)] = death
    with ChildTrier("compiled:custom", GRID) as attempt:
        tried = attempt(1000)
    assert (tried.status, tried.reason) == ("timeout", "gave no answer within 300 s and was ended, in compile")


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses a process what it allocates beyond a limit")
def test_a_compiled_call_is_held_to_the_limit_and_its_compiler_is_not() -> None:
    with MeasuringChild() as child:
        small = try_call(child, 61, contender="compiled:custom", limit_mib=600.0)
        assert child.is_alive()
    with MeasuringChild() as child:
        # Without gradients the compiler puts the fused attention in its place, which holds no scores.
        large = try_call(child, 8111, "training", contender="compiled:custom", limit_mib=600.0)
    assert (small["status"], small["reason"], small["is_limited"]) == ("ok", "", True)
    assert small["compile_s"] > small["call_s"]
    assert small["base_mib"] + small["compiler_mib"] <= small["before_mib"] < 600
    assert large["status"] == "oom", large["reason"]
    assert large["compile_s"] > 0
    assert large["failed_at_mib"] <= 600 < large["failed_at_mib"] + large["asked_mib"]
