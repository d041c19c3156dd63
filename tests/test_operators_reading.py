"""A profile that was told in JSON is the same profile again, and what is none is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_operators import made_up, made_up_profile, timed

from profiling.operators.report_reading import profile_from_report
from profiling.operators.report_text import report_dict
from profiling.operators.result import ContenderProfile, OperatorProfile
from profiling.operators.roles import ROLES, OperatorTime

NANOSECONDS = st.integers(min_value=0, max_value=10**13)


@st.composite
def contenders(draw: st.DrawFn, name: str) -> ContenderProfile:
    """Any profile of up to 997 calls, adding up or not."""
    kinds = draw(st.lists(st.tuples(st.sampled_from(ROLES), st.booleans()), min_size=1, max_size=5, unique=True))
    operators = tuple(
        OperatorTime(
            name=f"aten::op{number}",
            role=role,
            is_backward=is_backward,
            num_calls=draw(st.integers(1, 10**6)),
            self_ns=draw(NANOSECONDS),
            device_ns=draw(st.none() | NANOSECONDS),
        )
        for number, (role, is_backward) in enumerate(kinds)
    )
    num_calls = draw(st.integers(1, 997))
    labels = {f"{role}, backward" if is_backward else role for role, is_backward in kinds}
    return ContenderProfile(
        contender=name,
        num_calls=num_calls,
        total_ns=draw(st.integers(1, 10**14)),
        operators=operators,
        role_ns={label: draw(st.lists(NANOSECONDS, min_size=2, max_size=5)) for label in labels},
        device_total_ns=draw(st.none() | NANOSECONDS),
    )


def again(profile: OperatorProfile) -> OperatorProfile:
    return profile_from_report(json.loads(json.dumps(report_dict(profile))))


@given(contenders("custom"), contenders("official"), st.none() | st.integers(0, 10**9))
def test_a_profile_is_the_same_after_it_was_told(one: ContenderProfile, other: ContenderProfile, size: Any) -> None:
    profile = made_up_profile(one, other, trace_bytes=size)
    read = again(profile)
    assert report_dict(read) == report_dict(profile)
    for before, after in zip(profile.contenders, read.contenders, strict=True):
        assert (after.total_ns, after.role_ns, after.mismatch) == (before.total_ns, before.role_ns, before.mismatch)
        assert set(after.operators) == set(before.operators)


def test_one_that_was_not_profiled_keeps_its_reason() -> None:
    lost = ContenderProfile(contender="official", status="oom", status_reason="asked for 162 MiB")
    read = again(made_up_profile(made_up("custom", timed("mm", "projections", 400)), lost))
    assert read.contenders[1] == lost
    assert [each.contender for each in read.lost] == ["official"]


@pytest.mark.parametrize("told", [{}, {"error": "no"}, [], {"workload": {}, "contenders": []}])
def test_what_is_no_profile_is_refused(told: Any) -> None:
    with pytest.raises(ValueError, match="it is no profile"):
        profile_from_report(told)


def test_a_profile_without_one_of_its_parts_is_refused() -> None:
    told = report_dict(made_up_profile(made_up("custom", timed("mm", "projections", 400))))
    del told["contenders"][0]["roles"][0]["operators"][0]["self_ms"]
    with pytest.raises(ValueError, match="self_ms"):
        profile_from_report(told)
