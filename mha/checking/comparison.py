"""One output against the official layer's and the float64 oracle: how far off, and whether that is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mha.oracle import Oracle

# A layer may be this many times as far from the truth as the official layer is.
ERROR_RATIO_TOLERANCE = 2.0
# No official layer is further from the truth than so many eps of its largest value; one at work on other maths is.
MOST_ROUNDING = 1e5


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_outputs` found.

    Attributes:
        max_abs_error: largest |output - official|, over all elements; NaN where an element of either is not finite.
        max_abs_error_oracle: largest |output - oracle|, over the oracle's rows.
        official_max_abs_error_oracle: largest |official - oracle|, over the same rows.
        error_ratio: max_abs_error_oracle / (official_max_abs_error_oracle + eps(dtype) * max|oracle|). Where the oracle
            has not all rows, the part of max_abs_error that the denominator does not explain counts as well. Where it
            came out above 2 and rounded scores explain that, see :mod:`mha.checking.conditioning`, it is the ratio to
            what is allowed with them.
        num_non_finite: elements of the output that are NaN or infinite.
        worst: (batch, position, channel) of the largest difference, or of the first non-finite element; None where
            there are no elements.
        verdict: ``pass`` where error_ratio <= 2 and every element is finite, else ``fail``.
        reason: why, in a sentence.
        share_off: share of the elements that are further from the official layer's than the tolerance allows.
        largest_true: max|oracle|.
        eps: of the dtype.
        moved: how far the truth moves with scores off by one rounding, at the positions where that explains the error;
            None where it was not needed.
    """

    max_abs_error: float
    max_abs_error_oracle: float
    official_max_abs_error_oracle: float
    error_ratio: float
    num_non_finite: int
    worst: tuple[int, int, int] | None
    verdict: str
    reason: str
    share_off: float = 0.0
    largest_true: float = 0.0
    eps: float = 0.0
    moved: float | None = None

    @property
    def allowed(self) -> float:
        """What the official layer's own error and rounding explain: the denominator of the error ratio."""
        return self.official_max_abs_error_oracle + self.eps * self.largest_true

    @property
    def official_is_sane(self) -> bool:
        """Whether the official layer is as near the truth as its dtype lets it be, give or take a lot: else nothing
        that is measured by its error means anything, as where some layer has put another softmax into torch.
        """
        bound = min(MOST_ROUNDING * self.eps, 0.5) * self.largest_true
        return not self.official_max_abs_error_oracle > bound  # NaN is told elsewhere

    def joined(self, found: Sequence[Comparison]) -> Comparison:
        """The comparison of the largest errors among several of the same layer, told as this one otherwise."""
        error = max(one.max_abs_error_oracle for one in found)
        official = max(one.official_max_abs_error_oracle for one in found)
        allowed = official + self.eps * max(one.largest_true for one in found)
        difference = max(one.max_abs_error for one in found)
        # Each one's ratio times what it was allowed is its error, less what nearly equal scores explain.
        ratio = max(one.error_ratio * one.allowed for one in found) / allowed if allowed else math.inf
        passed = ratio <= ERROR_RATIO_TOLERANCE and all(one.num_non_finite == 0 for one in found)
        return replace(
            self,
            max_abs_error=difference,
            max_abs_error_oracle=error,
            official_max_abs_error_oracle=official,
            error_ratio=ratio,
            verdict="pass" if passed else "fail",
            moved=max((one.moved for one in found if one.moved is not None), default=None),
        ).told_again()

    def told_again(self) -> Comparison:
        """The same, with the reason that its figures now give."""
        return replace(self, reason=_reason(self))


