"""Multi-head self-attention, twice: explicit, the readable specification, and fused, by torch's own kernel.

Both do their work in the order in which ``torch.nn.MultiheadAttention`` does it, so that on the CPU they equal it bit
for bit, gradients included: tokens laid out (S, B), one product with the packed weights, its result copied to a
contiguous (3, S, B, E), heads seen from there by a transpose, queries scaled before the product with the keys. Another
order is as right, and differs in the last bits.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mha.projections import PackedProjections


def _softmax_takes_out() -> bool:
    scores = torch.zeros(1)
    try:
        # torch's type stubs leave this call out.
        torch.softmax(scores, -1, out=scores)  # type: ignore[call-overload, unused-ignore]
    except TypeError:  # torch 1.9
        return False
    return True


_SOFTMAX_TAKES_OUT = _softmax_takes_out()


class MultiHeadAttention(PackedProjections):
    r"""Self-attention with every step written out.

    .. math:: \mathrm{softmax}(q k^T / \sqrt{D} + \mathrm{mask})\, v, \qquad q = x W_Q^T,\ k = x W_K^T,\ v = x W_V^T

    per head, the heads side by side, times :math:`W_O^T`; every product plus its bias where there are biases.
    D = E / H. (B, S, E) -> (B, S, E); the weights as in :class:`mha.projections.PackedProjections`.

    From "Attention Is All You Need", section 3.2, it differs in nothing but that it is for one sequence attending to
    itself, without dropout. From ``torch.nn.MultiheadAttention(d_model, num_heads, batch_first=True)``: no bias unless
    asked for, one argument, the output alone returned. It equals ``official(x, x, x)[0]`` bit for bit on the CPU, while
    the official layer stays off its fast path.

    Without gradients it writes over tensors that it no longer needs: the same bits in about half the memory.
    ``torch.func.vmap`` and forward-mode differentiation cannot follow such writes: under ``torch.no_grad()`` they
    raise; with gradients enabled they work.

    Args:
        d_model: E, width of the input and of the output.
        num_heads: H; must divide ``d_model``.
        bias: whether the four projections have biases.
        causal: whether a position sees itself and those before it only.
        device, dtype: of the parameters.

    Raises:
        ValueError: where a size is not a positive integer, ``num_heads`` does not divide ``d_model``, or (in the call)
            the input is not (B, S, E).
    """

    attends = "explicit"

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        bias: bool = False,
        causal: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(d_model, num_heads, bias=bias, device=device, dtype=dtype)
        self.causal = causal
        self.scale = math.sqrt(1.0 / self.head_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Attend: (B, S, E) -> (B, S, E)."""
        try:
            batch_size, seq_len, d_model = x.shape
        except ValueError:
            raise _misshapen(x, self.d_model) from None
        if d_model != self.d_model:
            raise _misshapen(x, self.d_model)
        in_weight, in_bias, out_weight, out_bias = self._weights()

        # One product for q, k and v; then a block of its own for each: the last bits of what follows hang on it.
        # A lone sequence has its rows in that order already; to turn it costs a tenth of a small call.
        qkv = F.linear(x if batch_size == 1 else x.permute(1, 0, 2), in_weight, in_bias)  # (S, B, 3E)
        qkv = qkv.view(seq_len * batch_size, 3, d_model)
        qkv = qkv.transpose(0, 1).contiguous()  # (3, S*B, E)

        # Heads are seen by a transpose, not copied: a copy is laid out otherwise, and changes the last bits too.
        heads, head_dim = batch_size * self.num_heads, self.head_dim
        qkv = qkv.view(3, seq_len, heads, head_dim)  # (3, S, B*H, D)

        if torch.is_grad_enabled():
            # Taken apart first, so that their gradients are put together in the official layer's layout.
            q, k, v = (part.transpose(0, 1) for part in qkv.unbind())  # each (B*H, S, D)
            scores = self._scores(q * self.scale, k)  # (B*H, S, S)
            attn_weights = torch.softmax(scores, -1)
            context = torch.bmm(attn_weights, v)  # (B*H, S, D)
        else:
            # The same arithmetic over tensors that are no longer needed. It saves half the memory, and time at long
            # sequences, where a fresh block for the weights costs more in page faults than their softmax.
            q, k, v = qkv.transpose(1, 2).unbind()
            scores = self._scores(q.mul_(self.scale), k)
            attn_weights = torch.softmax(scores, -1, out=scores) if _SOFTMAX_TAKES_OUT else torch.softmax(scores, -1)
            # Over the queries. Not over the keys: those begin anywhere in the block, and a product's last bits hang on
            # whether its memory begins at a multiple of 64 bytes, as a fresh tensor's does and the block's.
            context = torch.bmm(attn_weights, v, out=qkv[0].view(heads, seq_len, head_dim))
        del scores, attn_weights  # before the rest allocates

        context = context.transpose(0, 1).reshape(seq_len * batch_size, d_model)  # heads side by side again
        # Not self.W_O(context): a module's call costs more than its product at small sizes.
        return _batch_first(F.linear(context, out_weight, out_bias), batch_size, seq_len, d_model)

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        """How much each query attends to each key, before the softmax: (B*H, S, D) twice -> (B*H, S, S)."""
        if not self.causal:
            return torch.bmm(q, k.transpose(1, 2))
        seq_len = q.shape[1]
        mask = torch.full((seq_len, seq_len), -math.inf, dtype=q.dtype, device=q.device).triu_(1)
        return torch.baddbmm(mask, q, k.transpose(1, 2))


