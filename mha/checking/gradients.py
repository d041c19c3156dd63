"""The gradients of a layer's input and weights, held against the official layer's and float64's."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mha.checking.conditioning import Problem, largest_moves
from mha.checking.diagnosis import TOLERANCES, equals
from mha.checking.formula import Formula, attend
from mha.checking.report import GradientComparison
from mha.checking.surroundings import dropout_at_rest
from mha.checking.trial import Stopped, Trial, called
from mha.checking.wording import words
from mha.official import call_official, causal_mask
from mha.reading.layouts import Reading, named_parameters, parameters_of
from mha.slots import slots

# A layer's gradients may be this many times as far from the truth as the official layer's.
GRADIENT_RATIO_TOLERANCE = 3.0

INPUT = "input"


def compare_gradients(trial: Trial, reading: Reading | None, formula: Formula) -> tuple[list[GradientComparison], str]:
    """Compare the gradients of a random weighting of the output, in train mode with dropout at rest where it can be.

    The rule is that of :func:`mha.checking.comparison.compare_outputs`, gradient by gradient, with three times the
    official layer's own error allowed; rounding is that of the largest gradient among the weights, or of the input's.
    Where one is further off, the error of the official layer's other program counts as its own as well, and an element
    may be as far off as the truth moves with scores that are off by one rounding (:mod:`mha.checking.conditioning`).

    Args:
        trial: the layer at a small shape: the float64 truth is computed whole.
        reading: how its weights are read; None for a layer that loaded the official one.
        formula: what the layer computes, causal or not.

    Returns:
        The comparisons, and in words the mode that the layer was in.

    Raises:
        Stopped: where the layer raises, or its output takes no gradient.
    """
    generator = torch.Generator().manual_seed(trial.how.seed + 2)
    upstream = torch.randn(tuple(trial.x.shape), generator=generator)
    truth = _true_gradients(trial, reading, formula, upstream.double())
    theirs = _official_gradients(trial, reading, formula, upstream)
    mine, mode = _layer_gradients(trial, reading, upstream)
    labels = _labels(reading)
    largest = max(float(truth[name].abs().max()) for name in truth if name != INPUT)
    eps = torch.finfo(trial.dtype).eps

    def compared(doubt: _Doubt | None) -> list[GradientComparison]:
        found = []
        for name, true in truth.items():
            if name in mine:
                rounding = eps * (float(true.abs().max()) if name == INPUT else largest)
                more = None if doubt is None else (doubt.other[name], doubt.moved[name])
                found.append(_compared(labels.get(name, name), mine[name], theirs[name], true, rounding, more))
        return found

    found = compared(None)
    if any(one.verdict == "fail" and math.isfinite(one.max_abs_error) for one in found):
        other = _official_gradients(trial, reading, formula, upstream, need_weights=False)
        found = compared(_Doubt(other, _moved_gradients(trial, reading, formula, upstream.double())))
    return found, mode


@dataclass(frozen=True)
class _Doubt:
    """What else a right layer's gradients may differ by: the official layer's other program, and by how much they move.

    Attributes:
        other: name -> the official layer's gradient where it attends by its fused program.
        moved: name -> how far float64's gradient moves where scores are off by one rounding.
    """

    other: Mapping[str, Tensor]
    moved: Mapping[str, Tensor]


def _compared(
    name: str, mine: Tensor | None, theirs: Tensor, true: Tensor, rounding: float, more: tuple[Tensor, Tensor] | None
) -> GradientComparison:
    if mine is None:
        return GradientComparison(name, math.nan, math.nan, "fail")
    error = float((mine - true).abs().max())
    official_error = float((theirs - true).abs().max())
    difference = float((mine - theirs).abs().max())
    if more is None:
        allowed = official_error + rounding
        ratio = error / allowed if allowed else (0.0 if error == 0 else math.inf)
    else:
        other, moved = more
        official_error = max(official_error, float((other - true).abs().max()))
        allowances = moved.clamp(min=max(official_error + rounding, torch.finfo(moved.dtype).tiny))  # 0/0 is no ratio
        ratio = float(((mine - true).abs() / allowances).max())
    passed = math.isfinite(error) and ratio <= GRADIENT_RATIO_TOLERANCE
    return GradientComparison(name, difference, ratio, "pass" if passed else "fail")


def _true_gradients(trial: Trial, reading: Reading | None, formula: Formula, upstream: Tensor) -> dict[str, Tensor]:
    x = trial.x.detach().cpu().double().requires_grad_()
    weights = {role: values.requires_grad_() for role, values in trial.weights(reading).items()}
    output = attend(formula, weights, trial.shape.num_heads, x)
    inputs = {INPUT: x, **weights}
    torch.autograd.backward(_weighted(output, upstream), inputs=list(inputs.values()))
    return {name: torch.zeros_like(one) if one.grad is None else one.grad for name, one in inputs.items()}


def _moved_gradients(trial: Trial, reading: Reading | None, formula: Formula, upstream: Tensor) -> dict[str, Tensor]:
    """By role, how far float64's gradient moves where every score is off by one rounding."""
    x = trial.x.detach().cpu().double().requires_grad_()
    weights = {role: values.requires_grad_() for role, values in trial.weights(reading).items()}
    inputs = {INPUT: x, **weights}
    problem = Problem(x, weights, trial.shape.num_heads, trial.dtype, formula.pattern == "causal")
    found = (
        torch.autograd.grad(_weighted(output, upstream), list(inputs.values()), retain_graph=True)
        for output in problem.truths()
    )
    first, *others = found
    return {
        name: largest_moves(true, (other[i] for other in others))
        for i, (name, true) in enumerate(zip(inputs, first))  # noqa: B905 - Python 3.8 has no strict=
    }


