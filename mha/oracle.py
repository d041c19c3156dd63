"""The truth to measure errors against: self-attention in float64 on the CPU, written as the formula stands."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mha.slots import slots

# Score elements (batch x heads x query rows x keys) held at once: 2^22 doubles are 32 MiB.
BLOCK_ELEMENTS = 2**22
# Score elements computed in all where no rows are asked for: about a second's work on one core at 2^26.
TOTAL_ELEMENTS = 2**26


@dataclass(frozen=True)
class AttentionWeights:
    """The four projections of a layer, float64 on the CPU: weights (E, E), out x in; biases (E,) or None."""

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    w_o: Tensor
    b_q: Tensor | None = None
    b_k: Tensor | None = None
    b_v: Tensor | None = None
    b_o: Tensor | None = None

    @classmethod
    def of(cls, layer: nn.Module) -> AttentionWeights:
        """Read a layer's weights, as copies, by role.

        Raises:
            UnknownLayoutError: where the layer's layout is unknown (see :mod:`mha.transplant`).
        """
        return cls(**{role: slot.tensor.cpu().to(torch.float64, copy=True) for role, slot in slots(layer).items()})


@dataclass(frozen=True)
class Oracle:
    """The true output at some query rows: ``output`` (B, R, E) float64, ``rows`` their R indices into seq_len."""

    output: Tensor
    rows: Tensor


def oracle(
    x: Tensor, weights: AttentionWeights, num_heads: int, *, causal: bool = False, rows: Tensor | None = None
) -> Oracle:
    """Compute self-attention in float64, blockwise over query rows, so that memory stays bounded.

    Per head: ``softmax(q k^T / sqrt(D) + mask) v``, heads side by side, times ``w_o^T``; every product plus its bias.

    Args:
        x: (B, S, E), any dtype and device; its values are taken as they are.
        weights: the four projections.
        num_heads: H; D = E / H.
        causal: a query sees no key after it.
        rows: query rows to compute (R,); None takes all where the scores have at most :data:`TOTAL_ELEMENTS` elements,
            else as many as that allows, at least two, evenly spaced from the first to the last.

    Raises:
        ValueError: where ``num_heads`` does not divide d_model.
    """
    batch_size, seq_len, d_model = x.shape
    if d_model % num_heads:
        raise ValueError(f"num_heads must divide d_model, got d_model={d_model} and num_heads={num_heads}")
    if rows is None:
        rows = _sample_rows(seq_len, batch_size * num_heads * seq_len)
    x = x.detach().cpu().double()
    k = _heads(_project(x, weights.w_k, weights.b_k), num_heads)  # (B, H, S, D)
    v = _heads(_project(x, weights.w_v, weights.b_v), num_heads)
    rows_at_once = max(1, BLOCK_ELEMENTS // max(1, batch_size * num_heads * seq_len))
    blocks = []
    for block in torch.split(rows, rows_at_once):
        q = _heads(_project(x[:, block], weights.w_q, weights.b_q), num_heads)  # (B, H, R, D)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_model // num_heads)  # (B, H, R, S)
        if causal:
            scores.masked_fill_(torch.arange(seq_len) > block.unsqueeze(1), -math.inf)
        context = torch.softmax(scores, -1) @ v  # (B, H, R, D)
        merged = context.transpose(1, 2).reshape(batch_size, len(block), d_model)
        blocks.append(_project(merged, weights.w_o, weights.b_o))
    return Oracle(torch.cat(blocks, 1), rows)


def _sample_rows(seq_len: int, elements_per_row: int) -> Tensor:
    affordable = max(2, TOTAL_ELEMENTS // max(1, elements_per_row))
    if affordable >= seq_len:
        return torch.arange(seq_len)
    return torch.linspace(0, seq_len - 1, affordable, dtype=torch.float64).round().long()


def _project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    projected = x @ weight.t()
    return projected if bias is None else projected + bias


def _heads(x: Tensor, num_heads: int) -> Tensor:
    batch_size, length, d_model = x.shape
    return x.view(batch_size, length, num_heads, d_model // num_heads).transpose(1, 2)
