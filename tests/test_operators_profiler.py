"""Profiles come from processes of their own, under the device's lock; who dies says so, and the rest is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_operators import MM
from own_layers import write_layer

from profiling.child_process import ChildDied, ChildNotStarted, ChildStopped, MeasuringError
from profiling.device_lock import DeviceBusy, DeviceLock, owner
from profiling.operators import profiler as module
from profiling.operators.profiler import OperatorProfiler, TraceNotWritten, require_trace_place
from profiling.protocol import Running
from profiling.settings import SweepSettings
from profiling.workload import Grid, GridError

OPERATORS = [
    {"name": MM, "role": "projections", "is_backward": False, "num_calls": 4, "self_ns": 3000, "device_ns": None}
]


class Child:
    """Answers as a measuring process does, and dies when it comes to a contender that `deaths` names."""

    deaths: dict[str, Exception] = {}  # noqa: RUF012 - set by each test
    asked: list[dict[str, Any]] = []  # noqa: RUF012
    alive: list[Child] = []  # noqa: RUF012
    trace: Path | None = None
    no_trace_reason = ""
    breaks: str | None = None  # a layer that spoils torch for whoever is profiled beside it

    def __init__(self, *, heap: str, lock_fd: int | None) -> None:
        self.heap, self.lock_fd, self._lives = heap, lock_fd, True
        Child.alive.append(self)

    def is_alive(self) -> bool:
        return self._lives

    def close(self) -> None:
        self._lives = False
        if self in Child.alive:
            Child.alive.remove(self)

    def stop(self) -> None:
        pass

    def ask(self, request: dict[str, Any], *, limit_s: float) -> dict[str, Any]:
        Child.asked.append(request)
        if request["request"] == "environment":
            return {"device": "cpu", "torch_threads": 2, "device_name": "Made-up", "torch_version": "2.13.0"}
        if request["request"] == "operator_trace":
            return {"path": str(Child.trace)} if Child.trace else {"path": None, "reason": "No space left on device"}
        assert owner("cpu") is not None, "the device is locked"
        for name in request["contenders"]:
            if name in Child.deaths:
                if isinstance(Child.deaths[name], ChildDied):
                    self.close()
                raise Child.deaths[name]
        ok = {"status": "ok", "num_calls": 4, "total_ns": 3000, "operators": OPERATORS, "peak_memory_mib": 1.0}
        if Child.breaks in request["contenders"]:
            ok = {"status": "error", "status_reason": "TypeError: 'NoneType' object is not callable"}
        size = 1000 * request["num_trace_calls"] or None
        told = {"contenders": dict.fromkeys(request["profiled"], ok), "no_trace_reason": Child.no_trace_reason}
        return {**told, "trace_bytes": None if Child.no_trace_reason else size}


@pytest.fixture(autouse=True)
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Child]]:
    Child.deaths, Child.asked, Child.alive, Child.trace, Child.breaks = {}, [], [], None, None
    Child.no_trace_reason = ""
    monkeypatch.setattr(module, "MeasuringChild", Child)
    yield Child
    assert Child.alive == [], "no process outlives its profiler"
    assert owner("cpu") is None


def profiler(*profiled: str, grid: dict[str, Any] | None = None, **settings: Any) -> OperatorProfiler:
    sizes = {"batch_size": (3,), "seq_len": (7,), "num_heads": (2,), "d_model": 10, "threads": 1, "device": "cpu"}
    names = profiled or ("custom", "official")
    return OperatorProfiler(Grid(**sizes | (grid or {})), SweepSettings(contenders=names, **settings), names)


def died(name: str, status: str = "crashed") -> ChildDied:
    return ChildDied(status, "was ended by signal 11", Running("operators", name))


def requests(kind: str) -> list[dict[str, Any]]:
    return [each for each in Child.asked if each["request"] == kind]


def test_both_are_profiled_in_one_process_with_the_heap_of_the_settings() -> None:
    with profiler(heap="as-is") as mine:
        found = mine.profile(5)
        assert [child.heap for child in Child.alive] == ["as-is"]
    assert [(each.contender, each.total_ms, each.mismatch) for each in found.contenders] == [
        ("custom", 0.00075, None),
        ("official", 0.00075, None),
    ]
    assert (found.workload.threads, found.workload.device, found.trace_bytes) == (1, "cpu", None)
    assert requests("operators")[0]["num_calls"] == 5


def test_open_threads_are_those_of_the_process() -> None:
    with profiler(grid={"threads": None}) as mine:
        assert mine.profile().workload.threads == 2


def test_a_reference_is_built_to_compare_with_and_not_profiled() -> None:
    with profiler("custom-fused") as mine:
        found = mine.profile()
    assert [each.contender for each in found.contenders] == ["custom-fused"]
    (request,) = requests("operators")
    assert (request["contenders"], request["profiled"]) == (["custom-fused", "official-fused"], ["custom-fused"])


@pytest.mark.parametrize("status", ["crashed", "timeout", "oom"])
def test_a_layer_that_takes_its_process_down_says_so_and_the_others_are_profiled(tmp_path: Path, status: str) -> None:
    name = f"{write_layer(tmp_path)}:Right"
    Child.deaths = {name: died(name, status)}
    with profiler(name, "official") as mine:
        found = mine.profile()
    lost, official = found.contenders
    assert (lost.status, lost.is_measured, official.is_measured) == (status, False, True)
    assert lost.status_reason.startswith("was ended by signal 11")
    assert lost.status_reason.endswith(", in operators")
    assert ("--time-limit" in lost.status_reason) == (status == "timeout")
    assert [each["contenders"] for each in requests("operators")] == [[name, "official"], ["official"]]
    assert found.lost == [lost]


def test_a_layer_that_breaks_torch_for_the_others_is_told_alone_and_they_are_profiled_in_a_fresh_process(
    tmp_path: Path,
) -> None:
    name = f"{write_layer(tmp_path)}:Right"
    Child.breaks = name
    with profiler(name, "official") as mine:
        found = mine.profile(with_trace=True)
        assert len(Child.alive) == 1
    broken, official = found.contenders
    assert (broken.status, official.is_measured) == ("error", True)
    assert "'NoneType'" in broken.status_reason
    assert [each["contenders"] for each in requests("operators")] == [[name, "official"], ["official"]]
    assert found.trace_bytes, "a trace can be written of those that are left"


def test_a_death_of_nobody_known_is_everybodys() -> None:
    Child.deaths = {"official": ChildDied("oom", "had no memory left", Running("build", ""))}
    with profiler() as mine:
        found = mine.profile()
    assert [each.status for each in found.contenders] == ["oom", "oom"]
    assert found.contenders[0].status_reason == "had no memory left, in build"


def test_a_refused_request_is_told_for_each() -> None:
    refused = MeasuringError("asked for 4 TiB")
    refused.status = "oom"
    Child.deaths = {"custom": refused}
    with profiler() as mine:
        found = mine.profile(with_trace=True)
        assert [(each.status, each.status_reason) for each in found.contenders] == [("oom", "asked for 4 TiB")] * 2
        with pytest.raises(TraceNotWritten, match="no contender is left to trace"):
            mine.write_trace(Path("never"), expected_bytes=found.trace_bytes)


def test_a_process_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(module, "MeasuringChild", refuse)
    with profiler() as mine, pytest.raises(ChildNotStarted, match="Resource temporarily unavailable"):
        mine.profile()


def test_a_stop_ends_it() -> None:
    Child.deaths = {"custom": ChildStopped()}
    with profiler() as mine, pytest.raises(ChildStopped):
        mine.profile()


def test_a_busy_device_is_not_disturbed() -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="long")
    try:
        with profiler() as mine, pytest.raises(DeviceBusy, match="with sweep long"):
            mine.profile()
    finally:
        lock.release()
    assert requests("operators") == []


def test_the_trace_is_of_few_calls_and_its_size_is_told_before_it_is_written(tmp_path: Path) -> None:
    Child.trace = tmp_path / "of-the-child.json"
    Child.trace.write_text('{"traceEvents":[]}')
    with profiler() as mine:
        found = mine.profile(11, with_trace=True)
        assert found.trace_bytes == 3000
        assert requests("operator_trace") == []
        assert mine.write_trace(tmp_path / "t.json", expected_bytes=found.trace_bytes) == 18
    assert json.loads((tmp_path / "t.json").read_text()) == {"traceEvents": []}
    assert requests("operator_trace") == [{"request": "operator_trace", "num_trace_calls": 3}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["of-the-child.json", "t.json"]


def test_a_trace_above_the_limit_is_not_even_made(tmp_path: Path) -> None:
    with profiler() as mine:
        found = mine.profile(with_trace=True)
        with pytest.raises(TraceNotWritten, match=r"about 2\.93 KiB, and --max-trace-mib allows 1\.00 KiB"):
            mine.write_trace(tmp_path / "t.json", max_mib=1 / 1024, expected_bytes=found.trace_bytes)
    assert requests("operator_trace") == []
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_the_process_cannot_write_is_told(tmp_path: Path) -> None:
    with profiler() as mine:
        found = mine.profile(with_trace=True)
        with pytest.raises(TraceNotWritten, match=r"no trace is written to .*t\.json: No space left on device"):
            mine.write_trace(tmp_path / "t.json", expected_bytes=found.trace_bytes)


def test_a_trace_that_was_not_even_possible_says_why_and_leaves_the_profile(tmp_path: Path) -> None:
    Child.no_trace_reason = "the disk of the folder for temporary files, /made/up, has 0 MiB free"
    with profiler() as mine:
        found = mine.profile(with_trace=True)
        assert (found.lost, found.trace_bytes, found.no_trace_reason) == ([], None, Child.no_trace_reason)
        with pytest.raises(TraceNotWritten, match=r"no trace is written to .*t\.json: the disk of .*/made/up"):
            mine.write_trace(tmp_path / "t.json", expected_bytes=found.trace_bytes)
    assert requests("operator_trace") == []


def test_a_trace_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    Child.trace = tmp_path / "of-the-child.json"
    Child.trace.write_text("{}")
    with profiler() as mine:
        found = mine.profile(with_trace=True)
        with pytest.raises(TraceNotWritten, match="cannot be written: No such file or directory"):
            mine.write_trace(tmp_path / "gone" / "t.json", expected_bytes=found.trace_bytes)


def test_where_no_file_can_come_to_be_is_said_beforehand(tmp_path: Path) -> None:
    require_trace_place(tmp_path / "t.json")
    with pytest.raises(TraceNotWritten, match="there is no folder"):
        require_trace_place(tmp_path / "gone" / "t.json")
    with pytest.raises(TraceNotWritten, match="it is a folder"):
        require_trace_place(tmp_path)


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"seq_len": (5, 7)}, "operators are profiled at one point, not at 2: give one value for each"),
        ({"num_heads": (3,)}, "d_model 10 is not divisible by num_heads 3"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(grid: dict[str, Any], words: str) -> None:
    with pytest.raises(GridError) as raised:
        profiler(grid=grid)
    assert str(raised.value) == words


@pytest.mark.parametrize("number", [0, -3, 10_001, True, 2.0])
def test_a_number_of_calls_that_nobody_means_is_refused(number: Any) -> None:
    with profiler() as mine, pytest.raises(GridError, match="iterations must be"):
        mine.profile(number)


def test_a_shape_without_room_is_refused_unless_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_memory_mib", lambda _: 1.0)
    with profiler() as mine, pytest.raises(GridError, match=r"of which 1\.00 MiB are free: profile a smaller shape"):
        mine.profile()
    with profiler(anyway=True) as mine:
        assert mine.profile().lost == []
