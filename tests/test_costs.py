from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import make_workload
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop

from mha import fast_path
from profiling.costs import arithmetic_intensity, call_bytes, call_flop, forward_flop
from profiling.measuring.contenders.known import make_contender, make_input, make_weights
from profiling.workload import Workload

EXPLICIT = ("custom", "official")
FUSED = ("custom-fused", "official-fused")
aten = torch.ops.aten
# What the bytes of a workload are at b=3, s=7, d=10: tokens' tensor 210, four weights 400, four biases 40 elements.
TOKENS, WEIGHTS, BIASES = 210, 400, 40


def counted(
    workload: Workload, contender: str, teach: Mapping[Any, Callable[..., int]] | None = None
) -> tuple[int, set[str]]:
    """The operations that torch's counter sees in one call of a contender, and the operators that it saw."""
    x = make_input(workload)
    made = make_contender(contender, workload, make_weights(workload), x)
    is_training = workload.mode == "training"
    with (
        FlopCounterMode(display=False, custom_mapping=dict(teach or {})) as counter,
        torch.set_grad_enabled(is_training),
    ):
        output = made.forward()
        if is_training:  # not by `autograd.grad`, which the counter does not bear
            output.backward(torch.ones_like(output))
    return counter.get_total_flops(), {str(operator) for operator in counter.get_flop_counts()["Global"]}


def two_products(q: Any, k: Any, v: Any, *_: object, **__: object) -> int:
    """Scores and weighted sum of a fused kernel; its arguments come as shapes (B, H, S, D)."""
    b, h, s, d = q
    return 2 * 2 * b * h * s * s * d


def four_products(gradient: Any, q: Any, k: Any, v: Any, *_: object, **__: object) -> int:
    """The gradients of scores and weighted sum, without the scores that the kernel computes anew."""
    return 2 * two_products(q, k, v)


FUSED_ON_CPU = {
    aten._scaled_dot_product_flash_attention_for_cpu: two_products,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: four_products,
}


def whole_layer(q: Any, k: Any, v: Any, embed_dim: int, *_: object, **__: object) -> int:
    """The official layer's fast path: all four projections and both products in one operator."""
    b, s, d = q
    return 4 * 2 * b * s * d * d + 2 * 2 * b * s * s * d


# -- operations -------------------------------------------------------------------------------------------------------


def test_operations_are_those_of_four_projections_and_two_products() -> None:
    # b=3, s=7, d=10: projections 4 · 2·3·7·10·10, scores and weighted sum 2 · 2·3·7·7·10.
    assert forward_flop(make_workload()) == 4 * 4200 + 2 * 2940 == 22_680
    assert call_flop(make_workload()) == 22_680
    assert call_flop(make_workload(mode="training")) == 3 * 22_680


@pytest.mark.parametrize("contender", EXPLICIT)
@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_torchs_counter_counts_what_the_formula_says_of_explicit_layers(
    contender: str, mode: str, bias: bool, causal: bool, device: str
) -> None:
    workload = make_workload(mode=mode, bias=bias, causal=causal, device=device)
    with fast_path(False):
        assert counted(workload, contender)[0] == call_flop(workload)


@settings(max_examples=30, deadline=None)
@given(
    batch_size=st.integers(1, 5),
    seq_len=st.integers(1, 41),
    num_heads=st.integers(1, 7),
    head_dim=st.integers(1, 13),
    mode=st.sampled_from(["inference", "training"]),
    contender=st.sampled_from(EXPLICIT),
)
def test_the_formula_holds_at_every_shape(
    batch_size: int, seq_len: int, num_heads: int, head_dim: int, mode: str, contender: str
) -> None:
    workload = make_workload(
        batch_size=batch_size,
        seq_len=seq_len,
        num_heads=num_heads,
        d_model=num_heads * head_dim,
        mode=mode,
        device="meta",
    )
    assert counted(workload, contender)[0] == call_flop(workload)


