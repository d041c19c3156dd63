"""The gradients of a layer's input and weights, held against the official layer's and float64's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mha.formula import Formula, attend
from mha.layouts import Reading
from mha.report import GradientComparison
from mha.slots import slots
from mha.trial import Stopped, Trial, called

# A layer's gradients may be this many times as far from the truth as the official layer's.
GRADIENT_RATIO_TOLERANCE = 3.0

INPUT = "input"


def compare_gradients(trial: Trial, reading: Reading | None, formula: Formula) -> list[GradientComparison]:
    """Compare the gradients of a random weighting of the output, in train mode with every ``nn.Dropout`` at rest.

    The rule is that of :func:`mha.comparison.compare_outputs`, gradient by gradient, with three times the official
    layer's own error allowed; rounding is that of the largest gradient among the weights, or of the input's.

    Args:
        trial: the layer at a small shape: the float64 truth is computed whole.
        reading: how its weights are read; None for a layer that loaded the official one.
        formula: what the layer computes, causal or not.

    Raises:
        Stopped: where the layer raises, or its output takes no gradient.
    """
    generator = torch.Generator().manual_seed(trial.how.seed + 2)
    upstream = torch.randn(tuple(trial.x.shape), generator=generator)
    truth = _true_gradients(trial, reading, formula, upstream.double())
    theirs = _official_gradients(trial, reading, formula, upstream)
    mine = _layer_gradients(trial, reading, upstream)
    labels = _labels(reading)
    largest = max(float(truth[name].abs().max()) for name in truth if name != INPUT)
    eps = torch.finfo(trial.dtype).eps
    found = []
    for name, true in truth.items():
        if name not in mine:
            continue
        scale = float(true.abs().max()) if name == INPUT else largest
        found.append(_compared(labels.get(name, name), mine[name], theirs[name], true, eps * scale))
    return found


def _compared(name: str, mine: Tensor | None, theirs: Tensor, true: Tensor, rounding: float) -> GradientComparison:
    if mine is None:
        return GradientComparison(name, math.nan, math.nan, "fail")
    error = float((mine - true).abs().max())
    allowed = float((theirs - true).abs().max()) + rounding
    difference = float((mine - theirs).abs().max())
    ratio = error / allowed if allowed else (0.0 if error == 0 else math.inf)
    passed = math.isfinite(error) and ratio <= GRADIENT_RATIO_TOLERANCE
    return GradientComparison(name, difference, ratio, "pass" if passed else "fail")


def _true_gradients(trial: Trial, reading: Reading | None, formula: Formula, upstream: Tensor) -> dict[str, Tensor]:
    x = trial.x.detach().cpu().double().requires_grad_()
    weights = {role: values.requires_grad_() for role, values in trial.weights(reading).items()}
    output = attend(formula, weights, trial.shape.num_heads, x)
    found = torch.autograd.grad(_weighted(output, upstream), [x, *weights.values()], allow_unused=True)
    values = [torch.zeros_like(w) if g is None else g for w, g in zip([x, *weights.values()], found)]  # noqa: B905
    return dict(zip([INPUT, *weights], values))  # noqa: B905


def _official_gradients(trial: Trial, reading: Reading | None, formula: Formula, upstream: Tensor) -> dict[str, Tensor]:
    """By role, each the official layer's; of the two ways to call it the one that it has by default."""
    roles = trial.weights(reading)
    official = trial.official(reading, bias=any(role.startswith("b_") for role in roles)).train()
    x = trial.x.detach().clone().requires_grad_()
    mask = None
    if formula.pattern == "causal":
        seq_len = trial.shape.seq_len
        mask = torch.full((seq_len, seq_len), -math.inf, dtype=trial.dtype, device=x.device).triu(1)
    with torch.enable_grad():
        output = official(x, x, x, attn_mask=mask)[0]
        _weighted(output, upstream).backward()  # type: ignore[no-untyped-call]
    gradients = {INPUT: _plain(x.grad)}
    stand_in = _with_gradients_for_weights(official)
    gradients.update({role: _plain(slot.tensor) for role, slot in slots(stand_in).items()})
    return gradients


def _with_gradients_for_weights(official: nn.MultiheadAttention) -> nn.MultiheadAttention:
    """The same layer with its gradients in place of its weights, so that they are found by role as these are."""
    with torch.no_grad():
        for parameter in official.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    return official


def _layer_gradients(trial: Trial, reading: Reading | None, upstream: Tensor) -> dict[str, Tensor | None]:
    layer = trial.layer
    dropouts = [module for module in layer.modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    before = [module.p for module in dropouts]
    for parameter in layer.parameters():
        parameter.grad = None
    layer.train()
    for module in dropouts:
        module.p = 0.0
    try:
        gradients = _backward(trial, upstream)
    finally:
        layer.eval()
        for module, p in zip(dropouts, before):  # noqa: B905 - Python 3.8 has no strict=
            module.p = p
    found: dict[str, Tensor | None] = {INPUT: gradients[INPUT]}
    if reading is None or reading.is_shared:
        return found
    named: dict[str, Any] = {name: gradients[name] for name, _ in layer.named_parameters()}
    for one in reading.stored:
        missing = any(named.get(name) is None for name in one.names)
        values = None if missing else one.read(named, reading.sizes)
        for role in one.roles:
            key = f"{one.kind}_{role}"
            found[key] = None if values is None else values[key]
    return found


def _backward(trial: Trial, upstream: Tensor) -> dict[str, Tensor | None]:
    """The layer's gradients by parameter name, float64; None where none arrived."""
    x = trial.x.detach().clone().requires_grad_()
    torch.manual_seed(trial.how.seed)
    with torch.enable_grad():
        output = called(trial.calling, trial.layer, x * 1.0, **trial.extra)
        if not output.requires_grad:
            raise Stopped("fail", "the output takes no gradient: the layer computes under torch.no_grad() or detaches")
        try:
            _weighted(output, upstream).backward()  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever a user's backward raises is the answer
            raise Stopped("error", f"the layer's backward raised {type(error).__name__}: {error}") from error
    gradients: dict[str, Tensor | None] = {INPUT: None if x.grad is None else _plain(x.grad)}
    for name, parameter in trial.layer.named_parameters():
        gradients[name] = None if parameter.grad is None else _plain(parameter.grad)
    return gradients


def _weighted(output: Tensor, upstream: Tensor) -> Tensor:
    """A number whose gradient by the output is ``upstream``: with that as argument, backward imports sympy first."""
    return (output * upstream.to(output)).sum()


def _labels(reading: Reading | None) -> Mapping[str, str]:
    """Role -> the layer's own name for it; packed roles with the role behind it."""
    if reading is None:
        return {}
    found = {}
    for one in reading.stored:
        for role in one.roles:
            found[f"{one.kind}_{role}"] = one.label if len(one.roles) == 1 else f"{one.label} ({role})"
    return found


def _plain(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor.detach().cpu().double()
