"""A trace holds what the calls did, nothing of the machine they ran on, and where it has no room that is said."""

from __future__ import annotations

import errno
import json
import platform
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_runs import make_workload
from own_layers import write_layer
from real_faults import small_disk
from torch.autograd.profiler import profile

from profiling.measuring.answers import Answerer
from profiling.measuring.call_recording import record_calls
from profiling.measuring.chrome_trace import chrome_trace, kept_trace
from profiling.measuring.devices import Cpu
from profiling.measuring.operators import OperatorPass
from profiling.measuring.recording import recorded_events
from profiling.operators.landmarks import Shapes
from profiling.operators.recorded import CALL, calls_of
from profiling.operators.roles import operator_times
from profiling.protocol import Marker, encode

NAMES = ("official", "custom", "custom-fused", "official-fused")
BETWEEN = "between operators"
MICROSECOND_NS = 1000


@pytest.fixture
def recorded() -> profile:
    return record_calls({"mine": lambda: torch.ones(3).sum()}, 2, Cpu())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, within another one as in a measuring process."""
    within = tmp_path / "mha-bench-child-7"
    within.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(within))
    return within


def test_a_trace_tells_neither_the_machines_name_nor_a_folder_of_it(tmp_path: Path, folder: Path) -> None:
    name = f"{write_layer(tmp_path)}:Right"
    made = OperatorPass(
        make_workload(), [name], [name], Cpu(), say=lambda *_: None, layers={name: name}, reference="official"
    )
    made.profile_all(1)
    text = made.write_trace(1).read_text(encoding="ascii")
    trace = json.loads(text)
    assert {"traceEvents", "displayTimeUnit"} <= set(trace)
    assert {"host_name", "traceName"}.isdisjoint(trace)
    assert str(tmp_path) not in text
    assert platform.node() not in [value for value in trace.values() if isinstance(value, str)]
    assert "mine.py:Right" in {event["name"] for event in trace["traceEvents"]}
    assert [path.name[:6] for path in folder.iterdir()] == ["trace-"], "and nothing is left beside it"


@pytest.mark.parametrize("written", [None, '{"traceEvents":['])
def test_a_trace_that_the_profiler_could_not_write_is_for_want_of_room(
    recorded: profile, folder: Path, monkeypatch: pytest.MonkeyPatch, written: str | None
) -> None:
    def export(path: str) -> None:
        if written is not None:
            Path(path).write_text(written)

    monkeypatch.setattr(recorded, "export_chrome_trace", export)
    with pytest.raises(OSError, match="left no whole trace: the disk of the folder for temporary files, ") as raised:
        chrome_trace(recorded)
    assert str(folder.parent) in str(raised.value), "where a person can make room"
    assert str(folder) not in str(raised.value)


def test_a_trace_without_room_to_be_kept_is_told_and_leaves_nothing(folder: Path) -> None:
    with small_disk(folder / "disk", "64k") as disk:
        tempfile.tempdir = str(disk)
        with pytest.raises(OSError, match=f"No space left on device: the disk of .*, {folder}, has 0 MiB free"):
            kept_trace(bytes(2**17))
        assert list(disk.iterdir()) == []


class Full:
    """A pass whose trace finds no room."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def profile_all(self, num_calls: int) -> dict[str, Any]:
        return {"custom": {"status": "ok", "num_calls": num_calls}}

    def trace_bytes(self, num_calls: int) -> int:
        raise OSError(errno.ENOSPC, "made up: no room")

    write_trace = trace_bytes


def test_where_a_trace_finds_no_room_what_was_profiled_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiling.measuring.answers.OperatorPass", Full)
    child = Answerer(Marker(tmp_path / "running"))
    request = {"request": "operators", "workload": make_workload().to_dict(), "contenders": ["custom"]}
    told = child.answer(encode({**request, "profiled": ["custom"], "num_calls": 3, "num_trace_calls": 1}))["answer"]
    assert (told["contenders"]["custom"]["num_calls"], told["trace_bytes"]) == (3, None)
    assert "made up: no room" in told["no_trace_reason"]
    told = child.answer(encode({"request": "operator_trace", "num_trace_calls": 1}))["answer"]
    assert (told["path"], "made up: no room" in told["reason"]) == (None, True)


def traced_self_times(trace: dict[str, Any]) -> list[tuple[int, Counter[str]]]:
    """Of each call in a trace its nanoseconds, and the own time of what ran within it, by name, with what is between.

    By nesting alone: the parent of an event is the shortest one that encloses it.
    """
    spans = [
        (event["name"], round(event["ts"] * 1e3), round((event["ts"] + event["dur"]) * 1e3))
        for event in trace["traceEvents"]
        if event.get("cat") in ("cpu_op", "user_annotation")
    ]
    told = []
    for call in (span for span in spans if span[0] == CALL):
        within = [span for span in spans if span != call and call[1] <= span[1] and span[2] <= call[2]]
        own = Counter({BETWEEN: call[2] - call[1]})
        for name, start, end in within:
            around = [each for each in within if each[1] <= start and end <= each[2] and each != (name, start, end)]
            own[name] += end - start
            own[min(around, key=lambda each: each[2] - each[1])[0] if around else BETWEEN] -= end - start
        told.append((call[2] - call[1], own))
    return told


@pytest.fixture(params=["inference", "training"])
def passed(request: pytest.FixtureRequest) -> OperatorPass:
    names = list(NAMES) if request.param == "inference" else ["custom"]
    point = make_workload(mode=request.param)
    return OperatorPass(point, names, names, Cpu(), say=lambda *_: None, layers={}, reference="official")


def test_roles_add_up_to_what_a_trace_of_the_same_calls_adds_up_to(passed: OperatorPass) -> None:
    """A third sum, which shares nothing with ours: from the file that torch writes, by the times in it alone."""
    shapes = Shapes(batch_size=3, seq_len=7, num_heads=2, d_model=10)
    with passed._mode():
        seen = record_calls({name: passed._session.roster.live[name].call for name in passed._live()}, 2, Cpu())
    ours, theirs = calls_of(recorded_events(seen)), traced_self_times(json.loads(chrome_trace(seen)))
    assert len(ours) == len(theirs) == 2 * len(passed._live())
    for call, (total_ns, own) in zip(ours, theirs, strict=True):
        times = operator_times(call, shapes)
        by_name: Counter[str] = Counter()
        for each in times:
            by_name[each.name] += each.self_ns
        operators = [name for name in own if name.startswith("aten::")]
        assert sum(each.self_ns for each in times) == pytest.approx(total_ns, abs=MICROSECOND_NS)
        assert sum(own.values()) == pytest.approx(total_ns, abs=MICROSECOND_NS)
        assert len(operators) > 10
        for name in operators:
            assert own[name] == pytest.approx(by_name[name], abs=MICROSECOND_NS), name
