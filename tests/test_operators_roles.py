"""Roles are told by sizes and order: on operators laid out by hand, and on one attention written in many hands."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator

import pytest
import torch
from attention_by_hand import HANDS, Hand, separate
from hypothesis import given
from hypothesis import strategies as st
from made_up_operators import (
    ATTENTION,
    MM,
    OUTPUT,
    PROJECTION,
    SCORES,
    SHAPES,
    SOFTMAX,
    WEIGHTED_SUM,
    in_a_row,
    one_call,
)
from torch.autograd.profiler import profile, record_function

from profiling.measuring.recording import recorded_events
from profiling.operators.backward import find_backward_landmarks
from profiling.operators.kinds import COMPILED, FRAMEWORK, FUSED, LAYOUT, PRODUCT, Sizes, kind_of, sizes_of
from profiling.operators.landmarks import Shapes
from profiling.operators.recorded import CALL, Call, Event, Node, calls_of
from profiling.operators.roles import OUTSIDE, ROLES, OperatorTime, operator_times

PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
PRODUCT_ROLES = ("projections", "scores", "weighted sum", "output projection")


def roles_in_order(*operators: tuple[object, ...], shapes: Shapes = SHAPES) -> list[str]:
    """The role of each operator, told apart by a name of its own kind and its place."""
    events = in_a_row(*operators)
    call = one_call(*events)
    found = []
    for index in range(1, len(events)):
        # Each alone takes one more nanosecond than the rest: the role that grows by it is its role.
        longer = [e if i != index else dataclasses.replace(e, end_ns=e.end_ns + 1) for i, e in enumerate(events)]
        before, after = (by_role(operator_times(each, shapes)) for each in (call, one_call(*longer)))
        found.append(next(role for role in after if after[role] > before.get(role, 0) and role != "framework overhead"))
    return found


def by_role(times: list[OperatorTime]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in times:
        sums[each.role] = sums.get(each.role, 0) + each.self_ns
    return sums


def products(times: list[OperatorTime], *, is_backward: bool) -> tuple[int, ...]:
    counted = [each for each in times if each.name in PRODUCTS and each.is_backward == is_backward]
    assert all(each.role in PRODUCT_ROLES for each in counted)
    return tuple(sum(each.num_calls for each in counted if each.role == role) for role in PRODUCT_ROLES)


def test_a_plain_attention_has_each_role_once() -> None:
    assert roles_in_order(*ATTENTION) == ["projections", "scores", "softmax", "weighted sum", "output projection"]


def test_what_stands_around_the_softmax_belongs_to_scores_or_softmax() -> None:
    scale = ("aten::mul", (6, 7, 5), ())
    mask, divide = ("aten::add", (6, 7, 7), (7, 7)), ("aten::div", (6, 7, 7), (6, 7, 1))
    told = roles_in_order(PROJECTION, scale, SCORES, mask, SOFTMAX, divide, WEIGHTED_SUM, OUTPUT)
    assert told == [
        "projections",
        "scores",
        "scores",
        "scores",
        "softmax",
        "softmax",
        "weighted sum",
        "output projection",
    ]


def test_a_mask_that_is_made_beforehand_belongs_to_what_it_is_for() -> None:
    kernel = ("aten::_scaled_dot_product_flash_attention_for_cpu", (3, 2, 7, 5))
    mask = ("aten::triu_", (7, 7))
    assert roles_in_order(PROJECTION, mask, *ATTENTION[1:])[1] == "scores"
    assert roles_in_order(PROJECTION, mask, kernel, OUTPUT)[1] == "fused attention"


def test_a_bias_belongs_to_its_projection() -> None:
    told = roles_in_order(PROJECTION, ("aten::add_", (21, 30), (30,)), *ATTENTION[1:], ("aten::add_", (21, 10), (10,)))
    assert (told[1], told[-1]) == ("projections", "output projection")


def test_a_softmax_by_hand_begins_with_its_first_reduction() -> None:
    size = (6, 7, 7)
    by_hand = [("aten::amax", size), ("aten::sub", size, (6, 7, 1)), ("aten::exp", size), ("aten::sum", size)]
    told = roles_in_order(PROJECTION, SCORES, ("aten::div", size, ()), *by_hand, WEIGHTED_SUM, OUTPUT)
    assert told[2:7] == ["scores", *["softmax"] * 4]


def test_what_fits_nothing_is_other_by_its_name() -> None:
    norm, mean = ("aten::native_layer_norm", (3, 7, 10)), ("aten::mean", (3, 2, 7, 7))
    told = roles_in_order(norm, *ATTENTION, mean)
    assert (told[0], told[-1]) == ("other", "other")
    names = [
        each.name
        for each in operator_times(one_call(*in_a_row(norm, *ATTENTION, mean)), SHAPES)
        if each.role == "other"
    ]
    assert sorted(names) == ["aten::mean", "aten::native_layer_norm"]


def test_products_without_a_softmax_are_other() -> None:
    assert roles_in_order(PROJECTION, SCORES, WEIGHTED_SUM, OUTPUT) == ["other"] * 4


def test_a_product_of_sizes_that_no_projection_has_is_other() -> None:
    low_rank = (MM, (21, 3), (3, 30))
    assert roles_in_order((MM, (21, 10), (10, 3)), low_rank, *ATTENTION)[:2] == ["projections", "other"]


def test_a_fused_kernel_is_not_split() -> None:
    kernel = ("aten::_scaled_dot_product_flash_attention_for_cpu", (3, 2, 7, 5), (3, 2, 7, 5), (3, 2, 7, 5))
    assert roles_in_order(PROJECTION, kernel, OUTPUT) == ["projections", "fused attention", "output projection"]


def test_compiled_kernels_have_a_role_of_their_own_and_mark_the_softmax() -> None:
    kernel = ("graph_0_cpp_fused__softmax_mul_2",)
    told = roles_in_order(PROJECTION, SCORES, kernel, WEIGHTED_SUM, ("triton_poi_fused_clone_3",), OUTPUT)
    assert told == ["projections", "scores", "compiled kernel", "weighted sum", "compiled kernel", "output projection"]


@given(batch=st.integers(1, 5), seq_len=st.integers(2, 9), heads=st.integers(1, 4), head_dim=st.integers(1, 9))
def test_order_tells_the_roles_whatever_sizes_coincide(batch: int, seq_len: int, heads: int, head_dim: int) -> None:
    width, rows, matrices = heads * head_dim, batch * seq_len, batch * heads
    shapes = Shapes(batch_size=batch, seq_len=seq_len, num_heads=heads, d_model=width)
    told = roles_in_order(
        *[(MM, (rows, width), (width, width))] * 3,
        ("aten::bmm", (matrices, seq_len, head_dim), (matrices, head_dim, seq_len)),
        ("aten::_softmax", (matrices, seq_len, seq_len)),
        ("aten::bmm", (matrices, seq_len, seq_len), (matrices, seq_len, head_dim)),
        (MM, (rows, width), (width, width)),
        shapes=shapes,
    )
    assert told == [*["projections"] * 3, "scores", "softmax", "weighted sum", "output projection"]


# Sequences of 5, two heads of 5: projections of a head, scores and weighted sums have as many elements.
SQUARE = Shapes(batch_size=3, seq_len=5, num_heads=2, d_model=10)
HEAD_PROJECTION = (MM, (15, 10), (10, 5))
HEAD_SCORES = ("aten::bmm", (3, 5, 5), (3, 5, 5))
BOTH_SOFTMAXES = ("aten::_softmax", (3, 2, 5, 5))


def test_projections_of_heads_between_their_scores_are_no_scores() -> None:
    head = [HEAD_PROJECTION, HEAD_PROJECTION, HEAD_SCORES]
    told = roles_in_order(
        *head, *head, BOTH_SOFTMAXES, HEAD_SCORES, HEAD_SCORES, (MM, (15, 10), (10, 10)), shapes=SQUARE
    )
    assert told[:6] == ["projections", "projections", "scores"] * 2
    assert told[7:] == ["weighted sum", "weighted sum", "output projection"]


def test_values_of_heads_projected_between_their_sums_are_no_sums() -> None:
    head = [HEAD_PROJECTION, HEAD_SCORES]
    told = roles_in_order(
        *[HEAD_PROJECTION] * 4,
        *[HEAD_SCORES] * 2,
        BOTH_SOFTMAXES,
        *head,
        *head,
        (MM, (15, 10), (10, 10)),
        shapes=SQUARE,
    )
    assert told[4:7] == ["scores", "scores", "softmax"]
    assert told[7:] == [*["projections", "weighted sum"] * 2, "output projection"]


def test_a_product_of_all_rows_is_not_taken_for_one_of_each_matrix() -> None:
    one_head = Shapes(batch_size=2, seq_len=7, num_heads=1, d_model=7)
    scores, late = ("aten::bmm", (2, 7, 7), (2, 7, 7)), (MM, (14, 7), (7, 7))
    told = roles_in_order(late, late, scores, ("aten::_softmax", (2, 7, 7)), late, scores, late, shapes=one_head)
    assert told[4:] == ["projections", "weighted sum", "output projection"]
    told = roles_in_order(late, scores, late, ("aten::_softmax", (2, 7, 7)), scores, late, shapes=one_head)
    assert told[1] == "scores"


def test_what_follows_the_weighted_sum_is_of_it_only_on_the_way_to_the_output() -> None:
    divide = ("aten::div", (6, 7, 5), (6, 7, 1))
    assert roles_in_order(*ATTENTION[:4], divide, OUTPUT)[4] == "weighted sum"
    assert roles_in_order(*ATTENTION[:4], divide)[4] == "other"


def test_an_operator_that_begins_as_another_ends_is_not_within_it() -> None:
    first, second = Event(name=MM, start_ns=10, end_ns=20), Event(name="aten::bmm", start_ns=20, end_ns=33)
    call = one_call(Event(name=CALL, start_ns=10, end_ns=33), first, second)
    assert [(root.name, root.self_ns) for root in call.roots] == [(MM, 10), ("aten::bmm", 13)]


def test_of_two_that_begin_at_once_the_longer_one_holds_the_other() -> None:
    inner, outer = Event(name=MM, start_ns=10, end_ns=20), Event(name="aten::linear", start_ns=10, end_ns=33)
    (root,) = one_call(Event(name=CALL, start_ns=10, end_ns=33), inner, outer).roots
    assert (root.name, root.self_ns, [child.name for child in root.children]) == ("aten::linear", 13, [MM])


def test_a_backward_node_goes_by_its_name_where_two_operators_share_its_number() -> None:
    call, *operators = in_a_row(*ATTENTION)
    numbered = [
        dataclasses.replace(each, sequence=5 if index in (1, 2) else -1) for index, each in enumerate(operators)
    ]
    node = Event(name="BmmBackward0", start_ns=call.end_ns, end_ns=call.end_ns + 9, sequence=5, is_node=True)
    inner = Event(name="aten::bmm", start_ns=call.end_ns + 1, end_ns=call.end_ns + 8, shapes=((5, 5), (5, 5)))
    whole = one_call(dataclasses.replace(call, end_ns=call.end_ns + 10), *numbered, node, inner)
    (backward,) = (each for each in operator_times(whole, SHAPES) if each.is_backward and each.name == "aten::bmm")
    assert backward.role == "scores"


SIZES = [  # batch, seq_len, heads, d_model: all different; then S = D, S = E, D = E, S = D = E / 4
    *((3, 7, 2, 10), (3, 5, 2, 10), (2, 10, 2, 10), (3, 11, 1, 7), (2, 7, 1, 7), (2, 4, 4, 16)),
]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def recorded(work: Callable[[], object]) -> Call:
    work()
    with profile(record_shapes=True) as seen, record_function(CALL):
        work()
    (call,) = calls_of(recorded_events(seen))
    return call


@pytest.mark.parametrize("hand", HANDS, ids=lambda hand: hand.__name__)
def test_a_hand_is_told_role_by_role_forward_and_backward(hand: Hand) -> None:
    for batch, seq_len, heads, width in SIZES:
        weights = [torch.randn(width, width, requires_grad=True) for _ in range(4)]
        x = torch.randn(batch, seq_len, width, requires_grad=True)
        shapes = Shapes(batch_size=batch, seq_len=seq_len, num_heads=heads, d_model=width)
        counts = HANDS[hand](heads, batch, math.ceil(seq_len / 3))
        want = tuple(counts)
        call = recorded(
            lambda x=x, weights=weights, heads=heads: torch.autograd.grad(hand(x, *weights, heads).sum(), [x, *weights])
        )
        times = operator_times(call, shapes)
        assert products(times, is_backward=False) == want, (batch, seq_len, heads, width)
        assert products(times, is_backward=True) == tuple(2 * count for count in want), (batch, seq_len, heads, width)
        assert sum(each.self_ns for each in times) == call.total_ns


def test_every_hand_computes_the_same_attention() -> None:
    x, *weights = torch.randn(3, 7, 10), *(torch.randn(10, 10) / 3 for _ in range(4))
    for hand in HANDS:
        torch.testing.assert_close(hand(x, *weights, 2), separate(x, *weights, 2), msg=hand.__name__)


def test_a_copy_within_a_kernel_is_the_kernels_and_one_within_a_wrapper_is_a_copy() -> None:
    def at(name: str, start: int, end: int, *shapes: tuple[int, ...]) -> Event:
        return Event(name=name, start_ns=start, end_ns=end, shapes=shapes)

    first = in_a_row(*ATTENTION[:4])
    call, rest = first[0], first[1:]
    start = rest[-1].end_ns
    tail = [
        at("aten::linear", start, start + 100, (21, 10), (10, 10)),
        at("aten::t", start + 1, start + 8, (10, 10)),
        at("aten::addmm", start + 10, start + 90, (10,), (21, 10), (10, 10)),
        at("aten::copy_", start + 20, start + 35, (21, 10), (21, 10)),
    ]
    times = operator_times(one_call(dataclasses.replace(call, end_ns=start + 100), *rest, *tail), SHAPES)
    told = {(each.name, each.role): each.self_ns for each in times}
    assert told["aten::linear", "output projection"] == 100 - 7 - 80
    assert told["aten::addmm", "output projection"] == 80 - 15
    assert told["aten::copy_", "output projection"] == 15
    assert told["aten::t", "copies and layout"] == 7


def test_a_backward_operator_has_the_role_of_the_forward_one_of_its_number() -> None:
    call, *operators = in_a_row(*ATTENTION)
    numbered = [dataclasses.replace(each, sequence=7 + i) for i, each in enumerate(operators)]
    end = call.end_ns
    nodes = []
    for turn, (number, name) in enumerate([(11, "MmBackward0"), (8, "BmmBackward0"), (7, "MmBackward0")]):
        start = end + 20 * turn
        nodes += [
            Event(
                name=f"autograd::engine::evaluate_function: {name}",
                start_ns=start,
                end_ns=start + 18,
                sequence=number,
                is_node=True,
            ),
            Event(name="aten::mm", start_ns=start + 2, end_ns=start + 2 + (1, 2, 4)[turn], shapes=((5, 5), (5, 5))),
        ]
    times = operator_times(one_call(dataclasses.replace(call, end_ns=end + 60), *numbered, *nodes), SHAPES)
    backward = {each.role: each.self_ns for each in times if each.is_backward and each.name == "aten::mm"}
    assert backward == {"output projection": 1, "scores": 2, "projections": 4}
    engine = next(each for each in times if each.name == "autograd engine")
    assert (engine.role, engine.is_backward, engine.self_ns, engine.num_calls) == (
        "framework overhead",
        True,
        54 - 7,
        3,
    )


def test_a_compiled_backward_is_told_from_behind() -> None:
    node = Event(name="CompiledFunctionBackward", start_ns=200, end_ns=400, sequence=3, is_node=True)
    names = [
        *[(MM, (10, 21), (21, 10)), (MM, (21, 10), (10, 10)), ("aten::bmm", (6, 7, 7), (6, 7, 5))],
        *[
            ("aten::bmm", (6, 7, 5), (6, 5, 7)),
            ("cpp_fused__softmax_backward_data_0",),
            ("aten::bmm", (6, 5, 7), (6, 7, 7)),
        ],
        *[("aten::bmm", (6, 7, 7), (6, 7, 5)), (MM, (30, 21), (21, 10)), (MM, (21, 30), (30, 10))],
    ]
    inner = [
        Event(name=name, start_ns=201 + 10 * i, end_ns=205 + 10 * i, shapes=tuple(shapes))
        for i, (name, *shapes) in enumerate(names)
    ]
    times = operator_times(one_call(Event(name=CALL, start_ns=100, end_ns=500), node, *inner), SHAPES)
    assert products(times, is_backward=True) == (2, 2, 2, 2)


# The products of a backward pass by what they compute: the truth, their sizes by letters (tokens T, d_model E, matrices
# M, seq_len S, head_dim D), and which others each needs.
BACKWARD: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "dO": ("output projection", "TEE", ()),
    "dWO": ("output projection", "ETE", ()),
    "dP": ("weighted sum", "MSDS", ("dO",)),
    "dV": ("weighted sum", "MSSD", ("dO",)),
    "softmax": ("", "", ("dP",)),
    "dQ": ("scores", "MSSD", ("softmax",)),
    "dK": ("scores", "MDSS", ("softmax",)),
    **{f"dX{each}": ("projections", "TEE", (f"d{each}",)) for each in "QKV"},
    **{f"dW{each}": ("projections", "ETE", (f"d{each}",)) for each in "QKV"},
}
# What a role may be told as without saying what is not so.
MAY_BE = {"scores or weighted sum": ("scores", "weighted sum"), "some projection": ("projections", "output projection")}


def compiled_backward(order: list[str], shapes: Shapes, *, heads_apart: int = 1) -> list[tuple[str, str]]:
    """Of each product, in that order, its true role and the one that it is told to have."""
    sizes = {
        "T": shapes.batch_size * shapes.seq_len,
        "E": shapes.d_model,
        "M": shapes.batch_size * shapes.num_heads // heads_apart,
        "S": shapes.seq_len,
        "D": shapes.head_dim,
    }
    operators: list[tuple[object, ...]] = []
    truths = []
    for each in order:
        role, letters, _ = BACKWARD[each]
        if not letters:
            operators.append(("graph_0_cpp_fused__softmax_backward_data_view_1",))
            continue
        *batch, m, k, n = (sizes[letter] for letter in letters)
        for _ in range(heads_apart if batch else 1):
            operators.append(("aten::bmm" if batch else MM, (*batch, m, k), (*batch, k, n)))
            truths.append(role)
    nodes = [Node(each) for each in in_a_row(*operators)[1:]]
    marks = {mark.node: mark.role for mark in find_backward_landmarks(nodes, shapes)}
    return list(zip(truths, (marks[each] for each in nodes if kind_of(each) == PRODUCT), strict=True))


@given(st.data(), st.integers(1, 3), st.integers(2, 7), st.sampled_from([1, 2, 3]), st.integers(1, 7))
def test_whatever_order_a_compiler_chooses_no_product_is_put_to_a_role_that_is_not_its_own(
    data: st.DataObject, batch: int, seq_len: int, heads: int, head_dim: int
) -> None:
    shapes = Shapes(batch_size=batch, seq_len=seq_len, num_heads=heads, d_model=heads * head_dim)
    left, order = list(BACKWARD), list[str]()
    while left:
        ready = [each for each in left if set(BACKWARD[each][2]) <= set(order)]
        order.append(data.draw(st.sampled_from(ready)))
        left.remove(order[-1])
    for truth, told in compiled_backward(order, shapes):
        assert truth in MAY_BE.get(told, (told,)) or told == "other", (order, truth, told)


# The same where each head goes its whole way by itself, to the end of the output projection (batch B).
OF_ONE_HEAD = {"dO": "TED", "dWO": "ETD", "dP": "BSDS", "dV": "BSSD", "softmax": "", "dQ": "BSSD", "dK": "BDSS"} | {
    f"d{kind}{each}": letters for each in "QKV" for kind, letters in (("X", "TDE"), ("W", "DTE"))
}


@given(st.data(), st.integers(1, 3), st.integers(2, 7), st.sampled_from([2, 3]), st.integers(1, 7))
def test_nor_is_one_of_heads_that_go_their_way_apart(
    data: st.DataObject, batch: int, seq_len: int, heads: int, head_dim: int
) -> None:
    width = heads * head_dim
    shapes = Shapes(batch_size=batch, seq_len=seq_len, num_heads=heads, d_model=width)
    sizes = {"T": batch * seq_len, "E": width, "B": batch, "S": seq_len, "D": head_dim}
    left = [(each, head) for head in range(heads) for each in BACKWARD]
    done: list[tuple[str, int]] = []
    while left:
        ready = [(each, head) for each, head in left if {(need, head) for need in BACKWARD[each][2]} <= set(done)]
        done.append(data.draw(st.sampled_from(ready)))
        left.remove(done[-1])
    operators: list[tuple[object, ...]] = []
    for each, _ in done:
        *stack, m, k, n = (sizes[letter] for letter in OF_ONE_HEAD[each] or "SSS")
        product = ("aten::bmm" if stack else MM, (*stack, m, k), (*stack, k, n))
        operators.append(product if OF_ONE_HEAD[each] else ("graph_0_cpp_fused__softmax_backward_data_1",))
    nodes = [Node(event) for event in in_a_row(*operators)[1:]]
    marks = {mark.node: mark.role for mark in find_backward_landmarks(nodes, shapes)}
    for (each, _), node in zip(done, nodes, strict=True):
        truth, told = BACKWARD[each][0], marks.get(node, "")
        assert truth in MAY_BE.get(told, (told,)) or told == "other", (done, each, told)


IN_ORDER = ["dWO", "dO", "dV", "dP", "softmax", "dQ", "dK", "dWQ", "dXQ", "dWK", "dXK", "dWV", "dXV"]


@pytest.mark.parametrize("heads_apart", [1, 2])
@pytest.mark.parametrize("sizes", [(3, 7, 2, 10), (3, 5, 2, 10), (2, 10, 2, 10), (2, 4, 4, 16)])
def test_in_the_order_of_the_engine_every_product_of_a_compiled_backward_is_known(
    sizes: tuple[int, ...], heads_apart: int
) -> None:
    batch, seq_len, heads, width = sizes
    shapes = Shapes(batch_size=batch, seq_len=seq_len, num_heads=heads, d_model=width)
    assert all(truth == told for truth, told in compiled_backward(IN_ORDER, shapes, heads_apart=heads_apart))


def test_what_a_compiler_moved_behind_is_told_to_be_open() -> None:
    """As inductor was seen to: the values' gradient behind the scores', that of the output's weight to the end."""
    order = ["dO", "dP", "softmax", "dQ", "dK", "dV", "dWQ", "dXQ", "dWK", "dXK", "dWV", "dXV", "dWO"]
    told = [role for _, role in compiled_backward(order, SHAPES)]
    assert told[:2] == ["output projection", "weighted sum"]
    assert told[2:5] == ["scores or weighted sum"] * 3
    assert told[5:] == [*["some projection", "projections"] * 3, "some projection"]


