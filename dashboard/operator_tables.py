"""Two contenders' operators as tables of text, role by role and by name. Pure: a profile to a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from profiling.charts.formatting import MISSING, latency, visible
from profiling.charts.names import names_of
from profiling.operators.kinds import short
from profiling.operators.result import ContenderProfile, OperatorProfile, RoleTime
from profiling.operators.roles import ROLES, OperatorTime, label_of

TOTAL = "profiled call"
DIFFERENCE = "difference"
# A role in one contender, by whether it is backward and its name.
Roles = Mapping[tuple[bool, str], RoleTime]
_KEYS = [(is_backward, role) for is_backward in (False, True) for role in ROLES]


def by_role(profile: OperatorProfile) -> pd.DataFrame:
    """A row a role: of each contender that was profiled time, share and operators a call; of two the difference."""
    measured = [each for each in profile.contenders if each.is_measured]
    names = names_of(each.contender for each in measured)
    has_device = any(role.device_ms is not None for each in measured for role in each.roles())
    sides: list[tuple[str, Roles]] = [
        (names[each.contender], {(role.is_backward, role.role): role for role in each.roles()}) for each in measured
    ]
    rows = []
    for key in (key for key in _KEYS if any(key in found for _, found in sides)):
        row = {"role": label_of(key[1], key[0])}
        for name, found in sides:
            row |= _role_cells(visible(name), found.get(key), has_device=has_device)
        if len(sides) == 2:
            one, other = (found[key].self_ms if key in found else 0.0 for _, found in sides)
            row[DIFFERENCE] = difference(one - other)
        rows.append(row)
    return pd.DataFrame([*rows, _total(measured, names)] if rows else []).fillna("")


def by_name(profile: OperatorProfile) -> pd.DataFrame:
    """A row an operator within its role, the longest first: of each contender calls and self time."""
    measured = [each for each in profile.contenders if each.is_measured]
    names = names_of(each.contender for each in measured)
    rows: list[dict[str, str]] = []
    for is_backward, role in _KEYS:
        found = {each.contender: _operators(each, is_backward, role) for each in measured}
        known = {name: max(_self_ms(each, found, name) for each in measured) for own in found.values() for name in own}
        for name in sorted(known, key=lambda each: -known[each]):
            row = {"role": label_of(role, is_backward), "operator": visible(short(name))}
            for each in measured:
                row |= _operator_cells(visible(names[each.contender]), found[each.contender].get(name), each.num_calls)
            rows.append(row)
    return pd.DataFrame(rows)


def difference(milliseconds: float) -> str:
    """A time with its sign: `+310 µs`."""
    sign = "+" if milliseconds > 0 else "−" if milliseconds < 0 else ""
    return f"{sign}{latency(abs(milliseconds))}"


def sums(profile: OperatorProfile) -> Iterator[str]:
    """What the operators of each contender that was profiled add up to, next to its profiled time."""
    measured = [each for each in profile.contenders if each.is_measured]
    names = names_of(each.contender for each in measured)
    for each in measured:
        yield f"{names[each.contender]} {_exactly(each.accounted_ms)} of {_exactly(each.total_ms)}"


def _exactly(milliseconds: float | None) -> str:
    return MISSING if milliseconds is None else f"{milliseconds:,.6f} ms"  # profilers tell nanoseconds


def _role_cells(name: str, role: RoleTime | None, *, has_device: bool) -> dict[str, str]:
    cells = {
        f"{name}: time": latency(None if role is None else role.self_ms),
        f"{name}: share": MISSING if role is None else f"{role.share:.1%}".replace("%", " %"),
        f"{name}: calls": MISSING if role is None else f"{role.num_calls:.4g}",
    }
    return cells | ({f"{name}: device": latency(None if role is None else role.device_ms)} if has_device else {})


def _total(measured: list[ContenderProfile], names: Mapping[str, str]) -> dict[str, str]:
    row = {"role": TOTAL}
    for each in measured:
        row |= {f"{visible(names[each.contender])}: time": latency(each.total_ms)}
        row |= {f"{visible(names[each.contender])}: share": "100 %"}
    if len(measured) == 2:
        row[DIFFERENCE] = difference((measured[0].total_ms or 0.0) - (measured[1].total_ms or 0.0))
    return row


def _operators(profile: ContenderProfile, is_backward: bool, role: str) -> dict[str, OperatorTime]:
    return {each.name: each for each in profile.operators if (each.is_backward, each.role) == (is_backward, role)}


def _self_ms(profile: ContenderProfile, found: Mapping[str, Mapping[str, OperatorTime]], name: str) -> float:
    own = found[profile.contender].get(name)
    return 0.0 if own is None else own.self_ns / profile.num_calls / 1e6


def _operator_cells(name: str, operator: OperatorTime | None, num_calls: int) -> dict[str, str]:
    if operator is None:
        return {f"{name}: calls": MISSING, f"{name}: time": MISSING}
    return {
        f"{name}: calls": f"{operator.num_calls / num_calls:g}",
        f"{name}: time": latency(operator.self_ns / num_calls / 1e6),
    }
