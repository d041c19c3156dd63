"""An operator profile for people, line by line, and for machines, as one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiling.operators.backward import ANY_OF_SCORES, ANY_PROJECTION
from profiling.operators.comparison import align, difference_words
from profiling.operators.landmarks import FUSED_ROLE, OTHER_ROLE
from profiling.operators.result import ContenderProfile, OperatorProfile, RoleTime
from profiling.operators.roles import ROLES, label_of
from profiling.units import format_time
from profiling.wording import cut_middle, one_line, short_names

# At least; a longer role makes it wider.
LABEL_WIDTH = 29
NAME_WIDTH = 26
REASON_WIDTH = 400
_ROLE_ORDER = [(is_backward, role) for is_backward in (False, True) for role in ROLES]
CAUTION = (
    "Times as the profiler sees them: it adds to each operator, so take shares and calls from here, and from a sweep "
    "how long a call takes."
)


def report_lines(profile: OperatorProfile) -> list[str]:
    """The table of roles, what it comes to, where two contenders differ, and who could not be profiled."""
    measured = [each for each in profile.contenders if each.is_measured]
    names = short_names([each.contender for each in profile.contenders])
    place = ", ".join(part for part in (profile.device_name, f"torch {profile.torch_version}") if part)
    threads = profile.workload.threads
    lines = [f"{profile.workload.label}, {threads} thread{'s' * (threads > 1)}; {place}"]
    if measured:
        lines += ["", *_table(measured, names), ""]
        lines += [f"warning: {text}" for text in profile.mismatches]
        if not profile.mismatches:
            lines += ["The roles add up to the profiled call."]
        lines += [line for each in measured for line in notes(each, names[each.contender])]
        lines += [f"  -> {words}" for one, other in _pairs(measured) for words in difference_words(one, other)]
        lines += [CAUTION]
    for each in profile.lost:
        reason = one_line(each.status_reason or "nothing was recorded", REASON_WIDTH)
        lines += [f"{names[each.contender]}: {each.status}, {reason}"]
    return lines


def report_dict(profile: OperatorProfile) -> dict[str, Any]:
    """All of it by name, ready for JSON; times are per call."""
    measured = [each for each in profile.contenders if each.is_measured]
    return {
        "workload": profile.workload.to_dict(),
        "device_name": profile.device_name,
        "torch_version": profile.torch_version,
        "trace_bytes": profile.trace_bytes,
        "no_trace_reason": profile.no_trace_reason,
        "contenders": [_contender_dict(each) for each in profile.contenders],
        "differences": [
            {
                "one": one.contender,
                "other": other.contender,
                "roles": [
                    {"role": pair.role, "is_backward": pair.is_backward, "difference_ms": pair.difference_ms}
                    for pair in align(one, other)
                ],
                "words": difference_words(one, other),
            }
            for one, other in _pairs(measured)
        ],
    }


def _pairs(measured: Sequence[ContenderProfile]) -> list[tuple[ContenderProfile, ContenderProfile]]:
    """The first beside each of the others."""
    return [(measured[0], other) for other in measured[1:]]


def _table(measured: Sequence[ContenderProfile], names: Mapping[str, str]) -> list[str]:
    has_device = any(role.device_ms is not None for each in measured for role in each.roles())
    roles = {each.contender: {(r.is_backward, r.role): r for r in each.roles()} for each in measured}
    keys = [key for key in _ROLE_ORDER if any(key in found for found in roles.values())]
    head = f"{'ms' if not has_device else 'host ms':>9} {'share':>7} {'calls':>6}" + f"{'device ms':>10}" * has_device
    width = max(len(head), NAME_WIDTH)
    wide = max(LABEL_WIDTH, *(len(label_of(role, is_backward)) + 2 for is_backward, role in keys))
    is_pair = len(measured) == 2
    lines = [
        " " * wide + "".join(f"{cut_middle(names[each.contender], width):>{width + 2}}" for each in measured),
        f"{'role':{wide}}" + f"{head:>{width + 2}}" * len(measured) + "  difference" * is_pair,
    ]
    for is_backward, role in keys:
        found = [roles[each.contender].get((is_backward, role)) for each in measured]
        cells = "".join(f"{_cells(each, has_device=has_device):>{width + 2}}" for each in found)
        lines.append(f"{label_of(role, is_backward):{wide}}{cells}{_difference(found) if is_pair else ''}")
    total = "".join(f"{f'{each.total_ms:9.3f} {1:7.1%}' + ' ' * (len(head) - 17):>{width + 2}}" for each in measured)
    return [line.rstrip() for line in (*lines, f"{'profiled call':{wide}}{total}")]


def _cells(role: RoleTime | None, *, has_device: bool) -> str:
    if role is None:
        return f"{'–':>9} {'':>7} {'':>6}" + " " * 10 * has_device
    device = ("" if role.device_ms is None else f"{role.device_ms:.3f}") if has_device else ""
    return f"{role.self_ms:9.3f} {role.share:7.1%} {role.num_calls:6.4g}" + f"{device:>10}" * has_device


def _difference(found: Sequence[RoleTime | None]) -> str:
    one, other = (each.self_ms if each is not None else 0.0 for each in found)
    return f"{one - other:+12.3f}"


def notes(profile: ContenderProfile, name: str) -> list[str]:
    """What a reader should know of one contender's profile, by whatever name it is called there, in sentences."""
    told: list[str] = []
    if profile.check_verdict not in (None, "pass"):
        told.append(f"warning: {name} is {profile.check_verdict}: it does not do the same work")
    if profile.warnings:
        told.append(f"warning: {name}: {one_line(profile.warnings, REASON_WIDTH)}")
    if any(role.role in (ANY_OF_SCORES, ANY_PROJECTION) for role in profile.roles()):
        told.append(
            f"{name}: a compiler moves products of the backward pass, and what neither order nor sizes settle is told "
            "as scores or weighted sum, or as some projection"
        )
    for role in profile.roles():
        if role.role == FUSED_ROLE and not role.is_backward:
            kernel = f" ({profile.kernel})" if profile.kernel else ""
            told.append(f"{name} does scores, softmax and weighted sum in one kernel{kernel}: it cannot be split")
        if role.role == OTHER_ROLE:
            others = ", ".join(
                f"{each.num_calls / profile.num_calls:g} {each.name} "
                f"({format_time(each.self_ns / profile.num_calls / 1e9)})"
                for each in role.operators
            )
            told.append(f"{role.label} in {name}: {one_line(others, REASON_WIDTH)}")
    return told


