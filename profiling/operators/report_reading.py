"""The profile that `python -m profiling profile --json` told, as an object again: what `report_dict` wrote of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from profiling.operators.result import ContenderProfile, OperatorProfile
from profiling.operators.roles import OperatorTime, label_of
from profiling.workload import GridError, Workload


def profile_from_report(told: Mapping[str, Any]) -> OperatorProfile:
    """The profile in a report; its times are whole nanoseconds again, so that they add up as they did.

    Raises:
        ValueError: it is no such report.
    """
    try:
        return OperatorProfile(
            workload=Workload.from_dict(told["workload"]),
            contenders=tuple(_contender(each) for each in told["contenders"]),
            device_name=told["device_name"],
            torch_version=told["torch_version"],
            trace_bytes=told["trace_bytes"],
            no_trace_reason=told["no_trace_reason"],
        )
    except (KeyError, TypeError, AttributeError, GridError) as error:
        raise ValueError(f"it is no profile: {type(error).__name__} {error}") from error


def _contender(told: Mapping[str, Any]) -> ContenderProfile:
    num_calls = told["num_calls"]
    return ContenderProfile(
        contender=told["contender"],
        status=told["status"],
        status_reason=told["status_reason"],
        check_verdict=told["check_verdict"],
        kernel=told["kernel"],
        warnings=told["warnings"],
        num_calls=num_calls,
        total_ns=_nanoseconds(told["total_ms"], num_calls) or 0,
        operators=tuple(_operators(told["roles"], num_calls)),
        role_ns={
            label_of(role["role"], role["is_backward"]): [round(each * 1e6) for each in role["calls_ms"]]
            for role in told["roles"]
        },
        device_total_ns=_nanoseconds(told["device_total_ms"], num_calls),
    )


def _operators(roles: list[Mapping[str, Any]], num_calls: int) -> Iterator[OperatorTime]:
    for role in roles:
        for each in role["operators"]:
            yield OperatorTime(
                name=each["name"],
                role=role["role"],
                is_backward=role["is_backward"],
                num_calls=round(each["num_calls"] * num_calls),
                self_ns=round(each["self_ms"] * num_calls * 1e6),
                device_ns=_nanoseconds(each["device_ms"], num_calls),
            )


def _nanoseconds(milliseconds: float | None, num_calls: int) -> int | None:
    """Over all calls."""
    return None if milliseconds is None else round(milliseconds * num_calls * 1e6)
