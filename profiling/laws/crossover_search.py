"""Where one contender begins to win: which size to measure next, from what is measured so far. Pure.

At each size the two are compared as a sweep compares them: a ratio per replicate, joined with an interval, and a sign
where that lies wholly outside of 1 ± max(2 %, what a clone strays). Neighbouring sizes with different signs are brought
together until they are near enough.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence

from profiling.quoted import quoted
from profiling.ratios import SMALLEST_CLAIM, Joined, join_replicates
from profiling.workload import GridError, require_size

AXES = ("seq_len", "batch_size", "num_heads")

# Signs of a size: the first contender is faster or slower, both are the same within 2 %, none certain, not measured.
FASTER, SLOWER, SAME, UNSURE, LOST = "faster", "slower", "same", "unsure", "lost"
# A sign is looked for twice at a size: after the first replicates, and once more where it was not certain then. So each
# look is taken at a level at which both together hold with 95 %.
NUM_LOOKS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is searched, and how exactly.

    Attributes:
        low, high: the sizes between which it is searched, both included.
        step: sizes in between are multiples of it.
        within: how near two sizes with different signs are to be brought, as a part of the larger one.
        num_first: how many sizes are measured at first, spread evenly on a logarithmic scale.
        replicates: measured at each size.
        max_replicates: to which a size is brought whose sign is not certain.
        max_sizes: that are measured at all.
        choices: the sizes that there are, rising, where not every multiple of `step` is one; empty where every one is.

    Raises:
        GridError: a value breaks a rule; the message names the argument, the rule and the value.
    """

    low: int
    high: int
    step: int = 1
    within: float = 0.1
    num_first: int = 5
    replicates: int = 5
    max_replicates: int = 10
    max_sizes: int = 16
    choices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Checks every rule once."""
        for name in ("low", "high", "step", "num_first", "replicates", "max_replicates", "max_sizes"):
            require_size(name, getattr(self, name))
        if self.low >= self.high:
            raise GridError(f"the search must go from a smaller size to a larger, not from {self.low} to {self.high}")
        if self.choices and (len(self.choices) < 2 or self.choices != tuple(sorted(set(self.choices)))):
            raise GridError(f"choices must be at least two sizes, rising, not {quoted(list(self.choices))}")
        if not 0 < self.within < 1:
            raise GridError(f"within must lie between 0 and 1, not {quoted(self.within)}")
        if self.replicates < 2:
            raise GridError(f"replicates must be at least 2, which is what an interval needs, not {self.replicates}")
        if self.max_replicates < self.replicates:
            raise GridError(f"max_replicates must be at least replicates, {self.replicates}, not {self.max_replicates}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """What is known of one size.

    Attributes:
        size: on the axis.
        ratios: the second contender's time over the first one's, a replicate each: above 1 the first is faster.
        clones: the same ratio of a reference to its clone.
        lost: why there is nothing to compare: status and reason; empty where there is.
    """

    size: int
    ratios: tuple[float, ...] = ()
    clones: tuple[float, ...] = ()
    lost: str = ""

    def joined_with(self, later: Probe) -> Probe:
        """With more replicates of the same size. What was measured stays, also where the later ones were lost."""
        return Probe(
            size=self.size,
            ratios=self.ratios + later.ratios,
            clones=self.clones + later.clones,
            lost=self.lost or later.lost,
        )

    @property
    def ratio(self) -> Joined | None:
        """The ratio over the replicates; None where there is none."""
        return _join(self.ratios) if self.ratios else None

    @property
    def sign(self) -> str:
        """What may be claimed of this size."""
        found = self.ratio
        if found is None:
            return LOST
        clone = _join(self.clones) if self.clones else None
        if clone is not None and clone.lies_outside(SMALLEST_CLAIM):
            return UNSURE  # something besides the layers differs
        margin = max(SMALLEST_CLAIM, clone.stray if clone else 0.0)
        if found.lies_outside(margin):
            return FASTER if found.speedup > 1 else SLOWER
        return SAME if found.lies_within(SMALLEST_CLAIM) and margin == SMALLEST_CLAIM else UNSURE


@dataclasses.dataclass(frozen=True)
class Step:
    """What to measure next: sizes, each in so many fresh replicates."""

    sizes: tuple[int, ...]
    replicates: int


def next_step(probes: Iterable[Probe], plan: Plan) -> Step | None:
    """What to measure next, None where everything is known that the plan asks for.

    First the sizes of the first look; then more replicates where a sign is not certain; then a size between two
    neighbours of different signs that are furthest from each other.
    """
    known = sorted(probes, key=lambda probe: probe.size)
    seen = {probe.size for probe in known}
    missing = tuple(size for size in first_sizes(plan) if size not in seen)
    if missing:
        return Step(missing, plan.replicates)
    unsure = [p for p in known if p.sign == UNSURE and not p.lost and len(p.ratios) < plan.max_replicates]
    if unsure:
        fewest = min(len(probe.ratios) for probe in unsure)
        sizes = tuple(probe.size for probe in unsure if len(probe.ratios) == fewest)
        return Step(sizes, plan.max_replicates - fewest)
    if len(known) >= plan.max_sizes:
        return None
    gaps = [gap for gap in _gaps(known) if (middle := _middle(gap, plan)) is not None and middle not in seen]
    if not gaps:
        return None
    middle = _middle(max(gaps, key=lambda gap: gap[1] / gap[0]), plan)
    assert middle is not None, "as asked above"
    return Step((middle,), plan.replicates)


def first_sizes(plan: Plan) -> tuple[int, ...]:
    """The sizes of the first look, from `low` to `high`."""
    count = max(2, plan.num_first)
    low, high = (plan.choices[0], plan.choices[-1]) if plan.choices else (plan.low, plan.high)
    inner = [_nearest(low * (high / low) ** (place / (count - 1)), low, high, plan) for place in range(1, count - 1)]
    return tuple(sorted({low, high, *(size for size in inner if size is not None)}))


def _gaps(known: Sequence[Probe]) -> list[tuple[int, int]]:
    """Neighbouring sizes whose signs differ.

    What cannot be told counts as a sign of its own, so that its edges are found. From where nothing can be measured any
    more is of interest only while the search has not yet seen both signs.
    """
    has_crossed = {FASTER, SLOWER} <= {probe.sign for probe in known}
    found = []
    for smaller, larger in itertools.pairwise(known):
        signs = {_kind(smaller.sign), _kind(larger.sign)}
        if len(signs) == 2 and not (LOST in signs and has_crossed):
            found.append((smaller.size, larger.size))
    return found


def _kind(sign: str) -> str:
    return UNSURE if sign == SAME else sign


def _middle(gap: tuple[int, int], plan: Plan) -> int | None:
    """The size halfway between two on a logarithmic scale; None where they are near enough, or nothing lies between."""
    low, high = gap
    if high - low <= max(plan.step, plan.within * high):
        return None
    return _nearest(math.sqrt(low * high), low, high, plan)


def _nearest(size: float, low: int, high: int, plan: Plan) -> int | None:
    """The size that there is nearest to this one and lies between the two; None where none does."""
    if plan.choices:
        between = [choice for choice in plan.choices if low < choice < high]
    else:
        below = math.floor(size / plan.step) * plan.step
        between = [each for each in (below, below + plan.step) if low < each < high]
    return min(between, key=lambda each: abs(each - size), default=None)


def _join(ratios: Sequence[float]) -> Joined:
    return join_replicates(ratios, NUM_LOOKS)
