"""Which attention program really ran: found among the operators that a profile saw, not assumed from the call."""

from __future__ import annotations

from collections.abc import Callable, Collection

from profiling.measuring.profile import events_of, new_profile

FAST_PATH = "official fast path"

# In the order in which they are looked for: a fused kernel's own name says more than the products around it, and the
# call that chooses a kernel more than the kernel within it.
_OPERATORS = (
    ("aten::_native_multi_head_attention", FAST_PATH),
    ("aten::_triton_multi_head_attention", FAST_PATH),
    ("aten::_scaled_dot_product_cudnn_attention", "sdpa cudnn"),
    ("aten::_scaled_dot_product_flash_attention", "sdpa flash"),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", "sdpa flash (cpu)"),
    ("aten::_scaled_dot_product_efficient_attention", "sdpa efficient"),
    ("aten::_scaled_dot_product_fused_attention_overrideable", "sdpa overrideable"),
    ("aten::_scaled_dot_product_attention_math", "sdpa math"),
    ("aten::_scaled_dot_product_attention_math_for_mps", "sdpa math (mps)"),
    # The same kernels, called by a layer itself: as for packed or nested sequences.
    ("aten::_cudnn_attention_forward", "cudnn"),
    ("aten::_flash_attention_forward", "flash"),
    ("aten::_flash_attention_forward_no_dropout_inplace", "flash"),
    ("aten::_efficient_attention_forward", "efficient"),
    ("aten::_triton_scaled_dot_attention", "triton"),
)
# Uncompiled it is an operator of torch's Python; compiled, part of the names that inductor gives its kernels.
_UNFUSED_FLEX, _FUSED_FLEX = "FlexAttentionAutogradOp", "flex_attention"
_SOFTMAXES = {
    *("aten::softmax", "aten::_softmax", "aten::_softmax.out", "aten::_safe_softmax", "aten::_masked_softmax"),
    "aten::special_softmax",
}
_PRODUCTS = {"aten::bmm", "aten::baddbmm", "aten::matmul", "aten::einsum"}
_COMPILED_REGION = "Torch-Compiled Region"


def observe_kernel(call: Callable[[], object], generated: Collection[str] = ()) -> str | None:
    """The attention program that one call runs, or None where its operators tell of none that is known.

    Args:
        call: what to run, in the mode in which it is timed.
        generated: names of functions that a compiler generated for it, since a profile of a CPU does not see them run.
    """
    with new_profile() as profile:
        call()
    return name_kernel({event.name() for event in events_of(profile)}, generated)


def name_kernel(operators: Collection[str], generated: Collection[str] = ()) -> str | None:
    """The program that these operators, and functions that a compiler generated, amount to.

    Where part of the call was compiled it says so: `compiled: sdpa flash (cpu)`.
    """
    if _UNFUSED_FLEX in operators:
        return "flex attention (unfused)"
    name = _name_program({*operators, *generated})
    is_compiled = bool(generated) or any(operator.startswith(_COMPILED_REGION) for operator in operators)
    return f"compiled: {name}" if name and is_compiled else name


def _name_program(seen: Collection[str]) -> str | None:
    for operator, name in _OPERATORS:
        if operator in seen:
            return name
    if any(_FUSED_FLEX in operator for operator in seen):
        return "flex attention"
    # Inductor leaves products to a library, and makes a function of the softmax and what is around it.
    has_softmax = any(each in _SOFTMAXES or ("fused" in each and "_softmax" in each) for each in seen)
    has_product = not _PRODUCTS.isdisjoint(seen)
    return "explicit" if has_softmax and has_product else None
