from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from profiling.measuring.contenders import kernels
from profiling.measuring.contenders.kernels import name_kernel, observe_kernel


@pytest.mark.parametrize(
    ("operators", "name"),
    [
        ({"aten::bmm", "aten::_softmax", "aten::add"}, "explicit"),
        ({"aten::matmul", "aten::_softmax.out"}, "explicit"),
        ({"aten::einsum", "aten::_safe_softmax"}, "explicit"),
        ({"aten::bmm"}, None),
        ({"aten::softmax"}, None),
        (set(), None),
        ({"aten::bmm", "aten::softmax", "aten::_native_multi_head_attention"}, "official fast path"),
        ({"aten::_scaled_dot_product_flash_attention_for_cpu", "aten::linear"}, "sdpa flash (cpu)"),
        ({"aten::_scaled_dot_product_attention_math", "aten::bmm", "aten::softmax"}, "sdpa math"),
        # On an accelerator the call that chooses a kernel is seen with the kernel itself.
        ({"aten::_scaled_dot_product_flash_attention", "aten::_flash_attention_forward"}, "sdpa flash"),
        ({"aten::_scaled_dot_product_efficient_attention", "aten::_efficient_attention_forward"}, "sdpa efficient"),
        ({"aten::_scaled_dot_product_cudnn_attention", "aten::_cudnn_attention_forward"}, "sdpa cudnn"),
        ({"aten::_flash_attention_forward", "aten::linear"}, "flash"),
        ({"aten::_efficient_attention_forward"}, "efficient"),
        (
            {"FlexAttentionAutogradOp", "aten::bmm", "aten::softmax", "Torch-Compiled Region: 0/0"},
            "flex attention (unfused)",
        ),
    ],
)
def test_the_program_is_named_by_its_operators(operators: set[str], name: str | None) -> None:
    assert name_kernel(operators) == name


@pytest.mark.parametrize(
    ("operators", "generated", "name"),
    [
        ({"aten::bmm", "aten::mm"}, {"cpp_fused__softmax__unsafe_view_bmm_clone_2"}, "compiled: explicit"),
        ({"aten::mm"}, {"cpp_fused__softmax_2"}, None),
        ({"aten::bmm"}, {"cpp_fused_clone_0"}, None),
        ({"aten::_scaled_dot_product_flash_attention_for_cpu"}, {"cpp_fused_clone_0"}, "compiled: sdpa flash (cpu)"),
        (set(), {"cpp_fused_flex_attention_ones_0"}, "compiled: flex attention"),
        # Where it is a layer of one's own that has had itself compiled, only the profile tells.
        ({"Torch-Compiled Region: 0/0", "aten::_scaled_dot_product_attention_math"}, set(), "compiled: sdpa math"),
        ({"Torch-Compiled Region: 1/0", "aten::bmm", "triton_per_fused__softmax_1"}, set(), "compiled: explicit"),
    ],
)
def test_a_compiled_call_is_named_by_what_is_seen_within(
    operators: set[str], generated: set[str], name: str | None
) -> None:
    assert name_kernel(operators, generated) == name


def test_torch_has_the_operators_that_are_looked_for_and_no_other_attention() -> None:
    known = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    looked_for = {operator for operator, _ in kernels._OPERATORS}
    assert looked_for <= known
    forward = {
        name for name in known if name.startswith("aten::_") and "attention" in name and not name.endswith("_backward")
    }
    assert forward == looked_for


Q = torch.randn(2, 3, 5, 7)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize(
    ("backend", "name"),
    [(SDPBackend.MATH, "sdpa math"), (SDPBackend.FLASH_ATTENTION, "sdpa flash (cpu)")],
)
def test_the_kernel_that_torch_is_made_to_run_is_the_one_seen(
    backend: SDPBackend, name: str, mode: Callable[[], torch.inference_mode]
) -> None:
    q = Q.clone().requires_grad_()

    def call() -> object:
        output = F.scaled_dot_product_attention(q, q, q)
        return torch.autograd.grad(output.sum(), q) if torch.is_grad_enabled() else output

    with mode(), sdpa_kernel(backend):
        assert observe_kernel(call) == name


def _einsum(q: Tensor) -> Tensor:
    return torch.einsum("bhst,bhtd->bhsd", torch.einsum("bhsd,bhtd->bhst", q, q).softmax(-1), q)


def _baddbmm(q: Tensor) -> Tensor:
    rows = q.flatten(0, 1)
    scores = torch.baddbmm(torch.zeros(6, 5, 5), rows, rows.transpose(1, 2))
    return torch.softmax(scores, -1) @ rows


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: (Q @ Q.transpose(-1, -2)).softmax(-1) @ Q, "explicit"),
        (lambda: F.softmax(Q @ Q.transpose(-1, -2), dim=-1, dtype=torch.float64).float() @ Q, "explicit"),
        (lambda: torch.special.softmax(Q @ Q.transpose(-1, -2), -1) @ Q, "explicit"),
        (lambda: _einsum(Q), "explicit"),
        (lambda: _baddbmm(Q), "explicit"),
        (lambda: Q + 1, None),
        (lambda: Q.softmax(-1), None),
        # A softmax written by hand is no operator: rather no name than a guess.
        (lambda: (lambda e: e / e.sum(-1, keepdim=True))((Q @ Q.transpose(-1, -2)).exp()) @ Q, None),
    ],
)
def test_what_really_runs_is_seen(call: Callable[[], Tensor], name: str | None) -> None:
    with torch.inference_mode():
        assert observe_kernel(call) == name
