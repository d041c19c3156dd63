"""The role of each operator of a call, and the time and number of each kind of operator by role. No torch.

What a kernel does within itself belongs to it; an operator that only holds others, such as `linear` around `mm`, has
the role of what it holds. An operator of a backward pass has the role of the forward operator whose gradient it
computes: torch gives the two one number.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from profiling.operators.backward import ANY_OF_SCORES, ANY_PROJECTION, find_backward_landmarks
from profiling.operators.kinds import (
    ADDITIONS,
    COMPILED,
    EXPONENTIAL,
    FRAMEWORK,
    FUSED,
    LAYOUT,
    MASKINGS,
    OTHER,
    PRODUCT,
    REDUCTIONS,
    SCALINGS,
    SOFTMAX,
    kind_of,
    short,
)
from profiling.operators.landmarks import (
    FUSED_ROLE,
    OTHER_ROLE,
    OUTPUT,
    PROJECTIONS,
    SCORES,
    SOFTMAX_ROLE,
    WEIGHTED_SUM,
    Landmark,
    Shapes,
    find_landmarks,
)
from profiling.operators.recorded import Call, Node

COPIES, COMPILED_ROLE, FRAMEWORK_ROLE = "copies and layout", "compiled kernel", "framework overhead"
# In the order in which they are shown.
ROLES = (
    *(PROJECTIONS, SCORES, SOFTMAX_ROLE, WEIGHTED_SUM, ANY_OF_SCORES, FUSED_ROLE, OUTPUT, ANY_PROJECTION),
    *(COMPILED_ROLE, COPIES, OTHER_ROLE, FRAMEWORK_ROLE),
)
OUTSIDE = "outside of any operator"
_NODE_NAME = re.compile(r"Backward\d*$")
# What compiled code is wrapped in, whose names hold hashes and counts.
_COMPILED_WRAPPERS = ("Torch-Compiled Region", "TorchDynamo", "Pregraph", "AOTDispatcher", "## Call Compiled")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorTime:
    """All calls of one operator in one role.

    Attributes:
        name: torch's name.
        role: one of `ROLES`.
        is_backward: whether it ran in the backward pass.
        num_calls: how often, over all profiled calls.
        self_ns: its own time on the host over all of them, without that of operators within it.
        device_ns: time of the kernels that it launched; None where there is no accelerator.
    """

    name: str
    role: str
    is_backward: bool
    num_calls: int
    self_ns: int
    device_ns: int | None = None


@dataclasses.dataclass(eq=False)
class _Unit:
    """An operator that has one role with all within it; `node` is the backward node that it works for, if any."""

    operator: Node
    node: Node | None
    role: str = ""

    @property
    def kind(self) -> str:
        return kind_of(self.operator)


def operator_times(call: Call, shapes: Shapes) -> list[OperatorTime]:
    """The operators of one call by role; with the time outside of them they add up to the call's time."""
    outside = OperatorTime(name=OUTSIDE, role=FRAMEWORK_ROLE, is_backward=False, num_calls=1, self_ns=call.outside_ns)
    return summed([*_of_call(call, shapes), outside])


def summed(times: Iterable[OperatorTime]) -> list[OperatorTime]:
    """The times with those of one operator in one role added up, role by role, the longest first."""
    sums: dict[tuple[str, str, bool], OperatorTime] = {}
    for each in times:
        key = (each.role, each.name, each.is_backward)
        sums[key] = _added(sums[key], each) if key in sums else each
    return sorted(sums.values(), key=lambda each: (ROLES.index(each.role), each.is_backward, -each.self_ns))


def label_of(role: str, is_backward: bool) -> str:
    """The role in words: `scores`, `scores, backward`."""
    return f"{role}, backward" if is_backward else role


def _of_call(call: Call, shapes: Shapes) -> Iterator[OperatorTime]:
    roles: dict[Node, str] = {}
    units = [unit for root in call.roots for unit in _units(root, None)]
    forward, backward = ([unit for unit in units if (unit.node is not None) == late] for late in (False, True))
    _name_forward(forward, shapes)
    _spread(forward, roles)
    by_sequence: dict[int, list[Node]] = {}
    for operator in (each for root in call.roots for each in _forward_operators(root)):
        by_sequence.setdefault(operator.event.sequence, []).append(operator)
    _name_backward(backward, by_sequence, roles, shapes)
    _spread(backward, roles)
    for root in call.roots:
        yield from _told(root, roles, is_backward=False)


def _units(operator: Node, node: Node | None) -> Iterator[_Unit]:
    """The operators with one role each, in order."""
    node = operator if operator.event.is_node else node
    if kind_of(operator) == FRAMEWORK or _holds_others(operator):
        for child in operator.children:
            yield from _units(child, node)
    else:
        yield _Unit(operator, node)


def _holds_others(operator: Node) -> bool:
    """Whether it is there only for kernels within it: `linear`, `matmul`, `einsum`, or a call made of several."""
    within = (kind_of(each) for child in operator.children for each in child.walk())
    return kind_of(operator) in (PRODUCT, OTHER) and any(kind in (PRODUCT, SOFTMAX, FUSED) for kind in within)


