"""Why a layer's output differs: which reading of its weights and which known fault reproduce it.

Nothing is guessed. A reading and a fault are told only where the formula with that fault, in float64 and from the
layer's own weights, gives the layer's output, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mha.checking.faults import Fault, variants
from mha.checking.formula import RIGHT, Formula, attend
from mha.reading.layouts import Reading

# Relative to the largest true value. Far above rounding at the small shapes this is run at, far below any real fault.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}

# How many readings, the likeliest first, are tried with one fault, and with two.
READINGS_FOR_ONE_FAULT = 16
READINGS_FOR_TWO_FAULTS = 3


@dataclass(frozen=True)
class Observation:
    """One run of a layer, in float64 on the CPU.

    Attributes:
        query, key, value: what it was given, (B, S, E); key and value None for self-attention.
        output: what it gave, (B, S, E).
        num_heads: what it was built with.
        dtype: what it computed in.
        allowed: the mask it was given, (S, T) or (B, 1, S, T), True where a query may see a key; None for none.
    """

    query: Tensor
    key: Tensor | None
    value: Tensor | None
    output: Tensor
    num_heads: int
    dtype: torch.dtype
    allowed: Tensor | None = None

    @classmethod
    def of(cls, inputs: Sequence[Tensor], output: Tensor, num_heads: int, allowed: Tensor | None = None) -> Observation:
        """One run with one input, or with three: query, key and value."""
        dtype = inputs[0].dtype  # what it computes in, whatever it returns
        query, *sides = (x.detach().cpu().double() for x in inputs)
        key, value = sides if sides else (None, None)
        allowed = None if allowed is None else allowed.cpu()
        return cls(query, key, value, output.detach().cpu().double(), num_heads, dtype, allowed)

    def is_given_by(self, formula: Formula, weights: Mapping[str, Tensor]) -> bool:
        """Whether a formula with these weights (float64) gives the output."""
        try:
            truth = attend(formula, weights, self.num_heads, self.query, self.key, self.value, self.allowed)
        except RuntimeError:  # sizes that this variant cannot have, such as a batch in place of a sequence
            return False
        return equals(self.output, truth, TOLERANCES.get(self.dtype, 1e-4))


@dataclass(frozen=True)
class Explanation:
    """What reproduces a layer: a reading of its weights, a formula, and the faults in that formula, perhaps none."""

    reading: Reading
    faults: tuple[Fault, ...]
    formula: Formula


def equals(output: Tensor, truth: Tensor, tolerance: float) -> bool:
    """Whether two tensors agree to a share of the largest true value, and are NaN at the same places."""
    if output.shape != truth.shape:
        return False
    farthest = float((output - truth).abs().max())
    if math.isfinite(farthest):
        return farthest <= tolerance * float(truth.abs().max())
    defined = torch.isfinite(truth)
    if not torch.equal(defined, torch.isfinite(output)) or not bool(defined.any()):
        return False
    return equals(output[defined], truth[defined], tolerance)


def explain(
    seen: Observation,
    readings: Sequence[tuple[Reading, Mapping[str, Tensor]]],
    *,
    base: Formula = RIGHT,
    only: Formula | None = None,
) -> Explanation | None:
    """Find what reproduces an output: no fault with any reading, else one, two or three; None where nothing does.

    Args:
        seen: the run to explain.
        readings: each with the weights that it reads, role -> float64; the likeliest first.
        base: the right formula, causal or not.
        only: nothing but this formula is tried.
    """
    if only is not None:
        reading = next((one for one, weights in readings if seen.is_given_by(only, _complete(weights))), None)
        return None if reading is None else Explanation(reading, (), only)
    complete = [(reading, _complete(weights)) for reading, weights in readings]
    for reading, weights in complete:
        if seen.is_given_by(base, weights):
            return Explanation(reading, (), base)
    # Two faults in the likeliest reading before one fault in an unlikely one: the reading is seldom the matter.
    for count, some in (
        (1, complete[:1]),
        (2, complete[:1]),
        (3, complete[:1]),
        (1, complete[1:READINGS_FOR_ONE_FAULT]),
        (2, complete[1:READINGS_FOR_TWO_FAULTS]),
    ):
        for reading, weights in some:
            found = _first_match(seen, reading, weights, base, count)
            if found is not None:
                return found
    return None


def _first_match(
    seen: Observation, reading: Reading, weights: Mapping[str, Tensor], base: Formula, count: int
) -> Explanation | None:
    """The first combination of so many faults that gives the output with this reading."""
    has_bias = any(role.startswith("b_") for role in weights)
    width = seen.query.shape[-1]
    is_finite = bool(torch.isfinite(seen.output).all())
    known = variants(count, width, seen.num_heads, base, has_bias=has_bias, is_cross=seen.key is not None)
    for faults, formula in known:
        if (is_finite or formula.may_be_nan) and seen.is_given_by(formula, weights):
            return Explanation(reading, faults, formula)
    return None


def _complete(weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """With an output projection that no layer has, where there is none: only a formula that leaves it out fits."""
    if "w_o" in weights:
        return weights
    width = weights["w_q"].shape[0]
    generator = torch.Generator().manual_seed(0)
    return {**weights, "w_o": torch.randn(width, width, generator=generator, dtype=torch.float64)}