def _official_gradients(
    trial: Trial, reading: Reading | None, formula: Formula, upstream: Tensor, *, need_weights: bool = True
) -> dict[str, Tensor]:
    """By role, each the official layer's; called in the way that it has by default, or in its other one."""
    roles = trial.weights(reading)
    official = trial.official(reading, bias=any(role.startswith("b_") for role in roles)).train()
    x = trial.x.detach().clone().requires_grad_()
    mask = None
    if formula.pattern == "causal":
        mask = causal_mask(trial.shape.seq_len, dtype=trial.dtype, device=x.device)
    with torch.enable_grad():
        output = call_official(official, x, need_weights=need_weights, causal_mask=mask)
        torch.autograd.backward(_weighted(output, upstream))
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


def _layer_gradients(trial: Trial, reading: Reading | None, upstream: Tensor) -> tuple[dict[str, Tensor | None], str]:
    """By role, the layer's own, None where none arrived; and the mode in words."""
    with _trainable_at_rest(trial) as mode:
        gradients = _backward(trial, upstream)
    found: dict[str, Tensor | None] = {INPUT: gradients[INPUT]}
    if reading is None and all(gradients[name] is None for name, _ in trial.layer.named_parameters()):
        raise Stopped("fail", "no gradient reaches any of its parameters: load_from_official may have cut them off")
    if reading is None or reading.is_shared:
        return found, mode
    for one in reading.stored:
        missing = any(gradients[name] is None for name in one.names)
        filled = {
            name: torch.zeros(parameter.shape, dtype=torch.float64) if gradient is None else gradient
            for name, parameter in parameters_of(trial.layer).items()
            for gradient in (gradients[name],)
        }
        for role, values in one.read(filled, reading.sizes).items():
            # A gradient that is truly zero, such as that of the keys' bias, need not arrive.
            found[role] = None if missing and role != "b_k" else values
    return found, mode


@contextlib.contextmanager
def _trainable_at_rest(trial: Trial) -> Iterator[str]:
    """The layer in train mode with dropout at rest; in eval mode where chance still rules it then; says which.

    Raises:
        Stopped: where nothing is random in train mode, and the output another than in eval mode.
    """
    layer, in_eval = trial.layer, trial.run()
    dropouts = [module for module in layer.modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    before = [module.p for module in dropouts]
    layer.train()
    mode = "in train mode with dropout at rest"
    for module in dropouts:
        module.p = 0.0
    try:
        with dropout_at_rest():  # F.dropout's as well
            first, second = (trial.run(seed=trial.how.seed + i) for i in range(2))
        if not torch.equal(first, second):  # a dropout of its own
            layer.eval()
            mode = "in eval mode, since chance rules its output in train mode"
        elif not equals(first.cpu().double(), in_eval.cpu().double(), TOLERANCES.get(trial.dtype, 1e-4)):
            raise Stopped("fail", "in train mode the output is another than in eval mode, though nothing random is on")
        with dropout_at_rest():
            yield mode
    finally:
        layer.eval()
        for module, p in zip(dropouts, before):  # noqa: B905 - Python 3.8 has no strict=
            module.p = p


def _backward(trial: Trial, upstream: Tensor) -> dict[str, Tensor | None]:
    """The layer's gradients by parameter name, float64; None where none arrived."""
    x = trial.x.detach().clone().requires_grad_()
    torch.manual_seed(trial.how.seed)
    frozen = [parameter for parameter in trial.layer.parameters() if not parameter.requires_grad]
    for parameter in trial.layer.parameters():
        if parameter.is_leaf:
            parameter.grad = None
            parameter.requires_grad_(parameter.is_floating_point())  # of a copy: what its owner has frozen stays so
        else:  # as in the copy of a scripted layer
            parameter.retain_grad()
    with torch.enable_grad():
        output = called(trial.calling, trial.layer, x * 1.0, **trial.extra)
        if not _agrees(output, trial):
            raise Stopped("fail", "with gradients enabled the output is another than without")
        if not output.requires_grad:
            raise Stopped("fail", "the output takes no gradient: the layer computes under torch.no_grad() or detaches")
        try:
            torch.autograd.backward(_weighted(output, upstream))
        except Exception as error:  # whatever a user's backward raises is the answer
            raise Stopped("fail", f"its backward raised {words(error)}: it cannot be trained") from error
    gradients: dict[str, Tensor | None] = {INPUT: None if x.grad is None else _plain(x.grad)}
    for name, parameter in named_parameters(trial.layer):
        gradients[name] = None if parameter.grad is None else _plain(parameter.grad)
    for parameter in frozen:
        parameter.requires_grad_(False)
    return gradients


def _agrees(output: Tensor, trial: Trial) -> bool:
    with torch.no_grad():
        without = trial.run()
    return equals(output.detach().cpu().double(), without.cpu().double(), TOLERANCES.get(trial.dtype, 1e-4))


def _weighted(output: Tensor, upstream: Tensor) -> Tensor:
    """A number whose gradient by the output is ``upstream``: with that as argument, backward imports sympy first."""
    return (output * upstream.to(output)).sum()


def _labels(reading: Reading | None) -> Mapping[str, str]:
    """Role -> the layer's own name for it; packed roles with the role behind it."""
    if reading is None:
        return {}
    return {f"{one.kind}_{role}": one.label_of(role) for one in reading.stored for role in one.roles}


def _plain(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor.detach().cpu().double()