def test_the_output_weights_gradient_behind_a_fused_kernel_is_told_to_be_open() -> None:
    kernel = ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", (3, 2, 7, 5))
    data, weight = (MM, (21, 10), (10, 10)), (MM, (10, 21), (21, 10))
    _, *inner = in_a_row(data, kernel, weight, data, weight)
    told = [mark.role for mark in find_backward_landmarks([Node(each) for each in inner], SHAPES)]
    assert told == ["output projection", "fused attention", "some projection", "projections", "some projection"]


def test_a_softmax_by_hand_is_known_in_compiled_code_too() -> None:
    kernel = ("graph_2_cpp_fused__unsafe_view_amax_clone_div_exp_sub_sum_transpose_view_1",)
    told = roles_in_order(PROJECTION, SCORES, kernel, WEIGHTED_SUM, OUTPUT)
    assert told == ["projections", "scores", "compiled kernel", "weighted sum", "output projection"]
    expanded = ("graph_2_cpp_fused_expand_sum_1",)
    assert set(roles_in_order(PROJECTION, SCORES, expanded, WEIGHTED_SUM, OUTPUT)) == {"other", "compiled kernel"}


def test_heads_apart_before_compiled_code_are_all_scores() -> None:
    apart = ("aten::bmm", (3, 7, 5), (3, 5, 7)), ("aten::bmm", (3, 7, 7), (3, 7, 5))
    kernel = ("graph_0_cpp_fused__softmax_stack_1",)
    told = roles_in_order(PROJECTION, apart[0], apart[0], kernel, apart[1], apart[1], OUTPUT)
    assert (told[1:3], told[4:6]) == (["scores"] * 2, ["weighted sum"] * 2)


