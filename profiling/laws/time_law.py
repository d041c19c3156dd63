"""Which exponent of a contender's times can be told, with an interval that spans every shape that explains them.

The replicates say how exactly each size was timed (`replicate_error`), and so whether a power law misses by more than
that. Where it does not, its exponent over all sizes is told. Where it does, the exponent at the largest size is told:
not of the one shape that fits best, which noise may have chosen, but of all that fit nearly as well, and of the last
sizes alone, since the growth may be none of these shapes. Where only a step explains the times, the sizes beyond it
speak. And nothing is told where the interval would be of no use.

In made-up runs (`tests/benchmarks/laws_coverage.py`: power laws, overheads, a layer's operations; 4 to 12 sizes, 3 to
10 replicates) the intervals told hold the truth in 99.7 to 100 % at 1, 3, 6 and 10 % of noise in a replicate, and 100,
96, 73 and 48 % of the runs are told one. Beside a step of -20 to +30 %, at most 1.3 % of the runs of a noise are told
an exponent that neither side has. Without replicates 98 to 99.8 % hold, and 83 to 29 % are told.

Two steps, growth that slackens (`S^2 / (1 + S / c)`) and a cliff, as where a cache overflows, are none of these shapes:
of what is told of them, 99, 99 and 90 to 97 % hold, and the others miss the exponent at the end by hundredths, at most
a tenth: a cliff may turn between the last two of five sizes, where nothing shows it. Three steps, or a steep cliff
with the largest size in its midst, are held less often: in some tries in 58 to 72 % of what is told.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from profiling.intervals import LEVEL, t_quantile
from profiling.laws.fitting import MIN_SIZES, Exponent
from profiling.laws.replicate_error import SizeTimes
from profiling.laws.shapes import Shape, line, lines_with_step, parabola, smooth_bends

# The standard normal value that one misfit in twenty passes by chance.
MISFIT = 1.645
# The same for the sizes beyond a step, which were chosen: one in ten.
MISFIT_BEYOND = 1.28
# Shapes whose Akaike criterion is so much worse than the best one's are twenty times less likely.
LESS_LIKELY = 6.0
# From so many sizes on the times may be none of the shapes of three terms, and be told so: a cubic is one of the bends.
MANY_SIZES = 6
# The last sizes, which speak for themselves: those from a quarter of the largest on; more, where these lie so near to
# each other that an error of a logarithm moves the exponent by more than six times as much.
LAST_SPAN, FARTHEST_REACH = 4.0, 6.0
# So many deviations of what they say are in the interval: with fewer, one in ten of the made-up cliffs were missed.
LAST_DEVIATIONS = 1.15
# The exponent at the largest size is told no more exactly than by as much to either side.
LEAST_REACH = 0.05
# Times that no measurement tells apart: where nothing scatters, nothing is divided by 0.
NOTHING = 1e-9

_Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Told:
    """What is told of the times.

    Attributes:
        exponent: of the `num_fitted` last sizes; of the largest one where `is_end`. None where no shape is left that
            has one.
        num_fitted: how many sizes it rests on.
        is_end: whether the times bend.
        step_at, step: where nothing but a step explains the times, the position of the first size beyond it, and the
            factor by which the times step there.
    """

    exponent: Exponent | None
    num_fitted: int
    is_end: bool = False
    step_at: int | None = None
    step: float = 1.0


@dataclasses.dataclass(frozen=True)
class _Error:
    """The deviation of a logarithm and the degrees of freedom behind it."""

    deviation: float
    freedom: int

    def reach_of(self, shape: Shape) -> float:
        return t_quantile(LEVEL, self.freedom) * shape.reach * self.deviation

    def misfit(self, shape: Shape) -> float:
        """By what factor the squares that a shape leaves are too many."""
        return shape.squares / self.deviation**2

    def criterion(self, shape: Shape) -> float:
        """Akaike's: what a shape leaves, and what its terms cost."""
        return self.misfit(shape) + 2 * shape.cost


def time_law(sizes: Sequence[int], times: SizeTimes) -> Told:
    """What can be told of times at rising sizes, at least three."""
    x, y = np.log(np.asarray(sizes, dtype=np.float64)), times.logs
    straight = line(x, y)
    if not _is_bent(x, y, straight, times):
        return Told(_straight(x, y, straight, times), len(sizes))
    if len(sizes) <= MIN_SIZES + (times.error is None):  # then a bend leaves nothing to tell its error by
        return Told(None, len(sizes), is_end=True)
    with_cubic = len(sizes) >= MANY_SIZES and times.error is not None  # else it leaves too little to tell its error by
    bends, steps = smooth_bends(x, y, with_cubic=with_cubic), lines_with_step(x, y)
    error = _error_of([straight, *bends, *steps], bends, len(sizes), times)
    best = min(error.criterion(shape) for shape in (straight, *bends, *steps))
    likely = [shape for shape in (straight, *bends, *steps) if error.criterion(shape) <= best + LESS_LIKELY]
    if any(shape.is_smooth_bend for shape in likely):
        told = _spanning(likely, error, best)
        return Told(_with_last_sizes(told, x, y, error), len(sizes), is_end=True)
    return _beyond_step(x, likely, times)


