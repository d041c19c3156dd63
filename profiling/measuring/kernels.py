"""Which attention program really ran: found among the operators that a profile saw, not assumed from the call."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch

# In the order in which they are looked for: a fused kernel's own name says more than the products around it.
_OPERATORS = (
    ("aten::_native_multi_head_attention", "official fast path"),
    ("aten::_scaled_dot_product_cudnn_attention", "sdpa cudnn"),
    ("aten::_scaled_dot_product_flash_attention", "sdpa flash"),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", "sdpa flash (cpu)"),
    ("aten::_scaled_dot_product_efficient_attention", "sdpa efficient"),
    ("aten::_scaled_dot_product_fused_attention_overrideable", "sdpa overrideable"),
    ("aten::_scaled_dot_product_attention_math", "sdpa math"),
    ("aten::_scaled_dot_product_attention_math_for_mps", "sdpa math (mps)"),
)


def observe_kernel(call: Callable[[], object]) -> str | None:
    """The attention program that one call runs, or None where its operators tell of none that is known."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return name_kernel({event.key for event in profile.key_averages()})


def name_kernel(operators: Collection[str]) -> str | None:
    """The program that these operators amount to."""
    for operator, name in _OPERATORS:
        if operator in operators:
            return name
    has_softmax = not {"aten::softmax", "aten::_softmax", "aten::_softmax.out"}.isdisjoint(operators)
    has_product = not {"aten::bmm", "aten::baddbmm", "aten::matmul"}.isdisjoint(operators)
    return "explicit" if has_softmax and has_product else None
