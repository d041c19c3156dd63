"""How far the truth itself moves where each score is off by one rounding: what no layer of a dtype can be held to.

Where two scores are large and nearly equal, their last digit decides which value a query takes: of two right layers
one takes the one, one the other. The official layer's own error does not tell, since it may have been lucky there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from mha.checking.comparison import ERROR_RATIO_TOLERANCE, Comparison
from mha.oracle import Oracle

# So many truths with moved scores: one try in four moves two scores apart, so that all miss a tie once in 10,000 ties.
TRIES = 32
# Scores that are computed before rows that are explained by then are left out: about a second's work.
MOST_SCORES = 2**26
SEED = 7


@dataclass(frozen=True)
class Problem:
    """What a layer was given: x (B, S, E), its weights by role in float64, the dtype it computes in."""

    x: Tensor
    weights: Mapping[str, Tensor]
    num_heads: int
    dtype: torch.dtype
    is_causal: bool = False

    def truths(self, rows: Tensor | None = None, tries: range = range(TRIES)) -> Iterator[Tensor]:
        """The true output (B, R, E) at these query rows, or all, then one for each try with every score moved.

        Queries and keys are rounded to the dtype, each by up to half an eps of its length, whatever the order of work
        is; so a score is moved up or down, by chance, by ``eps |q| |k| / sqrt(D)``.
        """
        x = self.x if self.x.requires_grad else self.x.detach().cpu().double()
        rows = torch.arange(x.shape[1]) if rows is None else rows
        q = self._heads(x[:, rows], "q")  # (B, H, R, D)
        k, v = self._heads(x, "k"), self._heads(x, "v")  # (B, H, S, D)
        scale = 1 / math.sqrt(q.shape[-1])
        scores = q @ k.transpose(-2, -1) * scale  # (B, H, R, S)
        with torch.no_grad():
            lengths = q.norm(dim=-1).unsqueeze(-1) * k.norm(dim=-1).unsqueeze(-2)
            step = torch.finfo(self.dtype).eps * scale * lengths
        hidden = torch.arange(x.shape[1]) > rows.unsqueeze(1) if self.is_causal else None
        generator = torch.Generator().manual_seed(SEED + tries.start)
        for attempt in (None, *tries):
            moved = scores
            if attempt is not None:
                moved = scores + step * (torch.randint(2, scores.shape, generator=generator) * 2 - 1)
            if hidden is not None:
                moved = moved.masked_fill(hidden, -math.inf)
            context = (torch.softmax(moved, -1) @ v).transpose(1, 2).flatten(2)  # (B, R, E)
            yield self._projected(context, "o") if "w_o" in self.weights else context

    def _heads(self, x: Tensor, role: str) -> Tensor:
        projected = self._projected(x, role)
        return projected.view(*projected.shape[:2], self.num_heads, -1).transpose(1, 2)

    def _projected(self, x: Tensor, role: str) -> Tensor:
        return F.linear(x, self.weights[f"w_{role}"], self.weights.get(f"b_{role}"))


def with_ties_allowed(
    found: Comparison, output: Tensor, official_output: Tensor, truth: Oracle, problem: Problem
) -> Comparison:
    """A failed comparison judged again, with more allowed where the truth moves more than the official layer erred.

    An element may be off by what is allowed everywhere, or by as much as it moves with the scores, whichever is more.
    Where that does not explain the worst row, the comparison stands as it is. Rows are left out as soon as they are
    explained. Only where they are more than can be tried once, some are looked at, from the worst to the least.

    Args:
        found: what :func:`mha.checking.comparison.compare_outputs` found.
        output, official_output: (B, S, E), finite.
        truth: the oracle it used.
        problem: what both layers were given.
    """
    mine, theirs = (one.detach().cpu().double() for one in (output, official_output))
    difference = (mine - theirs).abs().amax((0, 2))  # (S,)
    suspects = torch.nonzero(difference > found.allowed).squeeze(1)
    if not math.isfinite(found.error_ratio) or not found.allowed or not len(suspects):
        return found
    suspects = suspects[difference[suspects].argsort(descending=True)]
    if _ratio_at(suspects[:1], mine, found.allowed, problem)[0] > ERROR_RATIO_TOLERANCE:
        return found
    per_row = mine.shape[0] * problem.num_heads * mine.shape[1]
    if len(suspects) * per_row > MOST_SCORES:
        affordable = max(2, MOST_SCORES // per_row)
        suspects = suspects[torch.linspace(0, len(suspects) - 1, affordable, dtype=torch.float64).round().long()]
    ratio, moves = _ratio_at(suspects, mine, found.allowed, problem)
    rest = ~torch.isin(truth.rows, torch.nonzero(difference > found.allowed).squeeze(1))
    if bool(rest.any()):
        others = (mine[:, truth.rows[rest]] - truth.output[:, rest]).abs().max()
        ratio = max(ratio, float(others) / found.allowed)
    if ratio > ERROR_RATIO_TOLERANCE:
        return replace(found, error_ratio=ratio).told_again()
    return replace(found, error_ratio=ratio, verdict="pass", moved=moves).told_again()


def _ratio_at(rows: Tensor, output: Tensor, allowed: float, problem: Problem) -> tuple[float, float]:
    """The largest error over what is allowed at these rows, and by how much the truth moves there."""
    per_row = output.shape[0] * problem.num_heads * output.shape[1]
    moved = torch.zeros((output.shape[0], len(rows), output.shape[2]), dtype=torch.float64)
    ratios = torch.full((len(rows),), math.inf, dtype=torch.float64)
    left, done = torch.arange(len(rows)), 0
    while len(left) and done < TRIES:
        tries = range(done, min(TRIES, done + max(1, MOST_SCORES // (len(left) * per_row))))
        for some in torch.split(left, max(1, MOST_SCORES // (TRIES * per_row))):
            truths = problem.truths(rows[some], tries)
            truth = next(truths)
            moved[:, some] = torch.maximum(moved[:, some], largest_moves(truth, truths))
            off = (output[:, rows[some]] - truth).abs()
            ratios[some] = (off / moved[:, some].clamp(min=allowed)).amax((0, 2))
        done = tries.stop
        left = left[ratios[left] > ERROR_RATIO_TOLERANCE]
    return float(ratios.max()), float(moved.max())


def largest_moves(truth: Tensor, others: Iterator[Tensor]) -> Tensor:
    """Element by element, how far the farthest of the others is."""
    moved = torch.zeros_like(truth)
    for other in others:
        moved = torch.maximum(moved, (other - truth).abs())
    return moved