def test_an_empty_call_is_all_outside_of_operators() -> None:
    (only,) = operator_times(one_call(Event(name=CALL, start_ns=5, end_ns=47)), SHAPES)
    assert (only.name, only.role, only.self_ns) == (OUTSIDE, "framework overhead", 42)


def test_only_what_began_within_a_call_is_of_it() -> None:
    before, within = Event(name=MM, start_ns=1, end_ns=9), Event(name=MM, start_ns=13, end_ns=17)
    around = Event(name="custom", start_ns=0, end_ns=99)
    call = one_call(before, around, Event(name=CALL, start_ns=11, end_ns=31), within)
    assert [root.event for root in call.roots] == [within]
    assert call.outside_ns == 20 - 4


def test_two_threads_make_two_trees() -> None:
    main = Event(name=MM, start_ns=10, end_ns=30)
    other = Event(name="aten::bmm", start_ns=15, end_ns=50, thread=2)
    call = one_call(Event(name=CALL, start_ns=10, end_ns=60), main, other)
    assert [root.self_ns for root in call.roots] == [20, 35]
    assert call.outside_ns == 10


@given(st.data())
def test_self_times_add_up_whatever_ran_within_what(data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 10_000)))
    events = [Event(name=CALL, start_ns=0, end_ns=1000)]

    def fill(start: int, end: int, depth: int) -> None:
        at = start
        while at < end and depth < 4:
            begin = rng.randint(at, end)
            at = rng.randint(begin, end)
            if begin < at:
                name = rng.choice(["aten::mm", "aten::copy_", "aten::linear", "aten::_softmax", "mine", "aten::exp"])
                events.append(Event(name=name, start_ns=begin, end_ns=at, shapes=((3, 5), (5, 7))))
                fill(begin, at, depth + 1)
            at += 1

    fill(0, 1000, 0)
    times = operator_times(one_call(*events), SHAPES)
    assert sum(each.self_ns for each in times) == 1000
    assert all(each.role in ROLES for each in times)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::_scaled_dot_product_efficient_attention", FUSED),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", FUSED),
        ("triton_tem_fused_flex_attention_0", FUSED),
        ("graph_0_cpp_fused__scaled_dot_product_flash_attention_for_cpu_clone_1", COMPILED),
        ("aten::_fused_sdp_choice", FRAMEWORK),
        ("Torch-Compiled Region: 0/0", FRAMEWORK),
        ("autograd::engine::evaluate_function: MmBackward0", FRAMEWORK),
        ("aten::_transform_bias_rescale_qkv", LAYOUT),
        ("aten::as_strided_", LAYOUT),
    ],
)
def test_a_name_has_its_kind(name: str, kind: str) -> None:
    assert kind_of(Node(Event(name=name, start_ns=0, end_ns=1))) == kind


