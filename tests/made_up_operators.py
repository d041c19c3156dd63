"""Operators, calls and profiles as a test needs them, without profiling."""

from __future__ import annotations

from typing import Any

from made_up_runs import make_workload

from profiling.operators.landmarks import Shapes
from profiling.operators.recorded import CALL, Call, Event, calls_of
from profiling.operators.result import ContenderProfile, OperatorProfile
from profiling.operators.roles import OperatorTime

SHAPES = Shapes(batch_size=3, seq_len=7, num_heads=2, d_model=10)
MM, BMM = "aten::mm", "aten::bmm"
PROJECTION = (MM, (21, 10), (10, 30))
SCORES = (BMM, (6, 7, 5), (6, 5, 7))
SOFTMAX = ("aten::_softmax", (6, 7, 7))
WEIGHTED_SUM = (BMM, (6, 7, 7), (6, 7, 5))
OUTPUT = (MM, (21, 10), (10, 10))
ATTENTION = (PROJECTION, SCORES, SOFTMAX, WEIGHTED_SUM, OUTPUT)


def in_a_row(*operators: tuple[Any, ...], each_ns: int = 10, gap_ns: int = 3, start_ns: int = 100) -> list[Event]:
    """Operators one after the other, and the call around them, which begins and ends with a gap."""
    events, at = [], start_ns + gap_ns
    for name, *shapes in operators:
        events.append(Event(name=name, start_ns=at, end_ns=at + each_ns, shapes=tuple(shapes)))
        at += each_ns + gap_ns
    return [Event(name=CALL, start_ns=start_ns, end_ns=at), *events]


def one_call(*events: Event) -> Call:
    (call,) = calls_of(events)
    return call


def timed(name: str, role: str, self_us: int, num_calls: int = 1, *, is_backward: bool = False) -> OperatorTime:
    return OperatorTime(
        name=f"aten::{name}", role=role, is_backward=is_backward, num_calls=num_calls, self_ns=1000 * self_us
    )


def made_up(contender: str, *operators: OperatorTime, **changes: Any) -> ContenderProfile:
    """A profile of one call that the operators add up to."""
    total = sum(each.self_ns for each in operators)
    fields: dict[str, Any] = {"num_calls": 1, "total_ns": total, "operators": operators}
    return ContenderProfile(contender=contender, **fields | changes)


def made_up_profile(*contenders: ContenderProfile, **changes: Any) -> OperatorProfile:
    fields = {"workload": make_workload(), "device_name": "Made-up Processor", "torch_version": "2.13.0"}
    return OperatorProfile(contenders=contenders, **fields | changes)
