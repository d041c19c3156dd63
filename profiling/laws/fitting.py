"""Fits of growth: the exponent of a power law, whether the curve bends, and the exponent at its large end.

Everything is fitted relative to the values, so that a small size counts as much as a large one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from profiling.intervals import LEVEL, t_quantile

# A power law has two unknowns, and only from a third size on the sizes can disagree with it.
MIN_SIZES = 3
# To tell a bend from noise takes more: with four, one made-up law in three that seemed to bend told a wrong exponent.
MIN_SIZES_FOR_BEND = 5
# Below it a bend is there, and of no use to anyone.
SMALLEST_BEND = 0.05

_Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Exponent:
    """An exponent and its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """How far the interval reaches, on the side on which it reaches further."""
        return max(self.high - self.value, self.value - self.low)


@dataclasses.dataclass(frozen=True)
class Curve:
    """`constant + linear·x + square·x²`, no term below 0, fitted with least relative error.

    Attributes:
        constant, linear, square: the terms, in the unit of the values.
        num_terms: how many of them are above 0.
        worst: the largest relative error of the fit at a size.
        spread: the relative errors' deviation, by their degrees of freedom; infinite where there are none.
        slope: the exponent at the largest size (d log y / d log x); its interval is infinite where there are no more
            sizes than terms.
        reach: the slope's deviation for each unit of the values' relative deviation.
    """

    constant: float
    linear: float
    square: float
    num_terms: int
    worst: float
    spread: float
    slope: Exponent
    reach: float

    def at(self, size: float) -> float:
        """The curve's value."""
        return self.constant + self.linear * size + self.square * size * size

    def size_at(self, value: float) -> float:
        """The size at which the curve reaches `value`: 0 where it starts above it, inf where it never does.

        The larger root of the square, written so that nothing cancels where the square term is small.
        """
        room = value - self.constant
        if room <= 0:
            return 0.0
        root = self.linear + math.sqrt(self.linear**2 + 4 * self.square * room)
        return 2 * room / root if root > 0 else math.inf


def power_exponent(sizes: Sequence[float], values: Sequence[float]) -> Exponent:
    """The exponent k of `y = c·x^k` by least squares on logarithms, with the interval of Student's t.

    Raises:
        ValueError: fewer than three different sizes, or a size or value that is not above 0.
    """
    x, y = _logs(sizes, values)
    return _coefficient(np.stack([np.ones_like(x), x], axis=1), y, 1)


def bends(sizes: Sequence[float], values: Sequence[float], curve: Curve) -> bool:
    """Whether the values bend away from a power law by more than noise.

    Either the square of a parabola through the logarithms is told from 0 with 95 %, or the fitted curve is so much
    nearer to the values that noise would not do it: by the t of its degrees of freedom. And the exponent at the largest
    size differs from that over all sizes by at least `SMALLEST_BEND`.
    """
    if len(set(sizes)) < MIN_SIZES_FOR_BEND:
        return False
    x, y = _logs(sizes, values)
    x = x - x.mean()
    line, line_spread = _least_squares(np.stack([np.ones_like(x), x], axis=1), y)
    square = _coefficient(np.stack([np.ones_like(x), x, x * x], axis=1), y, 2)
    is_parabola = not square.low <= 0 <= square.high and abs(2 * square.value * x.max()) >= SMALLEST_BEND
    freedom = len(sizes) - curve.num_terms
    if freedom < 1:
        return is_parabola
    is_curve = line_spread > (t_quantile(LEVEL, freedom) * curve.spread) ** 2
    return is_parabola or (is_curve and abs(curve.slope.value - float(line[1])) >= SMALLEST_BEND)