def _is_bent(x: _Array, y: _Array, straight: Shape, times: SizeTimes) -> bool:
    """Whether a power law misses the times by more than their error: altogether, or by a bend."""
    count = len(x)
    error = None if times.error is None else _Error(times.error, times.freedom)
    if error is not None and _surprise(error.misfit(straight) / (count - 2), count - 2, error.freedom) > MISFIT:
        return True
    if count == MIN_SIZES:
        return False
    shape, square, reach = parabola(x, y)
    error = error or _own_error(shape, count)
    return abs(square) > t_quantile(LEVEL, error.freedom) * reach * error.deviation


def _straight(x: _Array, y: _Array, straight: Shape, times: SizeTimes) -> Exponent:
    """The exponent of a power law. A step may hide in the times, so the exponents beside one are in the interval.

    The error is that of the replicates, and what the line leaves can only raise it.
    """
    count = len(x)
    error = _own_error(straight, count)
    if times.error is not None:
        freedom = times.freedom
        pooled = (freedom * times.error**2 + straight.squares) / (freedom + count - 2)
        error = _Error(max(times.error, math.sqrt(pooled)), freedom)
    return _span(straight.slope, [straight, *lines_with_step(x, y)], error)


def _error_of(shapes: Sequence[Shape], bends: Sequence[Shape], count: int, times: SizeTimes) -> _Error:
    """The replicates' error; what the best shape leaves where that is more, or where there are no replicates."""
    if times.error is None:
        best = min(bends, key=lambda shape: shape.squares)
        return _own_error(best, count, num_chosen=1)  # which of them is best was chosen by the times as well
    error = _Error(times.error, times.freedom)
    best = min(shapes, key=lambda shape: shape.squares / (count - shape.num_terms))
    freedom = count - best.num_terms
    if _surprise(error.misfit(best) / freedom, freedom, error.freedom) <= MISFIT:
        return error
    return _Error(_own_error(best, count).deviation, min(freedom, error.freedom))


def _own_error(shape: Shape, count: int, num_chosen: int = 0) -> _Error:
    freedom = count - shape.num_terms - num_chosen
    return _Error(max(NOTHING, math.sqrt(shape.squares / freedom)), freedom)


def _spanning(likely: Sequence[Shape], error: _Error, best: float) -> Exponent:
    """The slopes of all likely shapes by how likely each is, and an interval that holds that of each."""
    weights = [math.exp((best - error.criterion(shape)) / 2) for shape in likely]
    value = sum(weight * shape.slope for weight, shape in zip(weights, likely, strict=True)) / sum(weights)
    return _span(value, likely, error)


def _with_last_sizes(told: Exponent, x: _Array, y: _Array, error: _Error) -> Exponent:
    """The same exponent, its interval widened to what the last sizes say by themselves, lest every shape be wrong.

    That is the end of their own parabola, give or take its deviation; from `MANY_SIZES` on also their plain exponent,
    which differs by how much the exponent changes among them.
    """
    within = int((x >= x[-1] - math.log(LAST_SPAN) - NOTHING).sum())
    for count in range(max(MIN_SIZES, within), len(x) + 1):
        last, times = x[-count:], y[-count:]
        end = parabola(last, times)[0]
        if end.reach <= FARTHEST_REACH:
            break
    reach = LAST_DEVIATIONS * end.reach * error.deviation
    ends = [told.value - LEAST_REACH, told.value + LEAST_REACH, end.slope - reach, end.slope + reach]
    ends += [line(last, times).slope] if len(x) >= MANY_SIZES else []
    return Exponent(told.value, min(told.low, *ends), max(told.high, *ends))


def _span(value: float, shapes: Sequence[Shape], error: _Error) -> Exponent:
    reaches = [(shape.slope, error.reach_of(shape)) for shape in shapes]
    return Exponent(value, min(k - reach for k, reach in reaches), max(k + reach for k, reach in reaches))


def _beyond_step(x: _Array, likely: Sequence[Shape], times: SizeTimes) -> Told:
    """What the sizes beyond the last place tell at which the step may lie, where they are three and follow a line."""
    steps = [shape for shape in likely if shape.step_at is not None]
    if not steps:
        return Told(None, len(x), is_end=True)
    found = max(steps, key=lambda shape: shape.step_at or 0)
    best = min(steps, key=lambda shape: shape.squares)
    untold = Told(None, len(x), step_at=best.step_at, step=math.exp(best.step))
    count = len(x) - (found.step_at or 0)
    if count < MIN_SIZES or times.error is None:
        return untold
    x, times = x[-count:], times.last(count)
    straight = line(x, times.logs)
    misfit = _Error(times.error or NOTHING, times.freedom).misfit(straight) / (count - 2)
    if _surprise(misfit, count - 2, times.freedom) > MISFIT_BEYOND:
        return untold
    return Told(_straight(x, times.logs, straight, times), count, step_at=best.step_at, step=math.exp(best.step))


def _surprise(ratio: float, freedom: int, error_freedom: int) -> float:
    """The standard normal value that is as seldom passed as an F of those degrees of freedom passes `ratio`.

    By Paulson (1942): right to some hundredths from three degrees of freedom of the error on.
    """
    root, own, of_error = math.cbrt(ratio), 2 / (9 * freedom), 2 / (9 * error_freedom)
    return ((1 - of_error) * root - (1 - own)) / math.sqrt(of_error * root**2 + own)