def compare_outputs(
    output: Tensor, official_output: Tensor, oracle: Oracle, dtype: torch.dtype, *, also: Tensor | None = None
) -> Comparison:
    """Hold an output to the official layer's own error.

    A bound that fits every dtype and size: a correct layer is about as far from the truth as the official one is, a
    wrong one many times as far. ``eps(dtype) * max|oracle|`` keeps an official layer that happens to be exact from
    making the bound zero.

    Args:
        output: the layer's (B, S, E).
        official_output: the official layer's, for the same weights and input.
        oracle: the truth at some rows, or all.
        dtype: the dtype both layers computed in; sets eps.
        also: the official layer's output by another of its programs, whose error is the official layer's own as well.

    Raises:
        ValueError: where the two outputs differ in shape, or the oracle is of another batch or width.
    """
    if output.shape != official_output.shape:
        raise ValueError(
            f"the output has shape {tuple(output.shape)}, the official layer's {tuple(official_output.shape)}"
        )
    truth = oracle.output
    if output.dim() != 3 or truth.shape != (output.shape[0], len(oracle.rows), output.shape[2]):
        raise ValueError(f"the oracle has shape {tuple(truth.shape)}, the output {tuple(output.shape)}")
    mine, theirs = output.detach().cpu().double(), official_output.detach().cpu().double()
    difference = (mine - theirs).abs()
    error = _largest((mine[:, oracle.rows] - truth).abs())
    official_error = _largest((theirs[:, oracle.rows] - truth).abs())
    if also is not None:
        official_error = max(official_error, _largest((also.detach().cpu().double()[:, oracle.rows] - truth).abs()))
    allowed = official_error + torch.finfo(dtype).eps * _largest(truth.abs())
    max_abs_error = _largest(difference)
    # Rows that the oracle left out: the layer is at least as far from the truth as it is from the official layer, less
    # what that one may be off itself.
    least_error = max(error, max_abs_error - allowed)
    if math.isnan(allowed) or math.isnan(max_abs_error):
        error_ratio = math.nan
    elif least_error == 0:
        error_ratio = 0.0
    else:
        error_ratio = least_error / allowed if allowed else math.inf
    num_non_finite = int((~torch.isfinite(mine)).sum())
    worst = _where_worst(difference)
    share_off = _share_beyond(difference, (ERROR_RATIO_TOLERANCE + 1) * allowed)
    # Not `error_ratio > tolerance`: that is False for NaN.
    passed = num_non_finite == 0 and error_ratio <= ERROR_RATIO_TOLERANCE
    found = Comparison(
        max_abs_error=max_abs_error,
        max_abs_error_oracle=error,
        official_max_abs_error_oracle=official_error,
        error_ratio=error_ratio,
        num_non_finite=num_non_finite,
        worst=worst,
        verdict="pass" if passed else "fail",
        reason="",
        share_off=share_off,
        largest_true=_largest(truth.abs()),
        eps=torch.finfo(dtype).eps,
    )
    return found.told_again()


def _largest(magnitudes: Tensor) -> float:
    """The maximum, NaN where one is NaN or infinite (inf - inf is NaN, inf - 1 is not: both mean no figure)."""
    if magnitudes.numel() == 0:
        return 0.0
    largest = float(magnitudes.max())
    return largest if math.isfinite(largest) else math.nan


def _share_beyond(difference: Tensor, bound: float) -> float:
    if difference.numel() == 0:
        return 0.0
    return float((~(difference <= bound)).double().mean())  # not `>`: that is False for NaN


def _where_worst(difference: Tensor) -> tuple[int, int, int] | None:
    if difference.numel() == 0:
        return None
    index = int(torch.where(torch.isfinite(difference), difference, torch.full_like(difference, math.inf)).argmax())
    _, seq_len, d_model = difference.shape
    return index // (seq_len * d_model), index // d_model % seq_len, index % d_model


def _reason(found: Comparison) -> str:
    if found.worst is None:
        return "there are no elements to compare"
    place = "batch {}, position {}, channel {}".format(*found.worst)
    if found.num_non_finite:
        return f"{found.num_non_finite} elements of the output are NaN or infinite, first at {place}"
    if math.isnan(found.error_ratio):
        return f"the official layer's output is NaN or infinite, first at {place}"
    if found.error_ratio > ERROR_RATIO_TOLERANCE:
        return (
            f"differs from the official layer by up to {found.max_abs_error:.2e} (at {place}), beyond rounding in "
            f"{100 * found.share_off:.0f} % of the elements; from the float64 truth by "
            f"{found.max_abs_error_oracle:.2e}, which is {found.error_ratio:.3g} times what the official layer's own "
            f"error and rounding explain ({found.allowed:.2e}); allowed: {ERROR_RATIO_TOLERANCE:g} times"
        )
    if found.max_abs_error == 0:
        return "equals the official layer's output bit for bit"
    if found.moved is not None:
        return (
            f"differs from the official layer by up to {found.max_abs_error:.2e} (at {place}), only where scores are "
            f"so nearly equal that one rounding of them moves the float64 truth itself by up to {found.moved:.2e} "
            f"(error ratio {found.error_ratio:.3g}, allowed {ERROR_RATIO_TOLERANCE:g})"
        )
    return (
        f"differs from the official layer by up to {found.max_abs_error:.2e}, and is as near the float64 truth as that "
        f"({found.max_abs_error_oracle:.2e}, error ratio {found.error_ratio:.3g}, allowed {ERROR_RATIO_TOLERANCE:g})"
    )
