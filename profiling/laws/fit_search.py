"""The longest sequence that fits into memory: which size to try next, from what fitted and what did not. Pure.

It goes upwards from a size that is safe, by doubling at most, towards the size that the memory law of what has fitted
predicts; and between what fitted and what did not it closes in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from profiling.laws.fitting import fit_curve
from profiling.quoted import quoted
from profiling.workload import GridError, require_size

OK, OOM, REFUSED = "ok", "oom", "refused"
# The law has three terms: from fewer sizes it would be one of the terms' choice.
MIN_SIZES_FOR_LAW = 3
# A size that is no nearer than this part of the gap to either end closes it at the same pace as halving would.
EDGE = 0.25


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitPlan:
    """What is searched, and how exactly.

    Attributes:
        low, high: the shortest and the longest sequence of interest.
        step: the others are multiples of it.
        within: how near what fits and what does not are to be brought, as a part of the longer one.
        max_sizes: that are tried at all.

    Raises:
        GridError: a value breaks a rule; the message names the argument, the rule and the value.
    """

    low: int = 128
    high: int = 2**20
    step: int = 128
    within: float = 0.05
    max_sizes: int = 24

    def __post_init__(self) -> None:
        """Checks every rule once."""
        for name in ("low", "high", "step", "max_sizes"):
            require_size(name, getattr(self, name))
        if self.low > self.high:
            raise GridError(f"the search must go from a smaller size to a larger, not from {self.low} to {self.high}")
        if not 0 < self.within < 1:
            raise GridError(f"within must lie between 0 and 1, not {quoted(self.within)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of one size.

    Attributes:
        size: the sequence's length.
        status: `ok`, or as the status of a row: `oom`, `refused` (not tried), `timeout`, `crashed`, `error` ….
        reason: the status in words; empty where it ran.
        peak_mib: the most that the call itself held.
        held_mib: the most that its process had in memory, beyond what torch alone takes.
        call_s: seconds of a call.
        limit_mib: what its process might hold in all; None for no limit.
        base_mib: of that, what it held with torch loaded.
        compiler_mib: what the compiler had added; None where nothing was compiled.
        before_mib: what it held before the call in all, the layer and its input included.
        asked_mib: what it was refused.
        failed_at_mib: what it held when it was refused, at least.
        compile_s: seconds that compiling took.
    """

    size: int
    status: str = OK
    reason: str = ""
    peak_mib: float | None = None
    held_mib: float | None = None
    call_s: float | None = None
    limit_mib: float | None = None
    base_mib: float | None = None
    compiler_mib: float | None = None
    before_mib: float | None = None
    asked_mib: float | None = None
    failed_at_mib: float | None = None
    compile_s: float | None = None


def next_size(
    tried: Iterable[Tried], plan: FitPlan, start: int, room_mib: float | None, *, foretold: int | None = None
) -> int | None:
    """The size to try next; None where it is known what fits, as exactly as the plan asks.

    Args:
        tried: so far, in any order.
        plan: what is searched.
        start: a size that is safe by all that is known beforehand.
        room_mib: what a process may take; None where that is unknown.
        foretold: the size that a law measured before predicts; the search then starts there, and closes in around it.
    """
    known = sorted(tried, key=lambda each: each.size)
    if len(known) >= plan.max_sizes:
        return None
    fitted = [each for each in known if each.status == OK]
    failed = [each.size for each in known if each.status != OK]
    if not known:
        return max(plan.low, min(_down(start if foretold is None else foretold, plan), plan.high))
    if not fitted:
        return None if min(failed) <= plan.low else max(plan.low, _lower(failed, plan, foretold))
    largest = fitted[-1].size
    above = [size for size in failed if size > largest]
    predicted = predicted_size(fitted, room_mib) or foretold
    if not above:
        return _upwards(largest, predicted, plan)
    return _between(largest, min(above), predicted, plan)


def predicted_size(fitted: Sequence[Tried], room_mib: float | None) -> int | None:
    """The size at which the memory law of these sizes reaches the room; None where too few, or no room is known."""
    held = [(each.size, each.held_mib) for each in fitted if each.held_mib]
    if room_mib is None or len(held) < MIN_SIZES_FOR_LAW:
        return None
    size = fit_curve([size for size, _ in held], [mib for _, mib in held]).size_at(room_mib)
    return min(int(min(size, 2.0**62)), 2**31 - 1)


def _upwards(largest: int, predicted: int | None, plan: FitPlan) -> int | None:
    """Towards the prediction, at most twice as far; beyond it in steps of what is asked for."""
    if largest >= plan.high:
        return None
    gap = _gap(largest, plan)
    aim = 2 * largest
    if predicted is not None:
        aim = min(aim, max(_down(predicted, plan), largest + gap))
    size = max(_down(aim, plan), largest + min(gap, plan.step))
    return min(size, plan.high)


def _between(largest: int, smallest: int, predicted: int | None, plan: FitPlan) -> int | None:
    gap = smallest - largest
    if gap <= max(plan.step, plan.within * smallest):
        return None
    aim = None if predicted is None else _down(predicted, plan)
    if aim is None or not largest + EDGE * gap <= aim <= smallest - EDGE * gap:
        aim = _down((largest + smallest) // 2, plan)
    if aim <= largest:
        aim = largest + plan.step
    return aim if largest < aim < smallest else None


def _lower(failed: Sequence[int], plan: FitPlan, foretold: int | None) -> int:
    """Below what failed: a step where it was foretold to fit, for a law is seldom far off; else far."""
    smallest = min(failed)
    if foretold is not None and len(failed) == 1:
        return min(_down(smallest - _gap(smallest, plan), plan), smallest - 1)
    return _down(smallest // 4, plan)


def _gap(size: int, plan: FitPlan) -> int:
    return max(plan.step, _down(int(plan.within * size), plan))


def _down(size: int, plan: FitPlan) -> int:
    return size // plan.step * plan.step
