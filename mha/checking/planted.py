"""The check checked: known faults planted in a right layer, and how many of them it names.

The layers here are written out by hand, step by step, and share no code with the formula that faults are told by.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mha.consistency import check_consistency


class PlainAttention(nn.Module):
    """Self-attention in the plainest words: four ``nn.Linear``, every step a method that a fault can replace."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, (B, S, E) each."""
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def split(self, x: Tensor) -> Tensor:
        """Into heads: (B, S, E) -> (B, H, S, D)."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, -1).transpose(1, 2)

    def scaled(self, scores: Tensor) -> Tensor:
        """The scores as the softmax takes them."""
        return scores / math.sqrt(self.head_dim)

    def masked(self, scores: Tensor) -> Tensor:
        """The scores with what must not be seen kept out."""
        return scores

    def attn_weights(self, scores: Tensor) -> Tensor:
        """How much each query takes of each value."""
        return scores.softmax(-1)

    def merge(self, context: Tensor) -> Tensor:
        """Heads side by side: (B, H, S, D) -> (B, S, E)."""
        return context.transpose(1, 2).flatten(2)

    def out(self, context: Tensor, x: Tensor) -> Tensor:
        """The output projection."""
        output: Tensor = self.out_proj(context)
        return output

    def forward(self, x: Tensor) -> Tensor:
        """Attend: (B, S, E) -> (B, S, E)."""
        q, k, v = (self.split(part) for part in self.project(x))
        attn_weights = self.attn_weights(self.masked(self.scaled(q @ k.transpose(-2, -1))))
        return self.out(self.merge(attn_weights @ v), x)


class _SequenceFirst(PlainAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


class _KeysFromQuery(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.inner = PlainAttention(d_model, num_heads)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output: Tensor = self.inner(query)
        return output


class _Grouped(PlainAttention):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.k_proj, self.v_proj = (nn.Linear(d_model, self.head_dim) for _ in range(2))

    def split(self, x: Tensor) -> Tensor:
        heads = super().split(x) if x.shape[-1] != self.head_dim else x.unsqueeze(1)
        return heads.expand(-1, self.num_heads, -1, -1)


class _Shared(PlainAttention):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(self.head_dim, self.head_dim) for _ in range(3))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads = x.view(*x.shape[:-1], self.num_heads, -1)
        q, k, v = (projection(heads).flatten(-2) for projection in (self.q_proj, self.k_proj, self.v_proj))
        return q, k, v


class _NormInside(PlainAttention):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.norm = nn.LayerNorm(d_model)

    def out(self, context: Tensor, x: Tensor) -> Tensor:
        output: Tensor = self.norm(self.out_proj(context))
        return output


def _with(**steps: Callable[..., object]) -> type[PlainAttention]:
    """The plain layer with some of its steps replaced."""
    return type("Planted", (PlainAttention,), steps)


def _past(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()


def _unbiased(linear: nn.Linear, x: Tensor) -> Tensor:
    return x @ linear.weight.t()


# Name of the fault -> a layer that has it.
PLANTED: dict[str, type[nn.Module]] = {
    "scale-d-model": _with(scaled=lambda self, s: s / math.sqrt(self.num_heads * self.head_dim)),
    "scale-num-heads": _with(scaled=lambda self, s: s / math.sqrt(self.num_heads)),
    "scale-missing": _with(scaled=lambda self, s: s),
    "scale-twice": _with(scaled=lambda self, s: s / math.sqrt(self.head_dim) / math.sqrt(self.head_dim)),
    "softmax-axis": _with(attn_weights=lambda self, s: s.softmax(-2)),
    "split-without-transpose": _with(
        split=lambda self, x: x.reshape(x.shape[0], self.num_heads, x.shape[1], self.head_dim)
    ),
    "merge-without-transpose": _with(merge=lambda self, c: c.reshape(c.shape[0], c.shape[2], -1)),
    "batch-sequence-swapped": _SequenceFirst,
    "bias-ignored": _with(
        project=lambda self, x: tuple(_unbiased(p, x) for p in (self.q_proj, self.k_proj, self.v_proj)),
        out=lambda self, c, x: _unbiased(self.out_proj, c),
    ),
    "no-output-projection": _with(out=lambda self, c, x: c),
    "keys-values-swapped": _with(project=lambda self, x: (self.q_proj(x), self.v_proj(x), self.k_proj(x))),
    "mask-inverted": _with(masked=lambda self, s: s.masked_fill(_past(s), -math.inf)),
    "mask-multiplied": _with(masked=lambda self, s: s * _past(s)),
    "residual-inside": _with(out=lambda self, c, x: x + self.out_proj(c)),
    "norm-inside": _NormInside,
    "dropout-in-eval": _with(attn_weights=lambda self, s: F.dropout(s.softmax(-1), 0.1)),
    "heads-ignored": _with(
        split=lambda self, x: x.unsqueeze(1),
        scaled=lambda self, s: s / math.sqrt(self.num_heads * self.head_dim),
    ),
    "shared-projection": _Shared,
    "keys-values-from-query": _KeysFromQuery,
    "grouped-query": _Grouped,
    "non-finite": _with(attn_weights=lambda self, s: s.masked_fill(s == s.amax(), math.inf).softmax(-1)),
}


@functools.cache
def planted_faults_caught() -> tuple[int, int]:
    """Check every planted layer and count those whose fault is named and whose verdict is not pass.

    Returns:
        How many were caught, and how many were planted. Run once in a process: nothing in it changes.
    """
    caught = [name for name, layer in PLANTED.items() if is_caught(name, layer)]
    return len(caught), len(PLANTED)


def is_caught(name: str, layer: type[nn.Module]) -> bool:
    """Whether the check names this fault in this layer."""
    report = check_consistency(layer, d_model=15, num_heads=3, batch_size=2, seq_len=7, probes=False)
    return report.verdict != "pass" and name in [finding.fault for finding in report.diagnosis]
