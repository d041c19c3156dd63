"""What a layer's mask means: found out by giving it masks of every usual kind and seeing which one is obeyed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mha.checking.diagnosis import Observation
from mha.checking.formula import Formula
from mha.checking.report import Finding, Part
from mha.checking.trial import Stopped, Trial

# Axes in words -> the shape that is asked for, and the shape (B or 1, H or 1, S or 1, S) that it is cut from.
if TYPE_CHECKING:
    Shapes = dict[str, tuple[tuple[int, ...], tuple[int, ...]]]

# How a mask is written, and what its values mean.
KINDS = {
    "bool-sees": "boolean, True where a query may see a key",
    "bool-hidden": "boolean, True where a key is hidden",
    "additive": "added to the scores, 0 where a query may see a key and -inf where not",
    "one-sees": "numbers, 1 where a query may see a key and 0 where not",
    "one-hidden": "numbers, 1 where a key is hidden and 0 where not",
}

MULTIPLIED = Finding(
    "mask-multiplied",
    "The mask makes scores 0 (multiplied with them, or filled with 0), and a score of 0 still gets weight: fill with "
    "-inf instead, before the softmax.",
)
AFTER_SOFTMAX = Finding(
    "mask-after-softmax",
    "The mask is applied after the softmax, so that the weights no longer sum to 1: fill the scores with -inf before "
    "it.",
)
ON_QUERIES = Finding(
    "mask-on-queries",
    "The padding mask hides queries, not keys: its axis must be that of the keys, the last of the scores, "
    "mask[:, None, None, :] over (batch, num_heads, queries, keys).",
)
IGNORED = Finding("mask-ignored", "The mask is ignored: fill the scores with -inf where it hides a key.")


@dataclass(frozen=True)
class Convention:
    """How a layer takes a mask: the argument, one of :data:`KINDS`, and the axes, such as ``(S, S)``."""

    argument: str
    kind: str
    axes: str

    def told(self) -> str:
        """In words."""
        return f"{self.argument} {self.axes}: {KINDS[self.kind]}"


def written(allowed: Tensor, kind: str, dtype: torch.dtype) -> Tensor:
    """A pattern, True where a query may see a key, as a mask of this kind."""
    if kind == "bool-sees":
        return allowed
    if kind == "bool-hidden":
        return ~allowed
    if kind == "additive":
        return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, -math.inf)
    return (allowed if kind == "one-sees" else ~allowed).to(dtype)


def check_mask(
    trial: Trial, weights: Mapping[str, Tensor], argument: str, base: Formula, *, padding: bool
) -> tuple[Part, Convention | None, list[Finding]]:
    """Find out how a layer takes a mask, by a random pattern, and whether it does with it what a mask is for.

    Args:
        trial: the layer; it must agree with ``base`` without a mask.
        weights: role -> float64 values.
        argument: name of the mask's argument.
        base: what the layer computes without it.
        padding: whether the mask is over keys alone, (B, T), rather than over queries and keys.

    Returns:
        The part, the convention that was found, and what is wrong with the way the mask is applied.
    """
    name = f"key padding mask ({argument})" if padding else f"mask ({argument})"
    allowed, shapes = _padding(trial) if padding else _pattern(trial)
    wrong: tuple[Convention, Finding] | None = None
    raised, was_taken = "", False
    for kind, (axes, shape) in itertools.product(KINDS, shapes.items()):
        convention = Convention(argument, kind, axes)
        try:
            pattern = _cut(allowed, shape[1])
            mask: dict[str, Any] = {argument: written(pattern.reshape(shape[0]), kind, trial.dtype)}
            output = trial.run(**mask)
        except Stopped as stop:
            raised = raised or str(stop)
            continue
        was_taken = True
        seen = Observation.of([trial.x], output, trial.shape.num_heads, _joined(pattern, base))
        if seen.is_given_by(replace(base, pattern="given"), weights):
            return Part(name, "pass", None, None, convention.told()), convention, []
        wrong = wrong or _fault(seen, base, weights, convention)
    if wrong is not None:
        convention, finding = wrong
        return Part(name, "fail", None, None, finding.sentence), None, [finding]
    reason = "none of the usual kinds and shapes hides what it should" if was_taken else f"no call succeeded: {raised}"
    return Part(name, "error", None, None, reason), None, []


def _fault(
    seen: Observation, base: Formula, weights: Mapping[str, Tensor], convention: Convention
) -> tuple[Convention, Finding] | None:
    if convention.kind == "additive":
        return None
    for masking, finding in (("multiplied", MULTIPLIED), ("after-softmax", AFTER_SOFTMAX)):
        for inverted in (False, True):
            allowed = seen.allowed if not inverted or seen.allowed is None else ~seen.allowed
            formula = replace(base, pattern="given", masking=masking)
            if replace(seen, allowed=allowed).is_given_by(formula, weights):
                return convention, finding
    if seen.is_given_by(base, weights):
        return convention, IGNORED
    if seen.allowed is not None and seen.allowed.shape[-2] == 1:  # over keys alone
        turned = seen.allowed.transpose(-1, -2).expand(-1, -1, -1, seen.allowed.shape[-1])
        for allowed, masking in itertools.product((turned, ~turned), ("filled", "finite")):
            if replace(seen, allowed=allowed).is_given_by(replace(base, pattern="given", masking=masking), weights):
                return convention, ON_QUERIES
    return None


def _cut(allowed: Tensor, shape: tuple[int, ...]) -> Tensor:
    """As much of the pattern as a shape has room for: the first of the batch, or of the heads, where it has one."""
    return allowed[: shape[0], : shape[1], : shape[2], : shape[3]]


def _joined(allowed: Tensor, base: Formula) -> Tensor:
    """The pattern, and the causal one besides where the layer is causal by itself; (B, 1, S, S)."""
    seq_len = allowed.shape[-1]
    if base.pattern != "causal":
        return allowed
    return allowed & torch.ones(seq_len, seq_len, dtype=torch.bool, device=allowed.device).tril()


def _pattern(trial: Trial) -> tuple[Tensor, Shapes]:
    """A random pattern (B, H, S, S) in which every position sees itself, and the shapes it may be asked for in."""
    batch_size, seq_len, heads = trial.shape.batch_size, trial.shape.seq_len, trial.shape.num_heads
    generator = torch.Generator().manual_seed(trial.how.seed + 3)
    allowed = torch.rand(batch_size, heads, seq_len, seq_len, generator=generator) < 0.5
    # Every position sees itself: a layer that is causal besides must not be left with nothing.
    allowed = (allowed | torch.eye(seq_len, dtype=torch.bool)).to(trial.x.device)
    square = (seq_len, seq_len)
    full = (batch_size, heads, *square)
    shapes: Shapes = {
        "(S, S)": (square, (1, 1, *square)),
        "(B, S, S)": ((batch_size, *square), (batch_size, 1, *square)),
        "(B, 1, S, S)": ((batch_size, 1, *square), (batch_size, 1, *square)),
        "(1, 1, S, S)": ((1, 1, *square), (1, 1, *square)),
        "(B, H, S, S)": (full, full),
        "(B*H, S, S)": ((batch_size * heads, *square), full),
    }
    return allowed, shapes


def _padding(trial: Trial) -> tuple[Tensor, Shapes]:
    """A pattern over keys (B, 1, 1, S), another for each sequence, the first key always seen."""
    batch_size, seq_len = trial.shape.batch_size, trial.shape.seq_len
    generator = torch.Generator().manual_seed(trial.how.seed + 4)
    allowed = torch.rand(batch_size, seq_len, generator=generator) < 0.6
    allowed[:, 0], allowed[:, -1] = True, False
    whole = (batch_size, 1, 1, seq_len)
    shapes: Shapes = {
        "(B, S)": ((batch_size, seq_len), whole),
        "(B, 1, S)": ((batch_size, 1, seq_len), whole),
        "(B, 1, 1, S)": (whole, whole),
    }
    return allowed.to(trial.x.device)[:, None, None], shapes


def causal_extra(trial: Trial, weights: Mapping[str, Tensor], base: Formula) -> Iterator[dict[str, Any]]:
    """Ways to ask a layer that is not causal by itself to be so in a call: a switch, else a mask."""
    for flag in trial.calling.causal_flags:
        yield {flag: True}
    for argument in trial.calling.masks:
        _, convention, _ = check_mask(trial, weights, argument, base, padding=False)
        if convention is None:
            continue
        seq_len = trial.shape.seq_len
        past = torch.ones(seq_len, seq_len, dtype=torch.bool, device=trial.x.device).tril()[None, None]
        _, shapes = _pattern(trial)
        to, via = shapes[convention.axes]
        yield {argument: written(past.expand(via).reshape(to), convention.kind, trial.dtype)}
