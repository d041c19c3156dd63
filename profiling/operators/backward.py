"""The products of a backward pass whose forward ones are not known, as of compiled code: only what is certain is told.

A compiler keeps what each product needs, and else moves them as it likes. So this is certain, whatever it does:

- What comes before the first product of scores is the output projection's: nothing else can be computed by then.
- Once that has all its gradients, or those of one form, what else has that form is a projection's.
- Before the softmax's own backward stand products of the weighted sum alone: those of the scores need it.
- Once half of all products of scores have come, which is two for each softmax, the others are those of the scores.

What is left is told to be one of two. No torch.
"""

from __future__ import annotations

from collections.abc import Sequence

from profiling.operators.kinds import COMPILED, FUSED, PRODUCT, SOFTMAX, Sizes, kind_of, sizes_of
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
)
from profiling.operators.recorded import Node

ANY_PROJECTION, ANY_OF_SCORES = "some projection", "scores or weighted sum"


def find_backward_landmarks(operators: Sequence[Node], shapes: Shapes) -> list[Landmark]:
    """The products, softmaxes and fused kernels among backward operators in order, each with its role.

    Without a softmax, a fused kernel or products of scores there is no attention, and all are `other`.
    """
    marks = [mark for mark in map(_mark, operators) if mark is not None]
    turns = [index for index, mark in enumerate(marks) if mark.kind != PRODUCT]
    is_fused = any(mark.kind == FUSED for mark in marks)
    of_scores = [] if is_fused else _products_of_scores(marks, shapes)
    _name_products_of_scores(marks, of_scores, turns)
    inner = sorted({*of_scores, *turns})
    rest = [index for index, mark in enumerate(marks) if mark.kind == PRODUCT and index not in of_scores]
    _name_projections(marks, rest, inner, shapes)
    if not is_fused and not of_scores:
        for index in rest:
            marks[index].role = OTHER_ROLE
    return [mark for mark in marks if mark.kind != COMPILED]


def _mark(node: Node) -> Landmark | None:
    kind = kind_of(node)
    if kind == FUSED:
        return Landmark(node, kind, role=FUSED_ROLE)
    if kind == SOFTMAX:
        return Landmark(node, kind, role=SOFTMAX_ROLE)
    if kind == COMPILED and "softmax_backward" in node.name:  # not one that computes the weights once more
        return Landmark(node, kind)
    return Landmark(node, kind, sizes_of(node)) if kind == PRODUCT else None


def _products_of_scores(marks: Sequence[Landmark], shapes: Shapes) -> list[int]:
    """Those of one matrix for each head, of which two sizes are seq_len; where none is batched, the sizes alone say.

    None where those could be the sizes of a projection as well.
    """
    found = [index for index, mark in enumerate(marks) if mark.sizes is not None and _touches(mark.sizes, shapes)]
    batched = [index for index in found if _batch(marks[index]) > 1]
    return batched or ([] if shapes.seq_len in (shapes.d_model, shapes.head_dim) else found)


def _touches(sizes: Sizes, shapes: Shapes) -> bool:
    return (sizes.m, sizes.k, sizes.n).count(shapes.seq_len) >= 2


def _batch(mark: Landmark) -> int:
    return mark.sizes.b if mark.sizes is not None else 0


def _name_products_of_scores(marks: Sequence[Landmark], of_scores: Sequence[int], turns: Sequence[int]) -> None:
    early = [index for index in of_scores if turns and index < turns[0]]
    late = [index for index in of_scores if index not in early]
    for index in early:
        marks[index].role = WEIGHTED_SUM
    is_settled = len(turns) == 1 and len(early) == len(late)
    for index in late:
        marks[index].role = SCORES if is_settled else ANY_OF_SCORES


def _name_projections(marks: Sequence[Landmark], rest: Sequence[int], inner: Sequence[int], shapes: Shapes) -> None:
    """Of the products that are none of scores, those before these are the output projection's."""
    early = [index for index in rest if not inner or index < inner[0]]
    for index in early:
        marks[index].role = OUTPUT
    known = [mark.sizes for mark in (marks[index] for index in early) if mark.sizes is not None]
    # The gradient of what it takes, and that of its weight, which alone sums up over the tokens.
    is_complete = sum(each.result for each in known) >= shapes.tokens + shapes.d_model**2
    num_rows = shapes.batch_size * shapes.seq_len
    has_data = num_rows != shapes.d_model and shapes.tokens <= sum(s.result for s in known if s.k != num_rows)
    for index in rest:
        if index not in early:
            sizes = marks[index].sizes
            is_settled = is_complete or (has_data and sizes is not None and sizes.k != num_rows)
            marks[index].role = PROJECTIONS if is_settled else ANY_PROJECTION
