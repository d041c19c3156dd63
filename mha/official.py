"""The official layer, ``torch.nn.MultiheadAttention``, built and called in a stated way.

It is several programs, and which one runs depends on the call: with ``need_weights=True`` (its default) explicit
products and a mean over heads; with ``need_weights=False`` ``scaled_dot_product_attention``; in eval without gradients,
with bias and an even number of heads, a native kernel, the fast path, whatever ``need_weights`` says.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def official_layer(
    d_model: int,
    num_heads: int,
    *,
    bias: bool = False,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.MultiheadAttention:
    """Build the official layer with our shapes: ``batch_first``, no dropout, without bias unless asked for.

    Raises:
        AssertionError: torch's own, where ``num_heads`` does not divide ``d_model``.
    """
    return nn.MultiheadAttention(d_model, num_heads, bias=bias, batch_first=True, device=device, dtype=dtype)


def call_official(
    official: nn.MultiheadAttention, x: Tensor, *, need_weights: bool = True, causal_mask: Tensor | None = None
) -> Tensor:
    """Call the official layer for self-attention, (B, S, E) -> (B, S, E), and return its output alone.

    Args:
        official: the layer, ``batch_first``.
        x: (B, S, E).
        need_weights: True runs explicit products, False ``scaled_dot_product_attention``.
        causal_mask: what :func:`causal_mask` made for this seq_len, or None for no mask. With ``need_weights=False``
            torch is told that the mask is causal, and the kernel then skips it instead of adding it.
    """
    options: dict[str, Any] = {}
    if causal_mask is not None:
        options["attn_mask"] = causal_mask
        if not need_weights and hasattr(F, "scaled_dot_product_attention"):
            options["is_causal"] = True
    output: Tensor = official(x, x, x, need_weights=need_weights, **options)[0]
    return output


def causal_mask(seq_len: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Tensor:
    """Build the mask (S, S) that keeps a query from keys after it; to be built once, outside what is timed.

    Boolean, True where attention is forbidden; or, with a floating ``dtype`` (that of the layer), additive: 0 and -inf.
    The additive one spares the official layer a conversion per call, and keeps it off its fast path.
    """
    if dtype is None:
        return torch.ones((seq_len, seq_len), dtype=torch.bool, device=device).triu(1)
    return torch.full((seq_len, seq_len), -math.inf, dtype=dtype, device=device).triu(1)


@contextlib.contextmanager
def fast_path(enabled: bool) -> Iterator[None]:
    """Allow or forbid the official layer's native kernel within the block; no effect where torch has no such switch.

    The switch is global to the process, as torch made it. torch 1.9 to 1.11 have no fast path; 1.12 to 2.2 have one
    without this switch.
    """
    backend: Any = getattr(torch.backends, "mha", None)
    if backend is None:
        yield
        return
    before = backend.get_fastpath_enabled()
    backend.set_fastpath_enabled(enabled)
    try:
        yield
    finally:
        backend.set_fastpath_enabled(before)
