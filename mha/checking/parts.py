"""The parts of a check besides self-attention's output: gradients, cross-attention, masks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from mha.checking.crossing import check_cross_attention
from mha.checking.diagnosis import Observation
from mha.checking.formula import CAUSAL, RIGHT
from mha.checking.gradients import compare_gradients
from mha.checking.identification import Identity
from mha.checking.masks import check_mask
from mha.checking.report import Finding, GradientComparison, Part
from mha.checking.reuse import check_other_heads, check_reuse
from mha.checking.side_by_side import compare_at
from mha.checking.surroundings import threads_for
from mha.checking.trial import Stopped, Trial
from mha.checking.wording import short
from mha.reading.building import takes_option
from mha.reading.usual_names import DROPOUT_NAMES

BESIDE = "beside the verdict: "  # begins the name of a part that does not decide


@dataclass
class Parts:
    """What was found in the parts: their verdicts, what is wrong, what could not be run, and the gradients."""

    parts: list[Part] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    gradients: list[GradientComparison] = field(default_factory=list)

    def add(self, part: Part, findings: list[Finding] | tuple[Finding, ...] = ()) -> None:
        """Take in a part; one that could not be run limits the verdict."""
        self.parts.append(part)
        self.findings += [finding for finding in findings if finding not in self.findings]
        if part.verdict == "error":
            self.limits.append(f"not checked: {part.part} ({part.reason})")


def check_parts(identity: Identity, *, gradients: bool) -> Parts:
    """Check gradients, cross-attention and masks at the small shape, of a layer whose output is right there."""
    with threads_for(identity.trial.shape):
        return _check_parts(identity, gradients)


def _check_parts(identity: Identity, gradients: bool) -> Parts:
    found, trial = Parts(), identity.trial
    weights = trial.weights(identity.reading)
    found.add(*check_reuse(identity))
    other_heads = check_other_heads(identity)
    if other_heads is not None:
        found.add(other_heads)
    if gradients:
        _check_gradients(identity, found)
    if trial.calling.takes_keys_and_values and identity.base is RIGHT:
        parts, findings, limits = check_cross_attention(trial, weights)
        for part in parts:
            found.add(part, findings)
        found.limits += limits
    if trial.calling.others:
        found.limits.append(f"not checked: what {', '.join(trial.calling.others)} of its forward does")
    for flag in trial.calling.causal_flags if identity.base is RIGHT else ():
        found.add(_check_switch(identity, flag))
    dropout = _check_dropout(identity)
    if dropout is not None:
        found.add(*dropout)
    for argument in trial.calling.masks + trial.calling.paddings:
        if argument in trial.extra:
            continue
        padding = argument in trial.calling.paddings
        part, _, wrong = check_mask(trial, weights, argument, identity.base, padding=padding)
        if part.verdict == "error" and not padding:  # some call it a mask and mean padding
            again, _, wrong_again = check_mask(trial, weights, argument, identity.base, padding=True)
            part, wrong = (again, wrong_again) if again.verdict != "error" else (part, wrong)
        found.add(part, wrong)
    return found


def _check_switch(identity: Identity, flag: str) -> Part:
    """The switch that makes a layer causal in a call."""
    trial, name = identity.trial, f"switch ({flag}=True)"
    switch: dict[str, Any] = {flag: True}
    try:
        output = trial.run(None, **switch)
    except Stopped as stop:
        return Part(name, "error", None, None, str(stop))
    seen = Observation.of([trial.x], output, trial.shape.num_heads)
    weights = trial.weights(identity.reading)
    if seen.is_given_by(CAUSAL, weights):
        return Part(name, "pass", None, None, f"{flag}=True makes it causal")
    ignored = " (it is ignored)" if seen.is_given_by(RIGHT, weights) else ""
    return Part(name, "fail", None, None, f"with {flag}=True it is not the official layer's causal call{ignored}")


def _check_dropout(identity: Identity) -> tuple[Part, list[Finding]] | None:
    """A layer that takes a dropout, built with one: in eval mode it must not be at work."""
    how = identity.trial.how
    if not takes_option(how.target, DROPOUT_NAMES):
        return None
    name = "dropout of 0.3, eval mode"
    try:
        Trial.of(how._replace(dropout=0.3), identity.trial.shape, identity.trial.dtype).run_twice()
    except Stopped as stop:
        verdict = "fail" if stop.verdict == "fail" else "error"
        return Part(name, verdict, None, None, str(stop)), list(stop.findings)
    return Part(name, "pass", None, None, "two runs agree"), []


def check_dtypes(identity: Identity, dtype: torch.dtype, *, need_weights: bool | None) -> list[Part]:
    """Compare in the other dtypes of use, at the small shape: told beside the verdict, which is for its own dtype."""
    parts = []
    for other in (torch.float32, torch.bfloat16, torch.float16):
        if other == dtype:
            continue
        name = f"{BESIDE}{short(other)}"
        try:
            found, _ = compare_at(identity, identity.trial.shape, other, need_weights=need_weights)
        except Stopped as stop:
            parts.append(Part(name, "error", None, None, str(stop)))
            continue
        parts.append(Part(name, found.verdict, found.max_abs_error, found.error_ratio, found.reason))
    return parts


def more_in_cross_attention(identity: Identity, known: list[Finding]) -> list[Finding]:
    """Faults that show in cross-attention only, in a layer of which another fault is known already."""
    trial, explanation = identity.trial, identity.explanation
    if explanation is None or not trial.calling.takes_keys_and_values or identity.base is not RIGHT:
        return []
    weights = trial.weights(identity.reading)
    with threads_for(trial.shape):
        _, findings, _ = check_cross_attention(trial, weights, explanation.formula)
    return [finding for finding in findings if finding.fault not in [one.fault for one in known]]


def _check_gradients(identity: Identity, found: Parts) -> None:
    try:
        found.gradients, mode = compare_gradients(identity.trial, identity.reading, identity.base)
    except Stopped as stop:
        found.add(Part("gradients", stop.verdict, None, None, str(stop)), stop.findings)
        return
    wrong = [one for one in found.gradients if one.verdict == "fail"]
    missing = ", ".join(one.name for one in wrong if math.isnan(one.max_abs_error))
    findings = []
    reason = f"of the input and {len(found.gradients) - 1} weights, {mode}"
    if missing:
        reason = f"no gradient, or none that is finite, reaches {missing}"
        sentence = (
            f"No finite gradient reaches {missing}: a detach(), .data or torch.no_grad() on the way cuts it off, or an "
            "operation there has none."
        )
        findings.append(Finding("gradient-missing", sentence))
    elif wrong:
        reason = f"the gradient of {', '.join(one.name for one in wrong)} differs, while the output does not"
    error, ratio = (
        worst([getattr(one, figure) for one in found.gradients]) for figure in ("max_abs_error", "error_ratio")
    )
    found.add(Part("gradients", "fail" if wrong else "pass", error, ratio, reason), findings)


def worst(figures: list[float]) -> float | None:
    """The largest, NaN above all; None where there are none."""
    return max(figures, key=lambda figure: (math.isnan(figure), figure)) if figures else None