def _contender_dict(profile: ContenderProfile) -> dict[str, Any]:
    return {
        "contender": profile.contender,
        "status": profile.status,
        "status_reason": profile.status_reason,
        "check_verdict": profile.check_verdict,
        "kernel": profile.kernel,
        "warnings": profile.warnings,
        "num_calls": profile.num_calls,
        "total_ms": profile.total_ms,
        "accounted_ms": profile.accounted_ms,
        "adds_up": profile.mismatch is None if profile.is_measured else None,
        "mismatch": profile.mismatch,
        "device_total_ms": _per_call_ms(profile.device_total_ns, profile.num_calls),
        "roles": [_role_dict(role, profile) for role in profile.roles()],
    }


def _role_dict(role: RoleTime, profile: ContenderProfile) -> dict[str, Any]:
    num_calls = profile.num_calls
    return {
        "role": role.role,
        "is_backward": role.is_backward,
        "num_calls": role.num_calls,
        "self_ms": role.self_ms,
        "share": role.share,
        "device_ms": role.device_ms,
        "quartiles_ms": role.quartiles_ms,
        "calls_ms": list(role.calls_ms),
        "operators": [
            {
                "name": each.name,
                "num_calls": each.num_calls / num_calls,
                "self_ms": each.self_ns / num_calls / 1e6,
                "device_ms": _per_call_ms(each.device_ns, num_calls),
            }
            for each in role.operators
        ],
    }


def _per_call_ms(nanoseconds: int | None, num_calls: int) -> float | None:
    return None if nanoseconds is None or num_calls < 1 else nanoseconds / num_calls / 1e6
