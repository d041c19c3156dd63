"""Whether samples fall into two groups, as they do where a machine switches between two states."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence

MIN_SAMPLES = 20
MIN_SHARE = 0.2
MIN_APART = 0.05
# At each end: outliers say nothing of the groups.
TRIMMED = 0.1
# Ashman's D, the distance of the groups in units of their spread. One normal distribution, cut in half and with its
# ends trimmed, has 3, an even one 3.5, and few samples come out higher by chance: no false alarm in 98 of 100.
MIN_SEPARATION = 4.0
SEPARATION_BY_CHANCE = 80.0


@dataclasses.dataclass(frozen=True)
class TwoModes:
    """The slower group: how far above the faster one (0.1 is 10 %), and the share of samples in it."""

    apart: float
    slow_share: float


def two_modes(times: Sequence[float]) -> TwoModes | None:
    """The two groups that positive times fall into, or None where they look like one.

    The cut is the one that explains most of the variance of the log times, with a fifth of the samples on each side;
    the groups count where their means lie 5 % apart and far more than their own spread.
    """
    if len(times) < MIN_SAMPLES or min(times) <= 0:
        return None
    trimmed = int(TRIMMED * len(times))
    logs = sorted(math.log(time) for time in times)[trimmed : len(times) - trimmed]
    cut = _best_cut(logs, math.ceil(MIN_SHARE * len(times)) - trimmed)
    fast, slow = logs[:cut], logs[cut:]
    distance = statistics.fmean(slow) - statistics.fmean(fast)
    spread = math.sqrt((statistics.pvariance(fast) + statistics.pvariance(slow)) / 2)
    if math.expm1(distance) < MIN_APART or distance < (MIN_SEPARATION + SEPARATION_BY_CHANCE / len(times)) * spread:
        return None
    return TwoModes(math.expm1(distance), (len(slow) + trimmed) / len(times))


def _best_cut(ordered: Sequence[float], least: int) -> int:
    """How many of the ordered values belong to the lower of two groups of at least so many (Otsu's method)."""
    num = len(ordered)
    middle = statistics.fmean(ordered)
    sums = [0.0, *itertools.accumulate(value - middle for value in ordered)]
    return max(range(least, num - least + 1), key=lambda low: sums[low] ** 2 * (1 / low + 1 / (num - low)))
