"""Multi-head self-attention, twice: explicit, the readable specification, and fused, by torch's own kernel."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mha.projections import PackedProjections


class MultiHeadAttention(PackedProjections):
    """Self-attention."""

    attends = "explicit"

    def __init__(self, d_model, num_heads, *, bias=False, causal=False, device=None, dtype=None):
        super().__init__(d_model, num_heads, bias=bias, device=device, dtype=dtype)
        self.causal = causal
        self.scale = math.sqrt(1.0 / self.head_dim)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, E) -> (B, S, E)."""
        batch_size, seq_len, d_model = x.shape
        qkv = F.linear(x.transpose(0, 1), self.in_proj_weight, self.in_proj_bias)
        qkv = qkv.view(seq_len, batch_size, 3, d_model).permute(2, 0, 1, 3).contiguous()
        q, k, v = qkv.view(3, seq_len, batch_size * self.num_heads, self.head_dim).transpose(1, 2).unbind(0)
        q = q * self.scale
        if self.causal:
            mask = torch.full((seq_len, seq_len), -math.inf, dtype=x.dtype, device=x.device).triu_(1)
            scores = torch.baddbmm(mask, q, k.transpose(1, 2))
        else:
            scores = torch.bmm(q, k.transpose(1, 2))
        context = torch.bmm(torch.softmax(scores, -1), v)
        context = context.transpose(0, 1).reshape(seq_len * batch_size, d_model)
        out = F.linear(context, self.W_O.weight, self.W_O.bias)
        return out.view(seq_len, batch_size, d_model).transpose(0, 1)


class FusedMultiHeadAttention(PackedProjections):
    """Self-attention by SDPA."""

    attends = "fused"

    def __init__(self, d_model, num_heads, *, bias=False, causal=False, device=None, dtype=None):
        super().__init__(d_model, num_heads, bias=bias, device=device, dtype=dtype)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, E) -> (B, S, E)."""
        batch_size, seq_len, d_model = x.shape
        qkv = F.linear(x.transpose(0, 1), self.in_proj_weight, self.in_proj_bias)
        qkv = qkv.view(seq_len, batch_size, 3, d_model).permute(2, 0, 1, 3).contiguous()
        q, k, v = qkv.view(3, seq_len, batch_size, self.num_heads, self.head_dim).permute(0, 2, 3, 1, 4).unbind(0)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        context = context.permute(2, 0, 1, 3).reshape(seq_len * batch_size, d_model)
        out = F.linear(context, self.W_O.weight, self.W_O.bias)
        return out.view(seq_len, batch_size, d_model).transpose(0, 1)
