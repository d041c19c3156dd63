"""One attention written in many hands: the same result, other operators, and how many products each role has.

Each is a function of the input (B, S, E), four weights (E, E) stored (out, in), and the number of heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Hand = Callable[..., Tensor]


def _split(t: Tensor, heads: int) -> Tensor:
    return t.view(*t.shape[:2], heads, -1).transpose(1, 2)


def _joined(context: Tensor) -> Tensor:
    return context.transpose(1, 2).reshape(context.shape[0], context.shape[2], -1)


def separate(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """Three projections, batched heads, the scores scaled."""
    query, key, value = (_split(F.linear(x, w), heads) for w in (q, k, v))
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    return F.linear(_joined(scores.softmax(-1) @ value), o)


def packed(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """One projection for all three."""
    parts = F.linear(x, torch.cat([q, k, v])).chunk(3, -1)
    query, key, value = (_split(part, heads) for part in parts)
    scores = query / math.sqrt(query.shape[-1]) @ key.transpose(-1, -2)
    return F.linear(_joined(scores.softmax(-1) @ value), o)


def einsum(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """Each product by its letters."""
    query, key, value = (torch.einsum("bse,hde->bshd", x, w.view(heads, -1, w.shape[-1])) for w in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.shape[-1])
    context = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value)
    return torch.einsum("bqhd,ehd->bqe", context, o.view(o.shape[0], heads, -1))


def head_by_head(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """Each head goes its whole way in turn, to the end of the output projection."""
    out = torch.zeros_like(x)
    parts = zip(*(w.chunk(heads, 0) for w in (q, k, v)), o.chunk(heads, 1), strict=True)
    for head_q, head_k, head_v, head_o in parts:
        query, key, value = F.linear(x, head_q), F.linear(x, head_k), F.linear(x, head_v)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        out = out + F.linear(scores.softmax(-1) @ value, head_o)
    return out


def stacked_heads(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """The scores of each head by themselves, then one softmax over all."""
    query, key, value = (_split(F.linear(x, w), heads) for w in (q, k, v))
    scores = torch.stack([query[:, h] @ key[:, h].transpose(-1, -2) for h in range(heads)], 1)
    weights = (scores / math.sqrt(query.shape[-1])).softmax(-1)
    return F.linear(torch.cat([weights[:, h] @ value[:, h] for h in range(heads)], -1), o)


def in_blocks(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """Three queries at a time, each block with a softmax of its own."""
    query, key, value = (_split(F.linear(x, w), heads) for w in (q, k, v))
    blocks = [
        (block @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1) @ value for block in query.split(3, 2)
    ]
    return F.linear(_joined(torch.cat(blocks, 2)), o)


def blocks_projected_late(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """As in blocks, but the queries of a block are projected when it is its turn."""
    key, value = (_split(F.linear(x, w), heads) for w in (k, v))
    blocks = []
    for rows in x.split(3, 1):
        query = _split(F.linear(rows, q), heads)
        blocks.append((query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1) @ value)
    return F.linear(_joined(torch.cat(blocks, 2)), o)


def sequence_by_sequence(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """Each sequence of the batch goes its whole way in turn."""
    return torch.cat([separate(one, q, k, v, o, heads) for one in x.split(1)])


def softmax_by_hand(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """The softmax from exponentials."""
    query, key, value = (_split(F.linear(x, w), heads) for w in (q, k, v))
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return F.linear(_joined(weights / weights.sum(-1, keepdim=True) @ value), o)


def transposed_scores(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """Keys by queries, the weights turned afterwards."""
    query, key, value = (_split(F.linear(x, w), heads) for w in (q, k, v))
    scores = key @ query.transpose(-1, -2) / math.sqrt(query.shape[-1])
    return F.linear(_joined(scores.softmax(-2).transpose(-1, -2) @ value), o)


def values_projected_late(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """The values are projected after the softmax."""
    query, key = (_split(F.linear(x, w), heads) for w in (q, k))
    weights = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1)
    return F.linear(_joined(weights @ _split(F.linear(x, v), heads)), o)


def fused(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, heads: int) -> Tensor:
    """One kernel from the scores to the weighted sum."""
    return F.linear(_joined(F.scaled_dot_product_attention(*(_split(F.linear(x, w), heads) for w in (q, k, v)))), o)


# Products per call with `h` heads, `b` sequences and `n` blocks: projections, scores, weighted sum, output projection.
HANDS: dict[Hand, Callable[[int, int, int], tuple[int, int, int, int]]] = {
    separate: lambda h, b, n: (3, 1, 1, 1),
    packed: lambda h, b, n: (1, 1, 1, 1),
    einsum: lambda h, b, n: (3, 1, 1, 1),
    head_by_head: lambda h, b, n: (3 * h, h, h, h),
    stacked_heads: lambda h, b, n: (3, h, h, 1),
    in_blocks: lambda h, b, n: (3, n, n, 1),
    blocks_projected_late: lambda h, b, n: (2 + n, n, n, 1),
    sequence_by_sequence: lambda h, b, n: (3 * b, b, b, b),
    softmax_by_hand: lambda h, b, n: (3, 1, 1, 1),
    transposed_scores: lambda h, b, n: (3, 1, 1, 1),
    values_projected_late: lambda h, b, n: (3, 1, 1, 1),
    fused: lambda h, b, n: (3, 0, 0, 1),
}
