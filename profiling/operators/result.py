"""What became of profiling a workload: of each contender its operators by role, which add up to its profiled time."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from profiling.operators.landmarks import FUSED_ROLE
from profiling.operators.roles import ROLES, OperatorTime, label_of
from profiling.units import format_time
from profiling.workload import Workload

# Events are kept to the nanosecond; what is off by more than the rounding of one call was lost or counted twice.
ROUNDING_NS = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoleTime:
    """All operators of one role, per call.

    Attributes:
        role: one of `ROLES`.
        is_backward: whether in the backward pass.
        num_calls: of operators, per call of the layer.
        self_ms: their own time on the host.
        share: of the profiled time.
        device_ms: time of the kernels that they launched; None where there is no accelerator.
        operators: the operators in it, the longest first; their numbers are over all profiled calls.
        calls_ms: what each profiled call spent; empty where single calls are not told.
    """

    role: str
    is_backward: bool
    num_calls: float
    self_ms: float
    share: float
    device_ms: float | None
    operators: tuple[OperatorTime, ...]
    calls_ms: tuple[float, ...] = ()

    @property
    def quartiles_ms(self) -> tuple[float, float] | None:
        """Between which half of the calls spent; None where single calls are not told."""
        if len(self.calls_ms) < 2:
            return None
        low, _, high = statistics.quantiles(self.calls_ms, n=4, method="inclusive")
        return low, high

    @property
    def label(self) -> str:
        """The role in words: `scores`, `scores, backward`."""
        return label_of(self.role, self.is_backward)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContenderProfile:
    """One contender's profile, or why there is none.

    Attributes:
        contender: its name.
        status: `ok`, or as a sweep's row has it: `oom`, `crashed`, `timeout`, `error`, `unavailable`.
        status_reason: why it is not `ok`; empty where it is.
        check_verdict: as in a sweep; None for what is compared with nothing.
        kernel: the attention program that was seen to run.
        warnings: what a reader should know.
        num_calls: how many calls were profiled.
        total_ns: the time of all of them.
        operators: what ran in them, over all of them.
        role_ns: role in words → its time in each call.
        device_total_ns: time of all kernels; None where there is no accelerator.
    """

    contender: str
    status: str = "ok"
    status_reason: str = ""
    check_verdict: str | None = None
    kernel: str | None = None
    warnings: str = ""
    num_calls: int = 0
    total_ns: int = 0
    operators: tuple[OperatorTime, ...] = ()
    role_ns: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
    device_total_ns: int | None = None

    @classmethod
    def from_answer(cls, contender: str, told: Mapping[str, Any]) -> ContenderProfile:
        """The profile in a measuring process's answer; cells that are no part of one are left out."""
        names = {field.name for field in dataclasses.fields(cls)} - {"operators", "contender"}
        cells = {name: value for name, value in told.items() if name in names and value is not None}
        return cls(
            contender=contender, operators=tuple(OperatorTime(**each) for each in told.get("operators", ())), **cells
        )

    @property
    def is_measured(self) -> bool:
        """Whether there is anything to show."""
        return self.status == "ok" and self.num_calls > 0 and self.total_ns > 0

    @property
    def total_ms(self) -> float | None:
        """The profiled time of one call; None where there is none."""
        return self.total_ns / self.num_calls / 1e6 if self.is_measured else None

    @property
    def accounted_ms(self) -> float | None:
        """What the operators, and the time outside of them, add up to, per call."""
        return sum(each.self_ns for each in self.operators) / self.num_calls / 1e6 if self.is_measured else None

    @property
    def is_fused(self) -> bool:
        """Whether scores, softmax and weighted sum are one kernel, which nobody can split."""
        return any(each.role == FUSED_ROLE for each in self.operators)

    @property
    def mismatch(self) -> str | None:
        """How far the roles are from adding up to the profiled time, in words; None where they do."""
        if self.total_ms is None:
            return None
        off = sum(each.self_ns for each in self.operators) - self.total_ns
        if abs(off) > ROUNDING_NS * self.num_calls:
            more = "more" if off > 0 else "less"
            return (
                f"the operators of {self.contender} do not add up: {format_time(abs(off) / self.num_calls / 1e9)} "
                f"{more} than the profiled {format_time(self.total_ms / 1e3)} of a call"
            )
        launched = sum(each.device_ns or 0 for each in self.operators)
        ran = launched if self.device_total_ns is None else self.device_total_ns
        if abs(ran - launched) > ROUNDING_NS * self.num_calls:
            seconds = abs(ran - launched) / self.num_calls / 1e9
            return f"kernels of {format_time(seconds)} a call belong to no operator of {self.contender}"
        return None

    def roles(self) -> list[RoleTime]:
        """The roles that occur, forward ones first, in the order of `ROLES`."""
        if not self.is_measured:
            return []
        keys = [(is_backward, role) for is_backward in (False, True) for role in ROLES]
        grouped = {key: [each for each in self.operators if (each.is_backward, each.role) == key] for key in keys}
        return [self._role(role, is_backward, found) for (is_backward, role), found in grouped.items() if found]

    def _role(self, role: str, is_backward: bool, operators: list[OperatorTime]) -> RoleTime:
        self_ns = sum(each.self_ns for each in operators)
        device = [each.device_ns for each in operators if each.device_ns is not None]
        return RoleTime(
            role=role,
            is_backward=is_backward,
            num_calls=sum(each.num_calls for each in operators) / self.num_calls,
            self_ms=self_ns / self.num_calls / 1e6,
            share=self_ns / self.total_ns,
            device_ms=sum(device) / self.num_calls / 1e6 if device else None,
            operators=tuple(sorted(operators, key=lambda each: -each.self_ns)),
            calls_ms=tuple(spent / 1e6 for spent in self.role_ns.get(label_of(role, is_backward), ())),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorProfile:
    """The profiles of a workload's contenders, in the order in which they were asked for.

    Attributes:
        workload: what was called.
        contenders: one profile each.
        device_name: the device, for a person.
        torch_version: torch's.
        trace_bytes: about how long a trace would be; None where none was asked for, or none can be made.
        no_trace_reason: why none can be made; empty where one can, or where nobody is left to trace.
    """

    workload: Workload
    contenders: tuple[ContenderProfile, ...]
    device_name: str = ""
    torch_version: str = ""
    trace_bytes: int | None = None
    no_trace_reason: str = ""

    @property
    def lost(self) -> Sequence[ContenderProfile]:
        """Those that were not profiled to the end."""
        return [each for each in self.contenders if not each.is_measured]

    @property
    def mismatches(self) -> list[str]:
        """Where the roles do not add up, in words."""
        return [each.mismatch for each in self.contenders if each.mismatch is not None]

    def pair(self) -> tuple[ContenderProfile, ContenderProfile] | None:
        """The first two that were profiled; None where there are not two."""
        measured = [each for each in self.contenders if each.is_measured]
        return (measured[0], measured[1]) if len(measured) > 1 else None
