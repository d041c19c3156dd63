"""Two contenders' operators side by side: by role in numbers, and in words where the difference comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from profiling.operators.backward import ANY_OF_SCORES, ANY_PROJECTION
from profiling.operators.kinds import short
from profiling.operators.landmarks import FUSED_ROLE, OUTPUT, PROJECTIONS, SCORES, SOFTMAX_ROLE, WEIGHTED_SUM
from profiling.operators.result import ContenderProfile, RoleTime
from profiling.operators.roles import COMPILED_ROLE, FRAMEWORK_ROLE, ROLES, OperatorTime, label_of
from profiling.units import format_time
from profiling.wording import rounded_percent, short_names

# What a fused kernel does in one.
FUSED_PARTS = (SCORES, SOFTMAX_ROLE, WEIGHTED_SUM)
ATTENTION = "scores, softmax and weighted sum"
# A role of which it is open which one it is → those that it may be, and all of them as one.
_OPEN = {
    ANY_OF_SCORES: ((SCORES, WEIGHTED_SUM), "scores and weighted sum"),
    ANY_PROJECTION: ((PROJECTIONS, OUTPUT), "projections and output projection"),
}
# Of the longer call: what is less is not worth a sentence.
WORTH_SAYING = 0.02
MAX_SENTENCES = 5
# A difference of the means that is so many times that of most calls is one of a few calls.
FEW_CALLS = 2.0
# Operators named in one sentence, and what of the difference one has to explain.
_MAX_NAMED, _WORTH_NAMING = 2, 0.1
# Looks at a tensor another way and copies nothing: named only where nothing dearer differs.
_VIEWS = {
    *("as_strided", "view", "transpose", "t", "permute", "expand", "select", "slice", "narrow", "unsqueeze"),
    *("squeeze", "unbind", "unflatten", "reshape", "_unsafe_view", "alias", "detach", "resolve_conj", "resolve_neg"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RolePair:
    """One role in two contenders; None where it does not occur in one of them."""

    role: str
    is_backward: bool
    one: RoleTime | None
    other: RoleTime | None

    @property
    def label(self) -> str:
        """The role in words."""
        return label_of(self.role, self.is_backward)

    @property
    def difference_ms(self) -> float:
        """By how much the first spends more; a role that does not occur takes no time."""
        return _self_ms(self.one) - _self_ms(self.other)

    @property
    def is_of_few_calls(self) -> bool:
        """Whether a few calls that took far longer make up most of the difference, as where something interrupted them.

        Times are means, which have to add up; so one such call moves them, and the middle halves of the calls do not.
        """
        halves = self._halves
        if halves is None:
            return False
        (one_low, one_high), (other_low, other_high) = halves
        farthest = max(abs(one_high - other_low), abs(other_high - one_low))
        return abs(self.difference_ms) > FEW_CALLS * farthest

    @property
    def doubt(self) -> str:
        """Why the difference is not certain, as a sentence goes on; empty where it is.

        It is where most calls of one spent more than most calls of the other, and about as much more.
        """
        halves = self._halves
        if halves is None:
            return ""
        if halves[0][1] >= halves[1][0] and halves[1][1] >= halves[0][0]:
            return ", and no more than single calls vary: not certain"
        return ", most of it in a few calls that took far longer: not certain" if self.is_of_few_calls else ""

    @property
    def _halves(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """Between what the middle half of the calls of each spent; nothing where the role does not occur."""
        one, other = ((0.0, 0.0) if each is None else each.quartiles_ms for each in (self.one, self.other))
        return None if one is None or other is None else (one, other)


def align(one: ContenderProfile, other: ContenderProfile) -> list[RolePair]:
    """The roles that occur in either, forward ones first, in the order of `ROLES`."""
    ones, others = ({(each.is_backward, each.role): each for each in side.roles()} for side in (one, other))
    keys = [(is_backward, role) for is_backward in (False, True) for role in ROLES]
    return [
        RolePair(
            role=role,
            is_backward=is_backward,
            one=ones.get((is_backward, role)),
            other=others.get((is_backward, role)),
        )
        for is_backward, role in keys
        if (is_backward, role) in ones or (is_backward, role) in others
    ]


def difference_words(
    one: ContenderProfile, other: ContenderProfile, names: Mapping[str, str] | None = None
) -> list[str]:
    """Where the two differ, the largest difference first, each in a sentence with the calls that explain it.

    Where one of them fuses what the other does in parts, the three parts are compared as one; likewise roles where it
    is open in one of them which of these an operator has.

    Args:
        one, other: the two.
        names: what contenders are called; by the ends of their paths unless told otherwise.
    """
    if one.total_ms is None or other.total_ms is None:
        return []
    names = names or short_names([one.contender, other.contender])
    pairs = _merged(align(one, other), one, other)
    floor = WORTH_SAYING * max(one.total_ms, other.total_ms)
    worth = sorted((p for p in pairs if abs(p.difference_ms) >= floor), key=lambda p: -abs(p.difference_ms))
    said = [_sentence(pair, one, other, names) for pair in worth[:MAX_SENTENCES]]
    return said or [
        f"{names[one.contender]} and {names[other.contender]} spend their time alike: no role differs by more than "
        f"{rounded_percent(WORTH_SAYING)} of a call"
    ]


def _merged(pairs: list[RolePair], one: ContenderProfile, other: ContenderProfile) -> list[RolePair]:
    """The pairs, with those roles as one between which the two cannot be compared."""
    for is_backward in (False, True):
        if one.is_fused != other.is_fused:
            pairs = _as_one(pairs, (*FUSED_PARTS, ANY_OF_SCORES, FUSED_ROLE), ATTENTION, is_backward)
        for role, (parts, name) in _OPEN.items():
            if any(pair.role == role and pair.is_backward == is_backward for pair in pairs):
                pairs = _as_one(pairs, (*parts, role), name, is_backward)
    return pairs


def _as_one(pairs: list[RolePair], parts: tuple[str, ...], name: str, is_backward: bool) -> list[RolePair]:
    """The pairs, with all of these roles as one of that name."""
    found = [pair for pair in pairs if pair.role in parts and pair.is_backward == is_backward]
    if not found:
        return pairs
    sides = ([getattr(pair, side) for pair in found] for side in ("one", "other"))
    ones, others = (_summed([each for each in side if each is not None], name) for side in sides)
    merged = RolePair(role=name, is_backward=is_backward, one=ones, other=others)
    return [*(pair for pair in pairs if pair not in found), merged]


def _summed(parts: list[RoleTime], name: str) -> RoleTime | None:
    if not parts:
        return None
    return dataclasses.replace(
        parts[0],
        role=name,
        num_calls=sum(each.num_calls for each in parts),
        self_ms=sum(each.self_ms for each in parts),
        share=sum(each.share for each in parts),
        operators=tuple(operator for each in parts for operator in each.operators),
        calls_ms=_added([each.calls_ms for each in parts]),
    )


def _added(calls_ms: list[tuple[float, ...]]) -> tuple[float, ...]:
    """What each call spent in all of the roles; empty where that is not told of each role and call."""
    return tuple(map(sum, zip(*calls_ms, strict=True))) if len({len(each) for each in calls_ms}) == 1 else ()


def _sentence(pair: RolePair, one: ContenderProfile, other: ContenderProfile, names: Mapping[str, str]) -> str:
    more, less = (one, other) if pair.difference_ms > 0 else (other, one)
    spent, saved = (pair.one, pair.other) if pair.difference_ms > 0 else (pair.other, pair.one)
    subject, rival = names[more.contender], names[less.contender]
    said = f"{subject} spends {format_time(abs(pair.difference_ms) / 1e3)} more in {pair.label}"
    doubt = pair.doubt
    if pair.role == ATTENTION and more.is_fused != less.is_fused:
        how = "all in one kernel" if more.is_fused else f"which {rival} does in one kernel"
        return f"{said}, {how}{doubt}"
    if pair.role == FRAMEWORK_ROLE:
        return (
            f"{said}: Python and dispatch around {_num_operators(more):,.0f} operators a call, "
            f"{_num_operators(less):,.0f} in {rival}{doubt}"
        )
    if pair.is_of_few_calls:  # whichever operators those interrupted
        return f"{said}, {_same_or_not(spent, saved, rival)}{doubt}"
    reasons = _more_calls(spent, saved, more, less, rival, abs(pair.difference_ms), with_views=not doubt)
    return f"{said}: {reasons}{doubt}" if reasons else f"{said}, {_same_or_not(spent, saved, rival)}{doubt}"


def _same_or_not(spent: RoleTime | None, saved: RoleTime | None, rival: str) -> str:
    """Where no call of its own explains a difference: whether the calls are as many at all, as the table has them."""
    ours, theirs = (round(each.num_calls) if each is not None else 0 for each in (spent, saved))
    return "in the same calls" if ours == theirs else f"in {ours:,} calls, {theirs:,} in {rival}"


def _more_calls(
    spent: RoleTime | None,
    saved: RoleTime | None,
    more: ContenderProfile,
    less: ContenderProfile,
    rival: str,
    difference_ms: float,
    *,
    with_views: bool,
) -> str:
    """The calls that the dearer one makes more often, those that take longest first; views only if nothing else."""
    ours, theirs = _by_name(spent, more.num_calls), _by_name(saved, less.num_calls)
    extra = {name: calls - theirs.get(name, (0.0, 0.0))[0] for name, (calls, _) in ours.items()}
    found = [name for name in ours if extra[name] > 1e-9]
    gains = {name: ours[name][1] - theirs.get(name, (0.0, 0.0))[1] for name in found}
    dear = [name for name in found if gains[name] >= _WORTH_NAMING * difference_ms]
    dear = [name for name in dear if name not in _VIEWS] or (dear if with_views else [])
    dear.sort(key=lambda name: -gains[name])
    said = []
    for name in dear[:_MAX_NAMED]:
        calls, known = ours[name][0], theirs.get(name, (0.0, 0.0))[0]
        plural = "" if calls == 1 else "s"
        words = f"{calls:g} {name} call{plural}"
        said.append(f"{words} instead of {known:g}" if known else f"{words} that {rival} does not make")
    return ", ".join(said)


def _by_name(role: RoleTime | None, num_calls: int) -> dict[str, tuple[float, float]]:
    """Operator → calls and ms of its own, per call of the layer; one that works in place counts as the other one."""
    sums: dict[str, tuple[float, float]] = {}
    operators: tuple[OperatorTime, ...] = role.operators if role is not None else ()
    for each in operators:
        # What a compiler generates has names as long as what it does.
        name = COMPILED_ROLE if each.role == COMPILED_ROLE else short(each.name).removesuffix("_")
        calls, ms = sums.get(name, (0.0, 0.0))
        sums[name] = (calls + each.num_calls / num_calls, ms + each.self_ns / num_calls / 1e6)
    return sums


def _num_operators(profile: ContenderProfile) -> float:
    return sum(each.num_calls for each in profile.roles() if each.role != FRAMEWORK_ROLE)


def _self_ms(role: RoleTime | None) -> float:
    return role.self_ms if role is not None else 0.0
