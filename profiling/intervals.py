"""Confidence intervals: of a mean by Student's t, of a median by order statistics."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence

LEVEL = 0.95


def mean_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """The interval that holds the mean of what `values` are drawn from, at that level, if they are drawn from a normal.

    Raises:
        ValueError: fewer than two values tell nothing of how far they spread.
    """
    if len(values) < 2:
        raise ValueError(f"values must hold at least two numbers, not {len(values)}")
    centre = statistics.fmean(values)
    # Not statistics.stdev, which reckons in fractions: fifty times as slow, and no nearer for numbers of like size.
    deviation = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))
    half = t_quantile(level, len(values) - 1) * deviation / math.sqrt(len(values))
    return centre - half, centre + half


def median_half_width(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of the median, from order statistics: no assumption on the distribution.

    The interval runs between the values whose ranks lie 0.98·√n on either side of the middle (the normal
    approximation of the binomial).
    """
    ordered = sorted(values)
    reach = 0.98 * math.sqrt(len(ordered))
    low = max(0, math.floor((len(ordered) - 1) / 2 - reach))
    high = min(len(ordered) - 1, math.ceil((len(ordered) - 1) / 2 + reach))
    return (ordered[high] - ordered[low]) / 2


def proportion_interval(num_hits: int, num_tries: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of Wilson (1927) for the share of hits: it stays within 0 and 1, and is right for few hits too.

    Raises:
        ValueError: the numbers are no count of hits among tries.
    """
    if not 0 <= num_hits <= num_tries or num_tries < 1:
        raise ValueError(f"num_hits must lie between 0 and num_tries, at least 1: not {num_hits} of {num_tries}")
    z = statistics.NormalDist().inv_cdf((1 + level) / 2)
    share = num_hits / num_tries
    centre = share + z * z / (2 * num_tries)
    half = z * math.sqrt(share * (1 - share) / num_tries + z * z / (4 * num_tries * num_tries))
    scale = 1 + z * z / num_tries
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


@functools.lru_cache(maxsize=1024)
def t_quantile(level: float, freedom: int) -> float:
    """The t below which |T| lies with probability `level`, for Student's T with `freedom` degrees of freedom.

    Raises:
        ValueError: `level` is no probability between 0 and 1, or `freedom` below 1.
    """
    if not 0 < level < 1 or freedom < 1:
        raise ValueError(f"level must lie between 0 and 1 and freedom be at least 1, not {level} and {freedom}")
    # The angle θ = atan(t / √ν) lies between 0 and π/2, and the probability rises with it.
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_probability(middle, freedom) < level else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _t_probability(angle: float, freedom: int) -> float:
    """P(|T| ≤ √ν·tan θ), by the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    cosine, is_odd = math.cos(angle), freedom % 2
    term = total = 0.0
    for power in range(is_odd, freedom - 1, 2):
        # Odd: cos, 2/3 cos³, 2·4/(3·5) cos⁵, …; even: 1, 1/2 cos², 1·3/(2·4) cos⁴, …
        term = (cosine if is_odd else 1.0) if power < 2 else term * cosine * cosine * (power - 1) / power
        total += term
    if is_odd:
        return (angle + math.sin(angle) * total) * 2 / math.pi
    return math.sin(angle) * total
