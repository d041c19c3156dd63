"""An output against the reference's and against the float64 oracle: the check columns of a row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mha import Oracle, compare_outputs
from profiling.measuring.contenders.known import Contender


def compare_with(
    reference: str | None,
    name: str,
    outputs: Mapping[str, Tensor],
    truth: Oracle | None,
    *,
    shape: torch.Size,
    dtype: torch.dtype,
    incomparable: str = "",
) -> tuple[dict[str, Any], list[str]]:
    """The check columns of contender `name`, and what a reader of its row should know.

    Args:
        reference: what it is compared with; None for a reference, which is held to the oracle alone.
        name: the contender.
        outputs: contender → output, for those that gave one.
        truth: the oracle; None where it could not be had: then the columns stay empty.
        shape: (B, S, E), which every output has to have.
        dtype: what the layers compute in; the tolerance follows it.
        incomparable: why its output cannot be compared at all; empty where it can.
    """
    output = outputs[name]
    if incomparable:
        return {"check_verdict": "not-comparable"}, [incomparable]
    if output.shape != shape:
        return {"check_verdict": "fail"}, [f"its output has shape {tuple(output.shape)}, not {tuple(shape)}"]
    if not output.is_floating_point():
        return {"check_verdict": "error"}, [f"its output is of {output.dtype}: real numbers were expected"]
    if truth is None:
        return {}, []
    standard = outputs.get(reference, output) if reference else output
    found = compare_outputs(output, standard, truth, dtype)
    cells: dict[str, Any] = {"max_abs_error_oracle": _or_infinite(found.max_abs_error_oracle)}
    if reference not in outputs:
        return cells, []
    cells["max_abs_error"] = _or_infinite(found.max_abs_error)
    cells["error_ratio"] = _or_infinite(found.error_ratio)
    cells["check_verdict"] = found.verdict
    if found.official_is_sane:
        return cells, []
    cells["check_verdict"] = "error"
    return cells, [f"{reference} itself is far from the float64 truth: a layer changed torch for all"]


def stale_output(contender: Contender, first: Tensor) -> str | None:
    """What is wrong with a layer of one's own that does not compute any more once it is timed; None where it does.

    Args:
        contender: the layer, with an input of its own.
        first: its output when it was checked, for the same input.
    """
    x = contender.x
    assert x is not None, "a layer of one's own has an input of its own"
    again = contender.forward().detach().clone()
    if again.shape != first.shape or not torch.allclose(again, first, rtol=1e-2, atol=1e-2, equal_nan=True):
        return "after it was timed it gives another output for the same input: what was timed is not what was checked"
    with torch.no_grad():
        kept = x.clone()
        x.mul_(-0.5)
        other = contender.forward().detach().clone()
        x.copy_(kept)
    if torch.equal(other, again) and bool(again.any()):
        return "it gives the same output for another input: a stored result was timed, not the work"
    return None


def _or_infinite(value: float) -> float:
    # A NaN would read as an empty cell: that is, as not measured.
    return math.inf if math.isnan(value) else value