def test_unfused_attention_of_torchs_own_is_taken_apart() -> None:
    assert kind_of(Node(Event(name="aten::_scaled_dot_product_attention_math", start_ns=0, end_ns=1))) != FUSED


@pytest.mark.parametrize(
    ("name", "shapes", "sizes"),
    [
        ("aten::mm", ((21, 10), (10, 30)), Sizes(1, 21, 10, 30)),
        ("aten::addmm", ((30,), (21, 10), (10, 30)), Sizes(1, 21, 10, 30)),
        ("aten::baddbmm", ((6, 7, 7), (6, 7, 5), (6, 5, 7)), Sizes(6, 7, 5, 7)),
        ("aten::linear", ((3, 7, 10), (30, 10), (30,)), Sizes(1, 21, 10, 30)),
        ("mkldnn::_linear_pointwise", ((3, 7, 10), (30, 10)), Sizes(1, 21, 10, 30)),
        ("mkl::_mkl_linear", ((21, 10), (999, 1), (30, 10)), Sizes(1, 21, 10, 30)),
        ("aten::matmul", ((3, 2, 7, 5), (3, 2, 5, 11)), Sizes(6, 7, 5, 11)),
        ("aten::mv", ((7, 5), (5,)), Sizes(1, 7, 5, 1)),
        ("aten::mm", ((21, 10), (11, 30)), None),
        ("aten::einsum", ((),), None),
    ],
)
def test_the_sizes_of_a_product_are_read_off_its_shapes(
    name: str, shapes: tuple[tuple[int, ...], ...], sizes: Sizes | None
) -> None:
    assert sizes_of(Node(Event(name=name, start_ns=0, end_ns=1, shapes=shapes))) == sizes