class FusedMultiHeadAttention(PackedProjections):
    """The same layer by ``torch.nn.functional.scaled_dot_product_attention``, which never holds all scores at once.

    Weights, arguments, shapes and errors are those of :class:`MultiHeadAttention`. It equals
    ``official(x, x, x, need_weights=False)[0]`` bit for bit on the CPU, while the official layer stays off its fast
    path. It never falls back to explicit products of its own; which kernel runs is torch's choice.

    Raises:
        RuntimeError: where this torch has no ``scaled_dot_product_attention`` (before 2.0).
    """

    attends = "fused"

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        bias: bool = False,
        causal: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not hasattr(F, "scaled_dot_product_attention"):
            raise RuntimeError(
                f"FusedMultiHeadAttention needs torch.nn.functional.scaled_dot_product_attention, which torch "
                f"{torch.__version__} does not have (2.0 and later do): use MultiHeadAttention"
            )
        super().__init__(d_model, num_heads, bias=bias, device=device, dtype=dtype)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        """Attend: (B, S, E) -> (B, S, E)."""
        try:
            batch_size, seq_len, d_model = x.shape
        except ValueError:
            raise _misshapen(x, self.d_model) from None
        if d_model != self.d_model:
            raise _misshapen(x, self.d_model)
        in_weight, in_bias, out_weight, out_bias = self._weights()

        # One product for q, k and v; then a block of its own for each: the last bits of what follows hang on it.
        qkv = F.linear(x if batch_size == 1 else x.permute(1, 0, 2), in_weight, in_bias)  # (S, B, 3E)
        qkv = qkv.view(seq_len, batch_size, 3, self.num_heads, self.head_dim)
        qkv = qkv.permute(2, 0, 1, 3, 4).contiguous()  # (3, S, B, H, D)
        if torch.is_grad_enabled():
            # Taken apart first, so that their gradients are put together in the official layer's layout.
            q, k, v = (part.permute(1, 2, 0, 3) for part in qkv.unbind())  # each (B, H, S, D)
        else:
            q, k, v = qkv.permute(0, 2, 3, 1, 4).unbind()  # the same in fewer calls

        context = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)  # (B, H, S, D)
        del qkv, q, k, v  # before the rest allocates

        context = context.permute(2, 0, 1, 3).reshape(seq_len * batch_size, d_model)  # heads side by side again
        return _batch_first(F.linear(context, out_weight, out_bias), batch_size, seq_len, d_model)


def _batch_first(rows: Tensor, batch_size: int, seq_len: int, d_model: int) -> Tensor:
    """See the rows by sequence again: (S*B, E) -> (B, S, E)."""
    if batch_size == 1:
        return rows.unsqueeze(0)
    return rows.view(seq_len, batch_size, d_model).permute(1, 0, 2)


def _misshapen(x: Tensor, d_model: int) -> ValueError:
    return ValueError(f"x must be (batch, seq_len, d_model) with d_model={d_model}, got shape {tuple(x.shape)}")
