"""Attention layers of many hands, all of them right: other names, other layouts, other ways to write the same maths."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v):
    """(B, H, S, D) each -> (B, S, E)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


class ShortNames(nn.Module):
    """wq, wk, wv, wo without bias, heads as ``n_heads``; a tuple returned."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (split(w(x), self.n_heads) for w in (self.wq, self.wk, self.wv))
        return self.wo(attend(q, k, v)), q


class HeadsFirst(nn.Module):
    """The number of heads is the first argument; query, key, value and mask are given, as in the annotated paper."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q, k, v = (split(linear(x), self.h) for linear, x in zip(self.linears, (query, key, value), strict=False))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        context = self.dropout(scores.softmax(-1)) @ v
        return self.linears[-1](context.transpose(1, 2).flatten(2))


class PackedByHead(nn.Module):
    """One block [q0 k0 v0 | q1 k1 v1 | ...] and ``proj``."""

    def __init__(self, dim, num_heads=8):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2).chunk(3, -1)
        return self.proj(attend(q, k, v))


class PackedHeadDimFirst(nn.Module):
    """One block whose rows run over (head_dim, q k v, heads)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Sequential(nn.Linear(dim, dim))

    def forward(self, x):
        q, k, v = self.to_qkv(x).unflatten(-1, (-1, 3, self.heads)).permute(3, 0, 4, 1, 2)
        return self.to_out(attend(q, k, v))


class InByOut(nn.Module):
    """Stored (in, out), as GPT-2 does, and named so."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.ParameterDict({"weight": torch.randn(n_embd, 3 * n_embd) / 5, "bias": torch.zeros(3 * n_embd)})
        self.c_proj = nn.ParameterDict({"weight": torch.randn(n_embd, n_embd) / 5, "bias": torch.zeros(n_embd)})

    def forward(self, x):
        q, k, v = (x @ self.c_attn["weight"] + self.c_attn["bias"]).chunk(3, -1)
        context = attend(*(split(part, self.n_head) for part in (q, k, v)))
        return context @ self.c_proj["weight"] + self.c_proj["bias"]


class ListOfHeads(nn.Module):
    """One module per head, side by side."""

    class Head(nn.Module):
        def __init__(self, d_model, head_size):
            super().__init__()
            self.key, self.query, self.value = (nn.Linear(d_model, head_size, bias=False) for _ in range(3))

        def forward(self, x):
            return F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(self.Head(d_model, d_model // num_heads) for _ in range(num_heads))
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], -1))


class ThreeAxes(nn.Module):
    """Weights (H, E, D) and (H, D, E), put together by einsum."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        head_dim = d_model // num_heads
        for name in ("W_Q", "W_K", "W_V"):
            setattr(self, name, nn.Parameter(torch.randn(num_heads, d_model, head_dim) / 5))
        for name in ("b_Q", "b_K", "b_V"):
            setattr(self, name, nn.Parameter(torch.zeros(num_heads, head_dim)))
        self.W_O = nn.Parameter(torch.randn(num_heads, head_dim, d_model) / 5)
        self.b_O = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        q, k, v = (
            torch.einsum("bse,hed->bhsd", x, getattr(self, f"W_{role}")) + getattr(self, f"b_{role}")[:, None]
            for role in "QKV"
        )
        attn_weights = torch.einsum("bhqd,bhkd->bhqk", q, k).div(q.shape[-1] ** 0.5).softmax(-1)
        context = torch.einsum("bhqk,bhkd->bhqd", attn_weights, v)
        return torch.einsum("bhqd,hde->bqe", context, self.W_O) + self.b_O


class KeysAndValuesPacked(nn.Module):
    """to_q beside to_kv; the context may come from elsewhere."""

    def __init__(self, query_dim, heads=8, dim_head=64):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(query_dim, 2 * heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, query_dim)

    def forward(self, x, context=None):
        context = x if context is None else context
        q, (k, v) = self.to_q(x), self.to_kv(context).chunk(2, -1)
        return self.to_out(attend(*(split(part, self.heads) for part in (q, k, v))))


class BatchedProducts(nn.Module):
    """baddbmm over (B*H, S, D), queries scaled before."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def forward(self, hidden_states):
        q, k, v = (
            split(p(hidden_states), self.num_heads).flatten(0, 1) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        zero = torch.zeros(q.shape[0], q.shape[1], k.shape[1], dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(zero, q * q.shape[-1] ** -0.5, k.transpose(1, 2))
        context = torch.bmm(scores.softmax(-1), v).unflatten(0, (-1, self.num_heads))
        return self.out_proj(context.transpose(1, 2).flatten(2))


RIGHT_LAYERS = [
    ShortNames,
    HeadsFirst,
    PackedByHead,
    PackedHeadDimFirst,
    InByOut,
    ListOfHeads,
    ThreeAxes,
    KeysAndValuesPacked,
    BatchedProducts,
]