@pytest.mark.parametrize("contender", FUSED)
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_the_counter_misses_the_cpus_fused_kernel_until_it_is_taught(contender: str, mode: str) -> None:
    workload = make_workload(mode=mode)
    times = 3 if mode == "training" else 1
    assert counted(workload, contender)[0] == times * 4 * 4200, "it sees the projections alone"
    seen, operators = counted(workload, contender, FUSED_ON_CPU)
    assert seen == call_flop(workload)
    assert "aten._scaled_dot_product_flash_attention_for_cpu" in operators


def test_what_a_fused_kernel_computes_anew_on_the_way_back_is_one_product_more() -> None:
    # torch's own count for such kernels: the scores once more (2940), and the four gradients.
    q = (3, 2, 7, 5)
    assert sdpa_backward_flop(q, q, q, q) == four_products(q, q, q, q) + 2940


def test_the_counter_sees_nothing_of_the_official_fast_path_until_it_is_taught() -> None:
    workload = make_workload(bias=True)
    with fast_path(True):
        assert counted(workload, "official") == (0, set())
        seen, operators = counted(workload, "official", {aten._native_multi_head_attention: whole_layer})
    assert seen == call_flop(workload)
    assert operators == {"aten._native_multi_head_attention"}


# -- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "elements"),
    [
        ({}, 2 * TOKENS + WEIGHTS),
        ({"bias": True}, 2 * TOKENS + WEIGHTS + BIASES),
        ({"mode": "training"}, 5 * TOKENS + 3 * WEIGHTS),
        ({"mode": "training", "bias": True}, 5 * TOKENS + 3 * WEIGHTS + 2 * BIASES),
    ],
)
@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4), ("bfloat16", 2), ("float16", 2)])
def test_bytes_are_every_tensor_from_outside_once_for_each_time_it_must_be_there(
    changes: dict[str, Any], elements: int, dtype: str, size: int
) -> None:
    assert call_bytes(make_workload(dtype=dtype, **changes)) == elements * size


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_bytes_are_those_of_the_tensors_that_a_call_takes_and_gives(mode: str, bias: bool, dtype: str) -> None:
    workload = make_workload(mode=mode, bias=bias, dtype=dtype)
    x = make_input(workload)
    made = make_contender("custom", workload, make_weights(workload), x)
    parameters = list(made.layer.parameters())
    given_once = [x, *parameters, made.forward()]
    if mode == "training":
        gradients = made.call()
        assert isinstance(gradients, tuple)
        # The output's gradient; then input and weights once more, but no bias, whose value no gradient needs.
        given_once += [x, *gradients, x, *(weight for weight in parameters if weight.dim() > 1)]
    assert call_bytes(workload) == sum(tensor.numel() * tensor.element_size() for tensor in given_once)


def test_intensity_is_operations_by_bytes() -> None:
    assert arithmetic_intensity(make_workload()) == pytest.approx(22_680 / (820 * 4))
    # Half the bytes at the same operations.
    assert arithmetic_intensity(make_workload(dtype="float16")) == pytest.approx(22_680 / (820 * 2))


@given(st.integers(1, 64), st.integers(1, 512), st.sampled_from(["inference", "training"]))
def test_more_tokens_use_the_weights_better(batch_size: int, seq_len: int, mode: str) -> None:
    less = make_workload(batch_size=batch_size, seq_len=seq_len, mode=mode)
    longer = make_workload(batch_size=batch_size, seq_len=seq_len + 1, mode=mode)
    more = make_workload(batch_size=batch_size + 1, seq_len=seq_len, mode=mode)
    assert arithmetic_intensity(less) < min(arithmetic_intensity(longer), arithmetic_intensity(more))


@given(st.integers(1, 6), st.sampled_from(["inference", "training"]), st.booleans())
def test_the_number_of_heads_costs_nothing_by_formula(num_heads: int, mode: str, causal: bool) -> None:
    one = make_workload(num_heads=1, d_model=60, mode=mode)
    many = make_workload(num_heads=num_heads, d_model=60, mode=mode, causal=causal)
    assert (call_flop(one), call_bytes(one)) == (call_flop(many), call_bytes(many))
