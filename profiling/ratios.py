"""Speed-up from paired times: within a process, across replicates, and the verdict that the interval allows.

Times of one round are measured next to each other, so what disturbs one disturbs the other: their ratio is steadier
than either. Ratios are averaged as logarithms, so that 2× and 0.5× cancel.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from profiling.settings import MIN_REPLICATES_FOR_VERDICT

# A difference below this is not worth a claim on any machine that was tried.
SMALLEST_CLAIM = 0.02

# 97.5 % points of Student's t by degrees of freedom; beyond the table the normal one is within 1 %.
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def paired_speedup(reference_times: Sequence[float], times: Sequence[float]) -> float:
    """The median over rounds of reference / contender: above 1 the contender is faster.

    Args:
        reference_times: the reference's time in each round, any unit.
        times: the contender's time in the same rounds.

    Raises:
        ValueError: the two differ in length, or hold no round.
    """
    if len(reference_times) != len(times) or not times:
        raise ValueError(f"times must hold the same rounds, at least one: {len(reference_times)} and {len(times)}")
    return math.exp(statistics.median(log_ratios(reference_times, times)))


def log_ratios(reference_times: Sequence[float], times: Sequence[float]) -> list[float]:
    """The logarithm of reference / contender in each round."""
    return [math.log(reference / time) for reference, time in zip(reference_times, times, strict=True)]


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


def join_replicates(speedups: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The geometric mean of the replicates' speed-ups and its 95 % t-interval; no interval below two replicates.

    Raises:
        ValueError: `speedups` is empty.
    """
    if not speedups:
        raise ValueError("speedups must hold at least one replicate")
    logs = [math.log(speedup) for speedup in speedups]
    centre = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(centre), None, None
    freedom = len(logs) - 1
    t = T_975[freedom - 1] if freedom <= len(T_975) else 1.96
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)


def speed_verdict(low: float | None, high: float | None, noise_floor: float, num_replicates: int) -> str:
    """What may be claimed of a speed-up: faster, slower, same, unsure, or provisional.

    `faster` and `slower` need the interval wholly outside of 1 ± max(2 %, noise floor), `same` wholly inside of
    1 ± 2 %: noise can hide a difference, but it never shows that there is none.
    """
    if num_replicates < MIN_REPLICATES_FOR_VERDICT or low is None or high is None:
        return "provisional"
    margin = max(SMALLEST_CLAIM, noise_floor)
    if low > 1 + margin:
        return "faster"
    if high < 1 / (1 + margin):
        return "slower"
    if noise_floor <= SMALLEST_CLAIM and low >= 1 / (1 + SMALLEST_CLAIM) and high <= 1 + SMALLEST_CLAIM:
        return "same"
    return "unsure"
