"""Speed-up from paired times: within a process, across replicates, and the verdict that the interval allows.

Times of one round are measured next to each other, so what disturbs one disturbs the other: their ratio is steadier
than either. Ratios are averaged as logarithms, so that 2× and 0.5× cancel.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from profiling.intervals import LEVEL, mean_interval
from profiling.settings import MIN_REPLICATES_FOR_VERDICT
from profiling.wording import rounded_percent

# A difference below this is not worth a claim on any machine that was tried.
SMALLEST_CLAIM = 0.02


@dataclasses.dataclass(frozen=True, kw_only=True)
class Joined:
    """A ratio over all replicates; below two of them its interval is empty."""

    speedup: float
    low: float | None
    high: float | None
    num_replicates: int

    @property
    def stray(self) -> float:
        """How far it lies from 1."""
        return stray(self.speedup)

    def holds(self, truth: float) -> bool:
        """Whether that ratio lies in the interval; not where there is none."""
        return self.low is not None and self.high is not None and self.low <= truth <= self.high

    def lies_outside(self, margin: float) -> bool:
        """Whether the whole interval is further than that from 1."""
        if self.low is None or self.high is None:
            return False
        return self.low > 1 + margin or self.high < 1 / (1 + margin)

    def lies_within(self, margin: float) -> bool:
        """Whether the whole interval is nearer than that to 1."""
        if self.low is None or self.high is None:
            return False
        return self.low >= 1 / (1 + margin) and self.high <= 1 + margin


def stray(ratio: float) -> float:
    """How far a ratio lies from 1, the same for the ratio and its inverse."""
    return _exp(abs(math.log(ratio))) - 1


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


def join_replicates(speedups: Sequence[float], num_compared: int = 1) -> Joined:
    """The geometric mean of the replicates' speed-ups and its interval by Student's t.

    Args:
        speedups: one ratio per replicate.
        num_compared: how many contenders of the point are compared: the intervals hold all of them together with 95 %
            (Bonferroni), since the more are looked at, the sooner one seems to differ by chance.

    Raises:
        ValueError: `speedups` is empty.
    """
    if not speedups:
        raise ValueError("speedups must hold at least one replicate")
    if len(speedups) == 1:
        return Joined(speedup=speedups[0], low=None, high=None, num_replicates=1)
    logs = [math.log(speedup) for speedup in speedups]
    low, high = (_exp(end) for end in mean_interval(logs, 1 - (1 - LEVEL) / max(1, num_compared)))
    return Joined(speedup=math.exp(statistics.fmean(logs)), low=low, high=high, num_replicates=len(logs))


def _exp(value: float) -> float:
    """e to that power; infinite beyond what a float holds, as where a file was edited."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def speed_verdict(found: Joined, clone: Joined | None) -> tuple[str, str]:
    """What may be claimed of a speed-up (faster, slower, same, unsure, provisional), and why.

    Args:
        found: the contender's speed-up over its reference.
        clone: the same ratio of the reference to a clone of itself; None where there was none, as in runs of a version
            that kept only how far it strayed.

    `faster` and `slower` need the interval wholly outside of 1 ± max(2 %, the clone's stray), `same` wholly inside of
    1 ± 2 %: noise can hide a difference, but it never shows that there is none. Where the clone itself seems to
    differ from its original, or is not there in as many replicates, nothing is claimed.
    """
    if found.num_replicates < MIN_REPLICATES_FOR_VERDICT or found.low is None or found.high is None:
        missing = MIN_REPLICATES_FOR_VERDICT - found.num_replicates
        more = f"{missing} more replicate" + ("s" if missing > 1 else "")
        return "provisional", f"{found.num_replicates} of the {MIN_REPLICATES_FOR_VERDICT} replicates needed: {more}"
    if clone is None or clone.num_replicates < MIN_REPLICATES_FOR_VERDICT:
        number = 0 if clone is None else clone.num_replicates
        return "unsure", (
            f"a clone of the reference was measured beside it in {number} replicates, which is too few to tell what "
            "differs by itself"
        )
    if clone.lies_outside(SMALLEST_CLAIM):
        return "unsure", (
            f"a clone of the reference differs from it by {rounded_percent(clone.stray)} too: something besides the "
            "layers differs. Measure again in a quiet moment"
        )
    margin = max(SMALLEST_CLAIM, clone.stray)
    interval = f"the interval {found.low:.3f} to {found.high:.3f}"
    if found.lies_outside(margin):
        verdict = "faster" if found.speedup > 1 else "slower"
        return verdict, f"{interval} lies wholly outside of 1 ± {rounded_percent(margin)}"
    if found.lies_within(SMALLEST_CLAIM) and margin == SMALLEST_CLAIM:
        return "same", f"{interval} lies wholly within 1 ± {rounded_percent(SMALLEST_CLAIM)}"
    if margin > SMALLEST_CLAIM:
        return "unsure", (
            f"{interval} is not clear of 1 ± {rounded_percent(margin)}, by which a clone of the reference strayed: "
            "more replicates, or a quieter machine"
        )
    return (
        "unsure",
        f"{interval} reaches across the edge of 1 ± {rounded_percent(margin)}: more replicates make it narrower",
    )
