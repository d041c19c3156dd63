"""A layer and the official one at one shape: the same weights, the same input, and how far apart the outputs are."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from mha.checking.comparison import Comparison, compare_outputs
from mha.checking.conditioning import Problem, with_ties_allowed
from mha.checking.identification import Identity
from mha.checking.report import ErrorMap, Shape
from mha.checking.surroundings import threads_for
from mha.checking.trial import Stopped, Trial, is_fused
from mha.checking.wording import short, words
from mha.official import call_official, causal_mask, fast_path
from mha.oracle import AttentionWeights, oracle
from mha.reading.layouts import Reading

# An error ratio up to this is looked at again: with rounding, the ratio of two largest errors is itself uncertain.
SECOND_LOOK = 16.0
SECOND_LOOKS = 4
FIRST_SEED_OF_SECOND_LOOKS = 1000

MAX_POSITIONS = 64  # of an error map; more are put together


class NothingToCompare(Stopped):
    """The official layer's own output is not finite: nothing can be said of any other there."""


def compare_at(
    identity: Identity, shape: Shape, dtype: torch.dtype, *, need_weights: bool | None
) -> tuple[Comparison, ErrorMap | None]:
    """Compare at one shape; where rounding alone might have failed it, look again at other weights and inputs.

    Args:
        identity: the layer.
        shape, dtype: where.
        need_weights: how the official layer is called; None: as the layer attends.

    Raises:
        NothingToCompare: where the official layer's own output is NaN or infinite.
        Stopped: where a layer raises, or the layer's output is of another shape or differs from run to run.
    """
    with threads_for(shape):
        return _compare_at(identity, shape, dtype, need_weights)


def _compare_at(
    identity: Identity, shape: Shape, dtype: torch.dtype, need_weights: bool | None
) -> tuple[Comparison, ErrorMap | None]:
    trial, reading = identity.at(shape, dtype)
    output = trial.run_twice()
    comparison, expected = _compare(identity, trial, reading, output, need_weights)
    if comparison.verdict == "fail" and comparison.num_non_finite == 0 and comparison.error_ratio <= SECOND_LOOK:
        found = [comparison]
        for i in range(SECOND_LOOKS):
            again, same = identity.at(shape, dtype, seed=trial.how.seed + FIRST_SEED_OF_SECOND_LOOKS + i)
            with contextlib.suppress(NothingToCompare):
                found.append(_compare(identity, again, same, again.run_twice(), need_weights)[0])
        comparison = comparison.joined(found)
    return comparison, _error_map(output, expected, shape.num_heads)


def _compare(
    identity: Identity, trial: Trial, reading: Reading | None, output: Tensor, need_weights: bool | None
) -> tuple[Comparison, Tensor]:
    expected, other = _official_outputs(identity, trial, reading, need_weights)
    num_lost = int((~torch.isfinite(expected)).sum())
    if num_lost:
        raise NothingToCompare(
            "error",
            f"{num_lost} elements of the official layer's own output are NaN or infinite in {short(trial.dtype)}, with "
            f"an input times {trial.how.input_scale:g}: there is nothing to compare with; make the input smaller "
            "(--input-scale), or take another dtype",
        )
    weights = trial.weights(reading)
    if "w_o" not in weights:  # the layer has no output projection: the official layer's own
        weights["w_o"] = trial.official(reading, bias=False).out_proj.weight.detach().cpu().double()
    truth = oracle(trial.x, AttentionWeights(**weights), trial.shape.num_heads, causal=identity.is_causal)
    found = compare_outputs(output, expected, truth, trial.dtype, also=other)
    if found.verdict == "fail" and not found.num_non_finite:
        problem = Problem(trial.x, weights, trial.shape.num_heads, trial.dtype, identity.is_causal)
        found = with_ties_allowed(found, output, expected, truth, problem)
    return found, expected


def _official_outputs(
    identity: Identity, trial: Trial, reading: Reading | None, need_weights: bool | None
) -> tuple[Tensor, Tensor]:
    """The official layer's output by the call that is compared with, and by its other program."""
    has_bias = any(role.startswith("b_") for role in trial.weights(reading))
    if need_weights is None:
        need_weights = not is_fused(trial.layer)
    mask = None
    if identity.is_causal:
        mask = causal_mask(trial.shape.seq_len, dtype=trial.dtype, device=trial.how.device)
    try:
        official = trial.official(reading, bias=has_bias)
        with torch.no_grad(), fast_path(False):
            first, second = (
                call_official(official, trial.x, need_weights=wanted, causal_mask=mask)
                for wanted in (need_weights, not need_weights)
            )
    except (RuntimeError, TypeError) as error:  # it has no kernel for every dtype on every device
        raise Stopped("error", f"the official layer raised {words(error)}") from error
    return first, second


def _error_map(output: Tensor, expected: Tensor, num_heads: int) -> ErrorMap | None:
    """Largest |error| by position, or stretch of positions, and by each head's output channels."""
    if output.shape != expected.shape or output.numel() == 0:
        return None
    difference = (output.detach().cpu().double() - expected.detach().cpu().double()).abs()
    by_head = difference.view(*difference.shape[:2], num_heads, -1).amax((0, -1))  # (S, H)
    blocks = torch.tensor_split(by_head, min(MAX_POSITIONS, by_head.shape[0]))
    starts, start = [], 0
    for block in blocks:
        starts.append(start)
        start += block.shape[0]
    values = tuple(tuple(float(value) for value in block.amax(0)) for block in blocks)
    return ErrorMap(tuple(starts), tuple(range(num_heads)), values)