def _name_forward(units: Sequence[_Unit], shapes: Shapes) -> None:
    landmarks = {mark.node: mark for mark in find_landmarks([unit.operator for unit in units], shapes)}
    following = _following([landmarks.get(unit.operator) for unit in units])
    before = ""
    for unit, after in zip(units, following, strict=True):
        mark = landmarks.get(unit.operator)
        if mark is not None:
            unit.role = COMPILED_ROLE if mark.kind == COMPILED else mark.role
            before = SOFTMAX_ROLE if mark.kind == COMPILED else mark.role
        elif unit.kind in (LAYOUT, COMPILED):
            unit.role = COPIES if unit.kind == LAYOUT else COMPILED_ROLE
        else:
            unit.role = _role_by_place(unit.operator, before, after)


def _following(marks: Sequence[Landmark | None]) -> list[Landmark | None]:
    """The next landmark after each place."""
    following: list[Landmark | None] = []
    after: Landmark | None = None
    for mark in reversed(marks):
        following.append(after)
        after = mark or after
    return following[::-1]


def _role_by_place(operator: Node, before: str, after: Landmark | None) -> str:
    """The role of an elementwise operator: scaling, mask, bias, the parts of a softmax written by hand."""
    word = short(operator.name).partition(".")[0]
    shapes = operator.event.shapes
    is_scaling = word in SCALINGS and len(shapes) > 1 and not shapes[1]
    is_bias = word in ADDITIONS and len(shapes) > 1 and len(shapes[1]) == 1
    next_role = after.role if after is not None else ""
    if before == SCORES:
        is_by_hand = after is not None and after.kind == EXPONENTIAL and word in REDUCTIONS
        return SOFTMAX_ROLE if is_by_hand else SCORES
    if before == SOFTMAX_ROLE:
        return SOFTMAX_ROLE
    if is_bias and before in (PROJECTIONS, OUTPUT):
        return before
    if (is_scaling or word in MASKINGS) and next_role in (SCORES, FUSED_ROLE):
        return next_role
    # Products as sums of elementwise ones leave no product between.
    if before == PROJECTIONS and next_role == SOFTMAX_ROLE:
        return SCORES
    return WEIGHTED_SUM if before == WEIGHTED_SUM and next_role in (OUTPUT, WEIGHTED_SUM) else OTHER_ROLE


def _name_backward(
    units: Sequence[_Unit], by_sequence: dict[int, list[Node]], roles: dict[Node, str], shapes: Shapes
) -> None:
    marks = {mark.node: mark.role for mark in find_backward_landmarks([unit.operator for unit in units], shapes)}
    fixed = {LAYOUT: COPIES, COMPILED: COMPILED_ROLE, FUSED: FUSED_ROLE, SOFTMAX: SOFTMAX_ROLE}
    for unit in units:
        assert unit.node is not None
        ahead = _forward_of(unit.node, by_sequence)
        role = roles.get(ahead, OTHER_ROLE) if ahead is not None else OTHER_ROLE
        if unit.kind in fixed:
            unit.role = fixed[unit.kind]
        elif role in (COPIES, FRAMEWORK_ROLE, COMPILED_ROLE, OTHER_ROLE):
            unit.role = marks.get(unit.operator, OTHER_ROLE)
        else:
            unit.role = role


def _forward_of(node: Node, by_sequence: dict[int, list[Node]]) -> Node | None:
    """The forward operator whose gradient a node computes: of those with its number the one that it is named after."""
    candidates = by_sequence.get(node.event.sequence, []) if node.event.sequence >= 0 else []
    wanted = _letters(_NODE_NAME.sub("", node.name.rpartition(" ")[2]))
    named = [each for each in candidates if _letters(short(each.name)) == wanted]
    matching = named or candidates
    return matching[-1] if matching else None


def _forward_operators(operator: Node) -> Iterator[Node]:
    if not operator.event.is_node:
        yield operator
        for child in operator.children:
            yield from _forward_operators(child)


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _spread(units: Iterable[_Unit], roles: dict[Node, str]) -> None:
    for unit in units:
        roles |= dict.fromkeys(unit.operator.walk(), unit.role)


def _told(operator: Node, roles: dict[Node, str], *, is_backward: bool) -> Iterator[OperatorTime]:
    is_backward = is_backward or operator.event.is_node
    role = roles.get(operator) or _role_of_holder(operator, roles)
    name = _framework_name(operator) if role == FRAMEWORK_ROLE else operator.name
    yield OperatorTime(
        name=name,
        role=role,
        is_backward=is_backward,
        num_calls=1,
        self_ns=operator.self_ns,
        device_ns=operator.event.device_ns,
    )
    for child in operator.children:
        yield from _told(child, roles, is_backward=is_backward)


def _role_of_holder(operator: Node, roles: dict[Node, str]) -> str:
    """The one role of what it holds, copies and layout aside; `other` where there are several."""
    if kind_of(operator) == FRAMEWORK:
        return FRAMEWORK_ROLE
    held = {roles[each] for each in operator.walk() if each in roles} - {COPIES}
    return held.pop() if len(held) == 1 else OTHER_ROLE


def _framework_name(operator: Node) -> str:
    if operator.event.is_node:
        return "autograd engine"
    return "torch.compile's wrapper" if operator.name.startswith(_COMPILED_WRAPPERS) else operator.name


def _added(one: OperatorTime, other: OperatorTime) -> OperatorTime:
    times = [each.device_ns for each in (one, other) if each.device_ns is not None]
    return dataclasses.replace(
        one,
        num_calls=one.num_calls + other.num_calls,
        self_ns=one.self_ns + other.self_ns,
        device_ns=sum(times) if times else None,
    )
