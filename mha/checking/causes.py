"""What explains that a layer failed, or why it cannot be compared: findings, else what experiments showed."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F

from mha.checking.diagnosis import Explanation, Observation, explain
from mha.checking.identification import Identity, weights_of
from mha.checking.probes import probe
from mha.checking.report import Finding, Probe, Shape, ShapeComparison
from mha.checking.surroundings import threads_for
from mha.checking.trial import Stopped, Trial
from mha.checking.wording import short
from mha.reading.layouts import Reading

# Beyond this many scores a known fault is not confirmed at a shape: its float64 truth would be too large.
CONFIRM_ELEMENTS = 2**22

NOTHING_KNOWN = "no known fault, alone or with another, reproduces the output"


def findings_of(identity: Identity, asked: Shape) -> list[Finding]:
    """The faults that explain the layer, told for the shape asked for where they give its output there too."""
    found = identity.explanation
    if found is None or not found.faults:
        return []
    shape = identity.trial.shape
    with threads_for(asked):
        if _is_confirmed(identity, found, asked):
            shape = asked
        else:
            at_asked = _fault_at(identity, asked)  # one head of 15 here may be 2 heads of 32 there
            if at_asked:
                return at_asked
    where = "" if shape == asked else f" (Seen at {shape}.)"
    return [Finding(fault.name, fault.told(shape.d_model, shape.num_heads) + where) for fault in found.faults]


def causes_of_failure(
    identity: Identity, failed: ShapeComparison, dtype: torch.dtype
) -> tuple[list[Finding], list[Probe]]:
    """What explains a wrong output that no fault at the small shape does.

    A fault that shows at the shape that failed alone, such as a number of heads that is ignored; numbers that are not
    finite in this dtype; arithmetic that is less precise; else what experiments on the layer showed.
    """
    with threads_for(failed.shape):
        return _causes(identity, failed, dtype)


def _causes(identity: Identity, failed: ShapeComparison, dtype: torch.dtype) -> tuple[list[Finding], list[Probe]]:
    if identity.explanation is not None:
        found = _fault_at(identity, failed.shape)
        if found:
            return found, []
    if failed.comparison.num_non_finite:
        return [non_finite(identity, failed, dtype)], []
    if identity.explanation is None:
        return [], probe(identity.trial, identity.reading)
    if not _is_right_at(identity, failed.shape):
        trial, reading = identity.at(failed.shape, _sharp(dtype))
        return [], probe(trial, reading)
    digits = 9 if dtype == torch.float64 else 4
    return [], [
        Probe(
            "precision",
            f"in {short(_sharp(dtype))} the output is right to {digits} digits, so the formula is right and the "
            "arithmetic less precise than the official layer's: a lower precision somewhere inside, or another order "
            "of sums",
        )
    ]


def finding_of_sharing(identity: Identity, asked: Shape) -> tuple[Finding, str]:
    """Why the official layer's weights have no place in a layer: the design, and the parameter that shows it."""
    trial, reading = identity.trial, identity.reading
    with contextlib.suppress(Stopped):  # where it does not run at the shape asked for, at the small one
        trial, reading = identity.at(asked, _sharp(trial.dtype))
    assert reading is not None
    if reading.is_tied:
        place = "one weight is tied to several roles, and each of the official layer's has its own"
        return Finding("shared-projection", "One weight is used in several roles: give each its own."), place
    shared = next(one for one in reading.stored if one.is_shared)
    shape = tuple(dict(trial.layer.named_parameters())[shared.names[0]].shape)
    place = (
        f"{shared.label} is {shape} at d_model {trial.shape.d_model} with {trial.shape.num_heads} heads: the official "
        "layer's weights have no place there"
    )
    letters = {letter for one in reading.stored for letter in one.letters}
    if "G" in letters:
        heads = reading.sizes["G"]
        sentence = (
            f"Another design, grouped-query attention: {reading.sizes['H']} heads of queries share {heads} "
            f"head{'s' if heads > 1 else ''} of keys and values; the official layer has as many of each."
        )
        return Finding("grouped-query", sentence), place
    if "d" in letters:
        sentence = (
            "One projection of (head_dim, head_dim) is shared by all heads, each on its own slice of the input: "
            "project the whole width with (d_model, d_model), then split into heads."
        )
        return Finding("shared-projection", sentence), place
    return Finding("shared-projection", "Queries, keys and values share one projection: give each its own."), place


def _sharp(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which faults are told apart from rounding."""
    return dtype if dtype == torch.float64 else torch.float32


def _observed(identity: Identity, shape: Shape) -> tuple[Observation, Trial, Reading | None] | None:
    """A run at a shape, in a dtype that tells faults from rounding; None where that is too large, or it raises."""
    if shape.batch_size * shape.num_heads * shape.seq_len**2 > CONFIRM_ELEMENTS:
        return None
    try:
        trial, reading = identity.at(shape, _sharp(identity.trial.dtype))
        return Observation.of([trial.x], trial.run(), shape.num_heads), trial, reading
    except Stopped:
        return None


def _is_confirmed(identity: Identity, found: Explanation, shape: Shape) -> bool:
    observed = _observed(identity, shape)
    if observed is None:
        return False
    seen, trial, reading = observed
    weights = [(found.reading, trial.weights(reading))]
    if explain(seen, weights, only=identity.base) is not None:
        return False  # there the fault cannot show
    return explain(seen, weights, only=found.formula) is not None


def _is_right_at(identity: Identity, shape: Shape) -> bool:
    observed = _observed(identity, shape)
    if observed is None:
        return True
    seen, trial, reading = observed
    assert identity.explanation is not None
    return explain(seen, [(identity.explanation.reading, trial.weights(reading))], only=identity.base) is not None


def _fault_at(identity: Identity, shape: Shape) -> list[Finding]:
    observed = _observed(identity, shape)
    if observed is None:
        return []
    seen, trial, _ = observed
    found = explain(seen, weights_of(trial), base=identity.base)
    faults = found.faults if found is not None else ()
    return [Finding(fault.name, fault.told(shape.d_model, shape.num_heads)) for fault in faults]


def non_finite(identity: Identity, failed: ShapeComparison, dtype: torch.dtype) -> Finding:
    """How many elements are NaN or infinite, and whether scores overflow before they are scaled."""
    sentence = f"{failed.comparison.num_non_finite} elements of the output are NaN or infinite in {short(dtype)}"
    if dtype in (torch.float16, torch.bfloat16):
        trial, reading = identity.at(failed.shape, torch.float32)
        largest, limit = _largest_score(trial, reading), torch.finfo(dtype).max
        if largest > limit and bool(torch.isfinite(trial.run()).all()):
            sentence += (
                f", in float32 none: unscaled scores reach {largest:.3g}, {short(dtype)} ends at {limit:.3g}: they "
                "overflow before they are scaled. Scale the queries, not the scores"
            )
    return Finding("non-finite", sentence + ".")


def _largest_score(trial: Trial, reading: Reading | None) -> float:
    """The largest product of a query and a key before it is scaled, among the first 256 positions."""
    weights, x = trial.weights(reading), trial.x.detach().cpu().double()[:, :256]
    q, k = (
        F.linear(x, weights[f"w_{role}"], weights.get(f"b_{role}"))
        .view(x.shape[0], x.shape[1], trial.shape.num_heads, -1)
        .transpose(1, 2)
        for role in "qk"
    )
    return float((q @ k.transpose(-2, -1)).abs().max())
