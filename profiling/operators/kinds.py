"""What kind of operator a name stands for, and the sizes of a matrix product. No torch.

The kind says what may be asked about an operator, not which role it has: which product makes the scores is told by
sizes and order, in `profiling.operators.landmarks`.
"""

from __future__ import annotations

import dataclasses
import math
import re

from profiling.operators.recorded import Node, Shape

FUSED, PRODUCT, SOFTMAX, EXPONENTIAL, LAYOUT, COMPILED, FRAMEWORK, OTHER = (
    *("fused", "product", "softmax", "exponential", "layout", "compiled", "framework", "other"),
)

_FUSED = re.compile(
    r"_scaled_dot_product_\w*(flash|efficient|cudnn|overrideable|math_for_mps)|_(flash|efficient|cudnn)_attention_"
    r"|_triton_(multi_head|scaled_dot)_attention|flex_attention|FlexAttention"
)
# Functions that inductor generates; with its own profiling on they are seen to run.
_COMPILED = re.compile(r"(?:cpp|triton)_\w*fused_\w+")
_SOFTMAX = re.compile(r"(?:^|_)(?:log_)?softmax(?:_backward_data)?$")
_EXPONENTIALS = {"exp", "exp_", "exp2", "exp2_"}
_PRODUCTS = {
    *("mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "_int_mm"),
    *("mkldnn_linear", "_linear_pointwise", "_mkl_linear", "_scaled_mm", "linear", "matmul", "einsum", "inner"),
    *("tensordot", "_trilinear", "bilinear", "convolution", "mkldnn_convolution", "__matmul__"),
}
_LAYOUTS = {
    *("transpose", "transpose_", "t", "t_", "numpy_T", "matrix_H", "adjoint", "mT", "mH", "permute", "movedim"),
    *("swapaxes", "swapdims", "view", "view_as", "_unsafe_view", "_reshape_alias", "reshape", "reshape_as"),
    *("as_strided", "as_strided_", "expand", "expand_as", "broadcast_to", "contiguous", "clone", "copy", "copy_"),
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "new_zeros", "zeros", "zeros_like"),
    *("ones", "ones_like", "full", "full_like", "fill_", "zero_", "resize_", "set_", "unbind", "select", "slice"),
    *("narrow", "narrow_copy", "split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk"),
    *("cat", "concat", "stack", "hstack", "vstack", "unsqueeze", "unsqueeze_", "squeeze", "squeeze_", "flatten"),
    *("unflatten", "to", "_to_copy", "type_as", "detach", "detach_", "alias", "resolve_conj", "resolve_neg"),
    *("index_select", "gather", "index", "index_put_", "repeat", "repeat_interleave", "tile", "pad", "constant_pad_nd"),
    *("roll", "flip", "unfold", "diagonal", "select_backward", "slice_backward", "unbind_backward", "lift_fresh"),
    *("pin_memory", "_nested_tensor_from_mask", "_pack_padded_sequence", "slice_scatter", "select_scatter"),
    # One kernel that copies q, k and v apart by head; that it adds the bias and scales on the way costs it nothing.
    "_transform_bias_rescale_qkv",
}
ADDITIONS = {"add", "add_", "sub", "sub_"}
SCALINGS = {"mul", "mul_", "div", "div_", "true_divide", "multiply", "divide"}
MASKINGS = {"triu", "triu_", "tril", "tril_", "masked_fill", "masked_fill_", "where", "logical_not", "bitwise_not"}
# With which a softmax written by hand begins.
REDUCTIONS = {"amax", "max", "sub", "sub_", "logsumexp", "sum", "nan_to_num"}


def short(name: str) -> str:
    """A name without its namespace: `clone` for `aten::clone`."""
    return name.rpartition("::")[2]


def kind_of(node: Node) -> str:
    """The kind of an operator; one that only holds others, such as `linear` around `mm`, is `OTHER` or `PRODUCT`."""
    name, word = node.name, short(node.name).partition(".")[0]
    if _COMPILED.search(name):
        return FUSED if "flex_attention" in name else COMPILED
    if _FUSED.search(name):
        return FUSED
    if word == "_fused_sdp_choice":
        return FRAMEWORK  # it computes nothing: torch makes up its mind which kernel to call
    if "::" not in name or name.startswith(("autograd::", "torch::")):
        return FRAMEWORK  # ranges, the nodes of the autograd engine, what surrounds compiled code
    if word in _PRODUCTS:
        return PRODUCT
    if _SOFTMAX.search(word):
        return SOFTMAX
    if word in _EXPONENTIALS:
        return EXPONENTIAL
    return LAYOUT if word in _LAYOUTS else OTHER


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of a product (b, m, k) × (b, k, n)."""

    b: int
    m: int
    k: int
    n: int

    @property
    def result(self) -> int:
        """How many elements it makes."""
        return self.b * self.m * self.n

    @property
    def operands(self) -> tuple[int, int]:
        """How many elements either operand has."""
        return self.b * self.m * self.k, self.b * self.k * self.n


def sizes_of(node: Node) -> Sizes | None:
    """The sizes of a product; None where its shapes do not tell them."""
    word = short(node.name).partition(".")[0]
    shapes = list(node.event.shapes)
    if word in ("addmm", "_addmm_activation", "baddbmm", "addbmm", "addmv"):
        shapes = shapes[1:]
    if len(shapes) < 2 or not shapes[0] or not shapes[1]:
        return None
    left, right = shapes[0], shapes[1]
    if word in ("linear", "mkldnn_linear", "_linear_pointwise"):  # (…, k) and a weight (n, k)
        return _sizes(left, right[::-1]) if len(right) == 2 else None
    if word == "_mkl_linear":  # its second argument is packed
        return _sizes(left, shapes[2][::-1]) if len(shapes) > 2 and len(shapes[2]) == 2 else None
    return _sizes(left, right)


def _sizes(left: Shape, right: Shape) -> Sizes | None:
    m, k = (1, left[0]) if len(left) == 1 else left[-2:]
    inner, n = (right[0], 1) if len(right) == 1 else right[-2:]
    if inner != k:
        return None
    batch = math.prod(left[:-2])
    if len(right) <= 2:  # all rows with one matrix
        return Sizes(1, batch * m, k, n)
    return Sizes(max(batch, math.prod(right[:-2])), m, k, n)
