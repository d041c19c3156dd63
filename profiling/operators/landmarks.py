"""Which product makes the scores, which one the weighted sum, and which are projections: by sizes and by order.

Names do not tell: all are `mm` or `bmm`. The softmax does. The products before it whose results are together as large
as what it takes are the scores, the products after it that take as much are the weighted sum; what comes before is
projection, what comes after is output projection. So it holds where seq_len, head_dim and d_model coincide, for heads
in a loop, for queries in blocks and for a softmax written by hand. No torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from profiling.operators.kinds import COMPILED, EXPONENTIAL, FUSED, PRODUCT, SOFTMAX, Sizes, kind_of, sizes_of
from profiling.operators.recorded import Node

PROJECTIONS, SCORES, SOFTMAX_ROLE, WEIGHTED_SUM, OUTPUT, FUSED_ROLE, OTHER_ROLE = (
    *("projections", "scores", "softmax", "weighted sum", "output projection", "fused attention", "other"),
)

# Whether the sizes of a product are those of some role.
Fits = Callable[[Sizes], bool]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shapes:
    """What of a workload tells products apart."""

    batch_size: int
    seq_len: int
    num_heads: int
    d_model: int

    @property
    def head_dim(self) -> int:
        """Channels per head."""
        return self.d_model // self.num_heads

    @property
    def tokens(self) -> int:
        """Elements of the input."""
        return self.batch_size * self.seq_len * self.d_model


@dataclasses.dataclass(eq=False)
class Landmark:
    """A product, a softmax or a fused kernel, on its way to a role."""

    node: Node
    kind: str
    sizes: Sizes | None = None
    role: str = ""


def find_landmarks(operators: Sequence[Node], shapes: Shapes) -> list[Landmark]:
    """The products, softmaxes and fused kernels among forward operators in order, each with its role.

    A product without a place in an attention is `other`.
    """
    marks = [mark for mark in map(_mark, operators) if mark is not None]
    for index, mark in enumerate(marks):
        if mark.kind == FUSED:
            mark.role = FUSED_ROLE
        elif mark.kind in (SOFTMAX, EXPONENTIAL, COMPILED):
            _link(marks, index, shapes)
    # An exponential, or compiled code, that no scores belong to is none of a softmax.
    found = [mark for mark in marks if mark.role or mark.kind == PRODUCT]
    _name_the_rest(found, shapes)
    return found


def _mark(node: Node) -> Landmark | None:
    kind = kind_of(node)
    # Named after what it was made of; a softmax by hand is exponentials and their sum.
    is_by_hand = {"exp", "sum"} <= set(node.name.split("_"))
    is_softmax_code = kind == COMPILED and ("softmax" in node.name or is_by_hand)
    if kind in (FUSED, SOFTMAX, EXPONENTIAL) or is_softmax_code:
        return Landmark(node, kind)
    return Landmark(node, kind, sizes_of(node)) if kind == PRODUCT else None


def _link(marks: list[Landmark], index: int, shapes: Shapes) -> None:
    """Finds the scores and the weighted sum of one softmax."""
    anchor = marks[index]
    shape = anchor.node.event.shapes[0] if anchor.node.event.shapes else None
    size, batch = (math.prod(shape), math.prod(shape[:-2])) if shape else (None, None)
    before = [mark for mark in reversed(marks[:index]) if mark.kind == PRODUCT and not mark.role]
    after = [mark for mark in marks[index + 1 :] if mark.kind == PRODUCT and not mark.role]
    # The surest sign first: as many products in one as the softmax has matrices; then heads' width; then none.
    score_signs, sum_signs = _score_signs(shapes, batch), _sum_signs(shapes, batch)
    if size is None:  # of compiled code: with neither elements nor a width to go by, any product would do
        score_signs, sum_signs = score_signs[:-1], sum_signs[:-1]
    scores = next(filter(None, (_taken(before, size, _results, fits) for fits in score_signs)), [])
    sums = next(filter(None, (_taken(after, size, _operands, fits) for fits in sum_signs)), [])
    if anchor.kind != SOFTMAX and not (scores and sums):
        return
    # Compiled code keeps its own role: it may do more than the softmax.
    anchor.role = COMPILED if anchor.kind == COMPILED else SOFTMAX_ROLE
    for role, linked in ((SCORES, scores), (WEIGHTED_SUM, sums)):
        for mark in linked:
            mark.role = role


def _score_signs(shapes: Shapes, batch: int | None) -> tuple[Fits, ...]:
    """Scores contract the width of a head, which a projection does only where there is one head."""
    narrow = shapes.head_dim if shapes.head_dim != shapes.d_model else None
    return (
        lambda s: narrow in (None, s.k) and batch in (None, s.b),
        lambda s: narrow in (None, s.k),
        lambda _: True,
    )


def _sum_signs(shapes: Shapes, batch: int | None) -> tuple[Fits, ...]:
    """A weighted sum makes the width of a head out of keys; a projection of the values makes it out of d_model."""
    narrow = shapes.head_dim if shapes.head_dim != shapes.d_model else None
    keys_may_be_as_many = shapes.seq_len == shapes.d_model
    return (
        lambda s: narrow in (None, s.n, s.m) and batch in (None, s.b),
        lambda s: narrow in (None, s.n, s.m) and (s.k != shapes.d_model or keys_may_be_as_many),
        lambda _: True,
    )


def _results(sizes: Sizes) -> tuple[int, ...]:
    return (sizes.result,)


def _operands(sizes: Sizes) -> tuple[int, ...]:
    return sizes.operands


def _taken(
    marks: Sequence[Landmark], size: int | None, elements: Callable[[Sizes], tuple[int, ...]], fits: Fits
) -> list[Landmark]:
    """The nearest products whose elements add up to `size`, in whole parts; the nearest kind where it is not known."""
    taken: list[Landmark] = []
    left = size
    for mark in marks:
        if mark.sizes is None or not fits(mark.sizes):
            continue
        if left is None:  # as of compiled code: with it what is wholly alike, as of other heads
            return [each for each in marks if each.sizes == mark.sizes] if mark.sizes.b > 1 else [mark]
        part = next((each for each in elements(mark.sizes) if each <= left and left % each == 0), None)
        if part is not None:
            taken.append(mark)
            left -= part
            if left == 0:
                return taken
    return []


def _name_the_rest(marks: list[Landmark], shapes: Shapes) -> None:
    """The products before the first attention are projections, those after the last one the output projection.

    In between, as where each head or each sequence goes its whole way by turns, sizes and then order decide.
    """
    inner = [index for index, mark in enumerate(marks) if mark.role]
    if not inner:
        for mark in marks:
            mark.role = OTHER_ROLE
        return
    first, last = inner[0], inner[-1]
    tail = [mark for mark in marks[last + 1 :] if _may_be(mark, OUTPUT, shapes)]
    is_all_done = sum(mark.sizes.result if mark.sizes else 0 for mark in tail) >= shapes.tokens
    outputs_left = 0 if is_all_done else len(tail)
    expected = 0
    for index, mark in enumerate(marks):
        if mark.role:
            expected = outputs_left if mark.role in (WEIGHTED_SUM, FUSED_ROLE) else expected
        elif index < first:
            mark.role = PROJECTIONS if _may_be(mark, PROJECTIONS, shapes) else OTHER_ROLE
        elif index > last:
            mark.role = OUTPUT if mark in tail else OTHER_ROLE
        else:
            mark.role = _role_between(mark, shapes, is_output_due=expected > 0)
            expected -= mark.role == OUTPUT


def _role_between(mark: Landmark, shapes: Shapes, *, is_output_due: bool) -> str:
    may_be_output, may_be_projection = (_may_be(mark, role, shapes) for role in (OUTPUT, PROJECTIONS))
    if may_be_output and (is_output_due or not may_be_projection):
        return OUTPUT
    return PROJECTIONS if may_be_projection else OTHER_ROLE


def _may_be(mark: Landmark, role: str, shapes: Shapes) -> bool:
    """Whether a product's sizes allow a role; one whose sizes are not told is believed."""
    if mark.sizes is None:
        return True
    # Weights may stand on either side.
    if role == PROJECTIONS:
        return mark.sizes.k == shapes.d_model
    return shapes.d_model in (mark.sizes.n, mark.sizes.m) and mark.sizes.k in (shapes.d_model, shapes.head_dim)
