"""Multi-head attention as a formula with knobs: right as it stands by default, and wrong in one stated way each knob.

It is the float64 oracle for small shapes, written so that a fault can be put in; :mod:`mha.checking.faults` names the
faults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Formula:
    """How attention is computed.

    Attributes:
        scale: what scores are multiplied by: ``head_dim`` (1/sqrt(D), right), ``d_model`` (1/sqrt(E)), ``num_heads``
            (1/sqrt(H)), ``seq_len`` (1/sqrt(S)), ``missing`` (1), ``twice`` (1/D), ``upside-down`` (sqrt(D)),
            ``after-softmax``.
        softmax: over ``keys`` (right), ``queries``, ``heads``, ``batch``; ``twice``; or ``missing``.
        split, merge: how heads are made and put side by side: ``transpose`` (right), or ``view``, which reads the
            memory in an order that mixes positions and heads.
        batch_first: False where batch and sequence are mistaken for each other.
        biases: the roles whose bias is added.
        output_projection: whether W_O is applied.
        made_by: which weight makes queries, keys and values: ``qkv`` is right, ``qvk`` has keys and values swapped.
        heads: how many heads there really are; None: as many as asked for.
        pattern: which keys a query sees: ``all``, ``causal`` (those up to itself), ``future`` (those from itself on),
            ``strictly-future``, ``strictly-past``, ``one-ahead`` (up to the one after itself), ``given``.
        masking: how the others are kept out: ``filled`` with -inf before the softmax (right), filled with a ``finite``
            number (so that a query that sees nothing sees everything), ``multiplied`` (scores by 0), ``after-softmax``
            (weights by 0), ``inverted`` (the others are those that are seen).
        residual: whether the input is added to the output.
        norm: ``none``, or a layer norm ``before`` the projections, ``after`` everything; ``rms-before``, ``rms-after``.
        sources: from which input queries, keys and values are made; ``qkv`` is right, ``qqq`` ignores key and value.
        qk_norm: ``none``, or queries and keys normalised per head: ``layer``, ``rms``, ``l2``.
        rotary: ``none``, ``half`` or ``interleaved``: rotary positions with base 10000.
    """

    scale: str = "head_dim"
    softmax: str = "keys"
    split: str = "transpose"
    merge: str = "transpose"
    batch_first: bool = True
    biases: str = "qkvo"
    output_projection: bool = True
    made_by: str = "qkv"
    heads: int | None = None
    pattern: str = "all"
    masking: str = "filled"
    residual: bool = False
    norm: str = "none"
    sources: str = "qkv"
    qk_norm: str = "none"
    rotary: str = "none"

    @property
    def may_be_nan(self) -> bool:
        """Whether it can make NaN of finite numbers: where a softmax, or a product, sees nothing but -inf."""
        sees_nothing = self.pattern in ("strictly-future", "strictly-past", "given")
        return sees_nothing or (self.pattern != "all" and self.softmax != "keys")


RIGHT = Formula()
CAUSAL = Formula(pattern="causal")


def attend(
    formula: Formula,
    weights: Mapping[str, Tensor],
    num_heads: int,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    """Compute (B, S, E) -> (B, S, E) as the formula says, in the dtype of the input.

    Args:
        formula: what to compute.
        weights: role -> values, ``w_q`` (E, E) out x in, ``b_q`` (E) where there are biases.
        num_heads: H.
        query, key, value: (B, S, E), (B, T, E), (B, T, E); without the last two, self-attention.
        allowed: (S, T) or (B, 1, S, T), True where a query may see a key; for the pattern ``given``.
    """
    key = query if key is None else key
    value = key if value is None else value
    inputs = {"q": query, "k": key, "v": value}
    given = tuple(inputs[source] for source in formula.sources)
    if not formula.batch_first:
        given = tuple(x.transpose(0, 1) for x in given)
    query, key, value = given
    residual = query
    if formula.norm.endswith("before"):
        query, key, value = (_norm(x, formula.norm) for x in (query, key, value))
    num_heads = formula.heads or num_heads
    q, k, v = (
        _split(_project(x, weights, made_by, formula), num_heads, formula.split)
        for x, made_by in zip((query, key, value), formula.made_by)  # noqa: B905 - Python 3.8 has no strict=
    )  # each (B, H, S, D)
    attn_weights = _weights(formula, _prepared(q, formula), _prepared(k, formula), query.shape[-1], allowed)
    context = attn_weights @ v  # (B, H, S, D)
    if formula.merge == "transpose":
        context = context.transpose(1, 2)
    output = context.reshape(query.shape)
    if formula.output_projection:
        output = _project(output, weights, "o", formula)
    if formula.residual:
        output = output + residual
    if formula.norm.endswith("after"):
        output = _norm(output, formula.norm)
    return output if formula.batch_first else output.transpose(0, 1)


def _project(x: Tensor, weights: Mapping[str, Tensor], role: str, formula: Formula) -> Tensor:
    bias = weights.get(f"b_{role}") if role in formula.biases else None
    return F.linear(x, weights[f"w_{role}"], bias)


def _split(x: Tensor, num_heads: int, how: str) -> Tensor:
    batch_size, length, width = x.shape
    if how == "view":
        return x.reshape(batch_size, num_heads, length, width // num_heads)
    return x.reshape(batch_size, length, num_heads, width // num_heads).transpose(1, 2)


def _prepared(x: Tensor, formula: Formula) -> Tensor:
    """Queries or keys (B, H, S, D), normalised and turned where the formula says so."""
    if formula.qk_norm == "layer":
        x = F.layer_norm(x, x.shape[-1:])
    elif formula.qk_norm == "rms":
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    elif formula.qk_norm == "l2":
        x = F.normalize(x, dim=-1)
    return x if formula.rotary == "none" else _turned(x, formula.rotary)


def _turned(x: Tensor, how: str) -> Tensor:
    head_dim = x.shape[-1]
    half = head_dim // 2
    frequencies = 10000.0 ** (-torch.arange(half, dtype=x.dtype) * 2 / head_dim)
    angles = torch.arange(x.shape[-2], dtype=x.dtype).unsqueeze(1) * frequencies
    cos, sin = angles.cos(), angles.sin()
    rest = x[..., 2 * half :]
    if how == "half":
        a, b = x[..., :half], x[..., half : 2 * half]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)
    a, b = x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]
    return torch.cat([torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2), rest], -1)


def _weights(formula: Formula, q: Tensor, k: Tensor, d_model: int, allowed: Tensor | None) -> Tensor:
    """Attention weights (B, H, S, T)."""
    num_heads, seq_len, head_dim = q.shape[1:]
    factors = {
        "head_dim": head_dim**-0.5,
        "d_model": d_model**-0.5,
        "num_heads": num_heads**-0.5,
        "seq_len": k.shape[-2] ** -0.5,
        "twice": 1.0 / head_dim,
        "upside-down": head_dim**0.5,
    }
    scores = q @ k.transpose(-2, -1) * factors.get(formula.scale, 1.0)
    seen = allowed if formula.pattern == "given" else _pattern(formula.pattern, seq_len, k.shape[-2])
    if seen is not None:
        seen = ~seen if formula.masking == "inverted" else seen
        if formula.masking == "multiplied":
            scores = scores * seen
        elif formula.masking != "after-softmax":
            scores = scores.masked_fill(~seen, -1e9 if formula.masking == "finite" else -math.inf)
    axis = {"queries": -2, "heads": 1, "batch": 0}.get(formula.softmax, -1)
    attn_weights = scores if formula.softmax == "missing" else torch.softmax(scores, axis)
    if formula.softmax == "twice":
        attn_weights = torch.softmax(attn_weights, -1)
    if seen is not None and formula.masking == "after-softmax":
        attn_weights = attn_weights * seen
    return attn_weights * head_dim**-0.5 if formula.scale == "after-softmax" else attn_weights


def _pattern(name: str, seq_len: int, num_keys: int) -> Tensor | None:
    """Which keys a query sees (S, T); None for all."""
    if name == "all":
        return None
    ahead = torch.arange(num_keys) - torch.arange(seq_len).unsqueeze(1)
    return {
        "causal": ahead <= 0,
        "future": ahead >= 0,
        "strictly-future": ahead > 0,
        "strictly-past": ahead < 0,
        "one-ahead": ahead <= 1,
    }[name]


def _norm(x: Tensor, how: str) -> Tensor:
    if how.startswith("std"):
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
    if how.startswith("rms"):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return F.layer_norm(x, x.shape[-1:])
