"""The shapes that times may have as sizes grow, each fitted by least squares, and the exponent it has at the large end.

A straight line in logarithms (a power law); a line with a step, as where another kernel runs from some size on; and the
smooth bends: a parabola and a cubic in logarithms, an overhead beside a power law, and `a + b·x + c·x²`.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from profiling.laws.fitting import fit_curve

# The exponents among which that beside an overhead is sought, and how often the best of them is refined.
EXPONENTS = np.linspace(0.1, 3.0, 59)
NUM_REFINEMENTS = 8

_Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Shape:
    """One shape, fitted.

    Attributes:
        num_terms: the numbers that were fitted.
        squares: the sum of the squares of what it leaves of the logarithms.
        slope: its exponent at the largest size.
        reach: the slope's deviation for each unit of the logarithms' own.
        step_at: of a line with a step, the position of the first size beyond it; None of others.
        step: how far it steps there, in the logarithm.
    """

    num_terms: int
    squares: float
    slope: float
    reach: float
    step_at: int | None = None
    step: float = 0.0

    @property
    def is_smooth_bend(self) -> bool:
        """Whether its exponent changes from size to size."""
        return self.num_terms > 2 and self.step_at is None

    @property
    def cost(self) -> int:
        """The numbers that were chosen by the times: where it steps is one as well."""
        return self.num_terms + (self.step_at is not None)


def line(x: _Array, y: _Array) -> Shape:
    """The power law through logarithms `y` of times at logarithms `x` of sizes, at least three."""
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread
    left = y - y.mean() - slope * centred
    return Shape(2, float(left @ left), slope, 1 / math.sqrt(spread))


def lines_with_step(x: _Array, y: _Array) -> list[Shape]:
    """The power law with a step, for each place at which it may lie: between any two sizes, of at least four.

    By sums from the end on, so that thousands of sizes take no longer than a few.
    """
    count, whole = len(x), line(x, y)
    if count < 4:
        return []
    centred = x - x.mean()
    left = y - y.mean() - whole.slope * centred
    beyond = np.arange(count - 1, 0, -1)  # sizes beyond a step before 1, 2, …
    along, rest = (np.cumsum(each[::-1])[::-1][1:] for each in (centred, left))
    spread = float(centred @ centred)
    own = beyond - beyond**2 / count - along**2 / spread  # what of the step no line can follow
    steps = rest / own
    return [
        Shape(
            3,
            max(0.0, whole.squares - float(step * gained)),
            whole.slope - float(step * shared) / spread,
            math.sqrt(1 / spread + float(shared**2 / spread**2 / alone)),
            position,
            float(step),
        )
        for position, (step, gained, shared, alone) in enumerate(zip(steps, rest, along, own, strict=True), start=1)
    ]


def parabola(x: _Array, y: _Array) -> tuple[Shape, float, float]:
    """The parabola in logarithms of at least three sizes; its square term, and how far that goes for a unit of y's."""
    shape, terms, reaches = _polynomial(x, y, 2)
    return shape, float(terms[2]), float(reaches[2])


def _polynomial(x: _Array, y: _Array, degree: int) -> tuple[Shape, _Array, _Array]:
    """A polynomial around the largest size; its terms, and how far each goes for a unit of y's."""
    columns = np.vander(x - x[-1], degree + 1, increasing=True)
    solving = np.linalg.pinv(columns)
    terms, reaches = solving @ y, np.sqrt(np.square(solving).sum(1))
    left = y - columns @ terms
    return Shape(degree + 1, float(left @ left), float(terms[1]), float(reaches[1])), terms, reaches


def smooth_bends(x: _Array, y: _Array, *, with_cubic: bool = False) -> list[Shape]:
    """The parabola, the curve of three terms, the cubic where asked for, and the overhead where one fits."""
    curve = fit_curve(list(np.exp(x)), list(np.exp(y)))
    left = y - np.log([curve.at(size) for size in np.exp(x)])
    shapes = [parabola(x, y)[0], Shape(3, float(left @ left), curve.slope.value, curve.reach)]
    shapes += [_polynomial(x, y, 3)[0]] if with_cubic else []
    beside = overhead_and_power(x, y)
    return shapes if beside is None else [*shapes, beside]


def overhead_and_power(x: _Array, y: _Array) -> Shape | None:
    """A time that is always there, and a power law beside it; None where no exponent leaves both above 0.

    As `exp(level)·(share + (1 - share)·u^k)`, u being the size over the largest: the exponent at the end is
    `k·(1 - share)`. The best of many k first, then Gauss and Newton.
    """
    from_end = x - x[-1]
    start = _best_of_exponents(from_end, y)
    if start is None:
        return None
    level, share, k = start
    for _ in range(NUM_REFINEMENTS):
        columns, left = _overhead_columns(from_end, y, level, share, k)
        better = np.linalg.lstsq(columns, left, rcond=None)[0]
        better = better * min(1.0, 0.3 / max(0.3, float(np.abs(better[1:]).max())))
        level += float(better[0])
        share = min(0.98, max(1e-3, share + float(better[1])))
        k = min(3.5, max(0.1, k + float(better[2])))
    columns, left = _overhead_columns(from_end, y, level, share, k)
    gradient = np.array([0.0, -k, 1 - share])
    variance = float(gradient @ np.linalg.pinv(columns.T @ columns) @ gradient)
    return Shape(3, float(left @ left), k * (1 - share), math.sqrt(max(0.0, variance)))


def _best_of_exponents(from_end: _Array, y: _Array) -> tuple[float, float, float] | None:
    """Level, share and exponent of the best fit to the relative errors, both parts above 0."""
    values = np.exp(y)
    flat = (1 / values)[:, None]
    rising = np.exp(from_end[:, None] * EXPONENTS[None, :]) / values[:, None]
    flats, both, risings = (flat * flat).sum(0), (flat * rising).sum(0), (rising * rising).sum(0)
    determinant = flats * risings - both**2
    overhead = (risings * flat.sum(0) - both * rising.sum(0)) / determinant
    power = (flats * rising.sum(0) - both * flat.sum(0)) / determinant
    errors = np.square(overhead * flat + power * rising - 1).sum(0)
    errors[(overhead <= 0) | (power <= 0)] = np.inf
    best = int(np.argmin(errors))
    if not math.isfinite(errors[best]):
        return None
    end = float(overhead[best] + power[best])
    return math.log(end), float(overhead[best]) / end, float(EXPONENTS[best])


def _overhead_columns(from_end: _Array, y: _Array, level: float, share: float, k: float) -> tuple[_Array, _Array]:
    """How the logarithm changes with level, share and exponent, and what is left of it."""
    rising = np.exp(from_end * k)
    value = share + (1 - share) * rising
    columns = np.stack([np.ones_like(y), (1 - rising) / value, (1 - share) * rising * from_end / value], axis=1)
    return columns, y - level - np.log(value)
