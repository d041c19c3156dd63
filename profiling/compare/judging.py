"""What may be claimed of a change of time between two runs, and when it counts as a regression.

Two quantities can be compared. The *relative* time, a layer's time over that of its reference in the same process, is
the honest one: what the machine does to one it does to the other, and it cancels. The *latency* itself moves with the
state of the machine from one day to the next, and no number of replicates within a run shows by how much. So a verdict
rests on the relative time wherever both runs have it. Where they do not, it rests on the latency, and then has to lie
beyond what the references themselves have moved by. A reference's own latency claims no more than `same`: it is torch's
own layer, the yardstick, and if it moved, the machine did.
"""

from __future__ import annotations

import dataclasses
import math

from profiling.joining import FAILED
from profiling.ratios import SMALLEST_CLAIM, Joined
from profiling.settings import MIN_REPLICATES_FOR_VERDICT
from profiling.wording import as_percent

_LARGEST_LOG = 700.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """A change of time at one workload of one contender.

    Attributes:
        measure: `relative` or `latency`.
        log: the logarithm of the time in NEW over that in BASE.
        half: half the width of its interval, which holds all contenders of the point together; NaN where it has none.
        half_all: the same of the interval that holds all rows of the comparison together.
        noise: the ratio less 1 by which times may differ without a layer that differs; NaN where nothing tells it.
        numbers: replicates behind it in BASE and in NEW.
        is_reference: whether it is a reference's own.
    """

    measure: str
    log: float
    half: float
    half_all: float
    noise: float
    numbers: tuple[int, int]
    is_reference: bool = False

    @property
    def margin(self) -> float:
        """What a claim has to lie beyond: the noise, and at least 2 %."""
        return max(SMALLEST_CLAIM, self.noise)

    @property
    def ratio(self) -> float:
        """The time in NEW over that in BASE."""
        return _exp(self.log)

    def interval(self, *, of_all: bool = False) -> Joined:
        """The ratio with its interval."""
        half = self.half_all if of_all else self.half
        if not math.isfinite(half):
            return Joined(speedup=self.ratio, low=None, high=None, num_replicates=min(self.numbers))
        low, high = _exp(self.log - half), _exp(self.log + half)
        return Joined(speedup=self.ratio, low=low, high=high, num_replicates=min(self.numbers))


def joint_noise(base: float, new: float) -> float:
    """How far the ratio of two ratios may stray, whose clones strayed so far each: the roots of squares, in logarithms.

    NaN where either is unknown.
    """
    return math.expm1(math.hypot(math.log1p(base), math.log1p(new)))


def time_verdict(change: Change) -> tuple[str, str]:
    """What may be claimed (slower, faster, same, unsure, provisional), and why.

    `slower` and `faster` need the interval wholly outside of 1 ± the margin, `same` wholly inside of 1 ± 2 %, and a
    noise that is no larger.
    """
    few = [f"{side} has {number}" for side, number in _sides(change) if number < MIN_REPLICATES_FOR_VERDICT]
    if few:
        return "provisional", f"{' and '.join(few)} of the {MIN_REPLICATES_FOR_VERDICT} replicates needed"
    found = change.interval()
    if found.low is None or found.high is None:
        return "unsure", "a report holds no time replicate by replicate: compare the run's folder"
    if change.is_reference:
        return _verdict_of_yardstick(found)
    if math.isnan(change.noise):
        return "unsure", _untold(change)
    interval = f"the {change.measure} time became {found.low:.3f} to {found.high:.3f} times what it was"
    if found.lies_outside(change.margin):
        return (
            "slower" if change.log > 0 else "faster"
        ), f"{interval}, wholly outside of 1 ± {as_percent(change.margin)}"
    if found.lies_within(SMALLEST_CLAIM) and change.margin == SMALLEST_CLAIM:
        return "same", f"{interval}, wholly within 1 ± {as_percent(SMALLEST_CLAIM)}"
    if change.margin > SMALLEST_CLAIM:
        return (
            "unsure",
            f"{interval}, not clear of 1 ± {as_percent(change.margin)}, which is noise: {_noise_of(change)}",
        )
    return "unsure", f"{interval}, across the edge of 1 ± {as_percent(change.margin)}: more replicates make it narrower"


def is_time_regression(change: Change, fail_above: float) -> bool:
    """Whether a change that is `slower` counts: the estimate above the threshold, the difference beyond all noise.

    The more rows are looked at, the sooner one of them seems slower by chance; and one is enough to fail. So the
    interval that has to lie beyond the noise is here the wider one, which holds all rows of the comparison together.
    """
    low = change.interval(of_all=True).low
    return change.ratio > 1 + fail_above and low is not None and low > 1 + change.margin


def uncounted(check_base: str | None, check_new: str | None) -> str | None:
    """Why the times of a row do not count, where its check fails on a side; else None.

    Such a layer computes something else, in whichever of the two it was: its time is not to be compared.
    """
    said = [f"{verdict} in {side}" for side, verdict in (("BASE", check_base), ("NEW", check_new)) if verdict in FAILED]
    return f"does not count: its check says {' and '.join(said)}" if said else None


def _exp(log: float) -> float:
    """The number of that logarithm, as far as there are numbers: two replicates may spread over all of them."""
    return math.exp(min(max(log, -_LARGEST_LOG), _LARGEST_LOG))


def _verdict_of_yardstick(found: Joined) -> tuple[str, str]:
    if found.lies_within(SMALLEST_CLAIM):
        return (
            "same",
            f"the yardstick itself: it took {found.speedup:.3f} times as long, within 1 ± {as_percent(SMALLEST_CLAIM)}",
        )
    return "unsure", (
        f"the yardstick itself: that it took {found.speedup:.3f} times as long says that the machine changed, "
        "and nothing of a layer"
    )


def _untold(change: Change) -> str:
    if change.measure == "relative":
        return "no clone of the reference was measured beside it in both runs: nothing tells what differs by itself"
    return "no reference was measured in both runs: nothing tells a slower layer from a slower machine"


def _noise_of(change: Change) -> str:
    if change.measure == "relative":
        return "clones of the reference strayed so far. More replicates, or a quieter machine"
    return "the references themselves moved so far from one run to the other"


def _sides(change: Change) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("BASE", change.numbers[0]), ("NEW", change.numbers[1])
