from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from profiling.measuring.kernels import name_kernel, observe_kernel


@pytest.mark.parametrize(
    ("operators", "name"),
    [
        ({"aten::bmm", "aten::_softmax", "aten::add"}, "explicit"),
        ({"aten::matmul", "aten::_softmax.out"}, "explicit"),
        ({"aten::bmm"}, None),
        ({"aten::softmax"}, None),
        (set(), None),
        ({"aten::bmm", "aten::softmax", "aten::_native_multi_head_attention"}, "official fast path"),
        ({"aten::_scaled_dot_product_flash_attention_for_cpu", "aten::linear"}, "sdpa flash (cpu)"),
        ({"aten::_scaled_dot_product_attention_math", "aten::bmm", "aten::softmax"}, "sdpa math"),
    ],
)
def test_the_program_is_named_by_its_operators(operators: set[str], name: str | None) -> None:
    assert name_kernel(operators) == name


def test_what_really_runs_is_seen() -> None:
    q = torch.randn(2, 3, 5, 7)
    assert observe_kernel(lambda: (q @ q.transpose(-1, -2)).softmax(-1) @ q) == "explicit"
    with torch.inference_mode():
        assert observe_kernel(lambda: F.scaled_dot_product_attention(q, q, q)) == "sdpa flash (cpu)"
    assert observe_kernel(lambda: q + 1) is None