def fit_curve(sizes: Sequence[float], values: Sequence[float]) -> Curve:
    """The curve of at most three terms that fits best; fewer sizes than terms leave terms out, the square first.

    Raises:
        ValueError: no size, or a size or value that is not above 0.
    """
    _require_positive(sizes, values)
    largest = max(sizes)
    x, y = np.asarray(sizes, dtype=np.float64) / largest, np.asarray(values, dtype=np.float64)
    powers = np.stack([np.ones_like(x), x, x * x], axis=1) / y[:, None]
    num_terms = min(3, len(set(sizes)))
    terms, kept = _non_negative(powers[:, :num_terms])
    errors = powers[:, :num_terms] @ terms - 1
    freedom = len(powers) - len(kept)
    a, b, c = [*terms, 0.0, 0.0][:3]
    slope, reach = _slope((float(a), float(b), float(c)), powers, kept, errors)
    return Curve(
        constant=float(a),
        linear=float(b) / largest,
        square=float(c) / largest**2,
        num_terms=len(kept),
        worst=float(np.abs(errors).max()),
        spread=math.sqrt(float(np.square(errors).sum()) / freedom) if freedom else math.inf,
        slope=slope,
        reach=reach,
    )


def _non_negative(powers: _Array) -> tuple[_Array, list[int]]:
    """The terms that come nearest to 1 in each row with none below 0, and which of them are in: all sets are tried."""
    best = math.inf
    found, kept = np.zeros(powers.shape[1]), [0]
    for count in range(1, powers.shape[1] + 1):
        for chosen in itertools.combinations(range(powers.shape[1]), count):
            terms = np.linalg.lstsq(powers[:, chosen], np.ones(len(powers)), rcond=None)[0]
            error = float(np.square(powers[:, chosen] @ terms - 1).sum())
            # Not for a gain below what float64 can tell: the fewer terms stay.
            if (terms >= 0).all() and error < best * (1 - 1e-9) - 1e-24:
                best, kept = error, list(chosen)
                found = np.zeros(powers.shape[1])
                found[kept] = terms
    return found, kept


def _slope(
    terms: tuple[float, float, float], powers: _Array, kept: list[int], errors: _Array
) -> tuple[Exponent, float]:
    """The exponent at x = 1 with its interval by the delta method, and its deviation for one unit of the errors'."""
    a, b, c = terms
    value, top = a + b + c, b + 2 * c
    exponent = top / value
    gradient = np.array([-top, value - top, 2 * value - top])[kept] / value**2
    chosen = powers[:, kept]
    reach = math.sqrt(max(0.0, float(gradient @ np.linalg.pinv(chosen.T @ chosen) @ gradient)))
    freedom = len(powers) - len(kept)
    if freedom < 1:
        return Exponent(exponent, -math.inf, math.inf), reach
    half = t_quantile(LEVEL, freedom) * reach * math.sqrt(float(np.square(errors).sum()) / freedom)
    return Exponent(exponent, exponent - half, exponent + half), reach


def _coefficient(columns: _Array, y: _Array, position: int) -> Exponent:
    """One coefficient of a linear fit, with its interval."""
    terms, variance = _least_squares(columns, y)
    spread = variance * float(np.linalg.inv(columns.T @ columns)[position, position])
    half = t_quantile(LEVEL, len(y) - columns.shape[1]) * math.sqrt(max(0.0, spread))
    value = float(terms[position])
    return Exponent(value, value - half, value + half)


def _least_squares(columns: _Array, y: _Array) -> tuple[_Array, float]:
    """The terms, and the variance of what they leave, by its degrees of freedom."""
    terms = np.asarray(np.linalg.lstsq(columns, y, rcond=None)[0], dtype=np.float64)
    return terms, float(np.square(columns @ terms - y).sum()) / (len(y) - columns.shape[1])


def _logs(sizes: Sequence[float], values: Sequence[float]) -> tuple[_Array, _Array]:
    _require_positive(sizes, values)
    if len(set(sizes)) < MIN_SIZES:
        raise ValueError(f"sizes must hold at least {MIN_SIZES} different ones, not {len(set(sizes))}")
    return np.log(np.asarray(sizes, dtype=np.float64)), np.log(np.asarray(values, dtype=np.float64))


def _require_positive(sizes: Sequence[float], values: Sequence[float]) -> None:
    if len(sizes) != len(values) or not sizes:
        raise ValueError(f"sizes and values must be as many, at least one: not {len(sizes)} and {len(values)}")
    for number in (*sizes, *values):
        if not 0 < number < math.inf:
            raise ValueError(f"sizes and values must be above 0 and finite, not {number}")
