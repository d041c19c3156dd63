"""Cross-attention: queries from one sequence, keys and values from another, of the same length and of another."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from mha.checking.diagnosis import Observation, explain
from mha.checking.formula import RIGHT, Formula, attend
from mha.checking.report import Finding, Part
from mha.checking.trial import Stopped, Trial
from mha.reading.layouts import Reading


def check_cross_attention(
    trial: Trial, weights: Mapping[str, Tensor], formula: Formula = RIGHT
) -> tuple[list[Part], list[Finding], list[str]]:
    """Run a layer that takes keys and values apart from queries, with as many of them and with more.

    Args:
        trial: the layer.
        weights: role -> float64 values.
        formula: what it computes for self-attention: right, or wrong in a known way.

    Args:
        trial: the layer.
        weights: role -> float64 values.
        formula: what it computes for self-attention: right, or wrong in a known way.

    Returns:
        The parts, what is wrong, and what the layer refused.
    """
    parts, findings, limits = [], [], []
    seq_len = trial.shape.seq_len
    for num_keys, name, is_one in (
        (seq_len, "cross-attention", False),
        (seq_len + 4, "cross-attention with more keys than queries", False),
        (max(1, seq_len - 3), "cross-attention with fewer keys than queries", False),
        (seq_len, "cross-attention with one tensor for keys and values", True),
    ):
        generator = torch.Generator().manual_seed(trial.how.seed + 5)
        sides = [
            torch.randn(trial.x.shape[0], num_keys, trial.x.shape[-1], generator=generator).to(trial.x)
            for _ in range(1 if trial.calling.context is not None else 2)
        ]
        if is_one and len(sides) == 1:
            continue  # a context is one tensor in any case
        if is_one:  # layers have a way of their own for it
            sides[1] = sides[0]
        try:
            output = trial.run(None, *sides)
        except Stopped as stop:
            limits.append(f"not checked: {name} ({stop})")
            continue
        key, value = sides[0], sides[-1]
        seen = Observation.of([trial.x, key, value], output, trial.shape.num_heads)
        truth = attend(formula, weights, trial.shape.num_heads, *(x.cpu().double() for x in (trial.x, key, value)))
        error = float((output.cpu().double() - truth).abs().max()) if output.shape == truth.shape else math.nan
        if seen.is_given_by(formula, weights):
            parts.append(Part(name, "pass", error, None, "right to within rounding of the float64 truth"))
            continue
        found = explain(seen, [(Reading((), (), {}), weights)], base=formula)
        if found is None and not trial.calling.needs_sides:  # such as a context that is put before the layer's own keys
            limits.append(f"not checked: {name} ({trial.calling.side_names} is not taken as keys and values alone)")
            continue
        parts.append(Part(name, "fail", error, None, f"off the float64 truth by up to {error:.2e}"))
        for fault in found.faults if found is not None else ():
            finding = Finding(fault.name, fault.told(trial.shape.d_model, trial.shape.num_heads))
            if finding not in findings:
                findings.append(finding)
    return parts, findings, limits
