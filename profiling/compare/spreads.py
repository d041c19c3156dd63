"""What the replicates of one run say of a quantity, and the change between two runs with its interval.

Everything is in logarithms, so that twice and half cancel. A run gives its values replicate by replicate; a report
gives their mean and interval, from which the same three figures come back, since the interval was reckoned from them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiling.intervals import LEVEL, t_quantile

Floats = npt.NDArray[np.float64]


def corrected_level(num_compared: int) -> float:
    """The level of each of so many intervals that hold all of them together with 95 % (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(1, num_compared)


def spreads_of_values(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean of the logarithms, its standard error and the number of replicates, by point and contender.

    Args:
        rows: as measured, one per replicate × point × contender.
        column: a positive quantity; what is missing, 0 or endless in it counts in no replicate.

    Returns:
        The columns `mean`, `error` (NaN below two replicates) and `number`, indexed by (point, contender).
    """
    values = rows[column].to_numpy(dtype=np.float64, na_value=np.nan)
    is_usable = (rows["status"] == "ok").to_numpy(dtype=bool) & (values > 0) & np.isfinite(values)
    usable = rows.loc[is_usable, ["point", "contender"]].assign(log=np.log(values[is_usable]))
    grouped = usable.groupby(["point", "contender"], sort=False)["log"]
    number = grouped.size()
    found = {"mean": grouped.mean(), "error": grouped.std(ddof=1) / np.sqrt(number), "number": number}
    return pd.DataFrame(found)


def error_of_interval(mean: float, low: float, high: float, number: int, num_compared: int) -> float:
    """The standard error behind an interval of `profiling.ratios.join_replicates`; NaN where it has none.

    Args:
        mean: the ratio in its middle.
        low: its lower end.
        high: its upper end.
        number: replicates behind it.
        num_compared: contenders that the interval was corrected for.
    """
    if not (number >= 2 and 0 < low <= mean <= high < math.inf):
        return math.nan
    return (math.log(high) - math.log(low)) / 2 / t_quantile(corrected_level(num_compared), number - 1)


def change_half_widths(errors: tuple[Floats, Floats], numbers: tuple[Floats, Floats], levels: Floats) -> Floats:
    """Half the width of Welch's interval of the difference of two means, of logarithms, row by row.

    The two runs may spread differently and have different numbers of replicates; the degrees of freedom are rounded
    down. NaN where either spread is unknown.

    Args:
        errors: the standard errors of both means.
        numbers: the replicates behind each.
        levels: the level of each row's interval.
    """
    half = np.full(len(levels), np.nan)
    for place in np.flatnonzero(np.isfinite(errors[0]) & np.isfinite(errors[1])):
        first, second = float(errors[0][place]), float(errors[1][place])
        freedom = _freedom(first, second, int(numbers[0][place]), int(numbers[1][place]))
        half[place] = t_quantile(float(levels[place]), freedom) * math.hypot(first, second)
    return half


def _freedom(first: float, second: float, num_first: int, num_second: int) -> int:
    """Welch and Satterthwaite's degrees of freedom, rounded down: never fewer than the smaller run has by itself."""
    largest = max(first, second)
    if largest == 0:  # nothing moved in either
        return min(num_first, num_second) - 1
    a, b = (first / largest) ** 2, (second / largest) ** 2
    freedom = (a + b) ** 2 / (a * a / (num_first - 1) + b * b / (num_second - 1))
    # Not below what rounding alone would take from a whole number.
    return max(1, math.floor(freedom + 1e-9))
