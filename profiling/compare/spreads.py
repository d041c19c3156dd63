"""What the replicates of a run say of a quantity, and the change between two sides of it with its interval.

Everything is in logarithms, so that twice and half cancel. A run gives its values replicate by replicate; a report
gives their mean and interval, from which the same three figures come back, since the interval was reckoned from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from profiling.compare.run_to_run import UNKNOWN, Floats, Runs, RunToRun
from profiling.intervals import LEVEL, t_quantile


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


def change_half_widths(sides: tuple[Runs, Runs], levels: Floats, spread: RunToRun = UNKNOWN) -> Floats:
    """Half the width of the interval of the difference of two sides' means, of logarithms, row by row.

    With one run a side it is Welch's: the runs may spread differently and have different numbers of replicates, and the
    degrees of freedom are rounded down. With more, what whole runs differ by is added to it: row by row as one more
    variance, and what all rows of a run share as an interval of its own, at 95 % whatever the level of the rows, since
    it is one quantity that they all have in common. NaN where a spread within a run is unknown.

    Args:
        sides: what BASE and NEW say.
        levels: the level of each row's interval.
        spread: what is known of the spread from run to run.
    """
    half = np.full(len(levels), np.nan)
    shares = 1 / np.maximum(sides[0].count, 1) + 1 / np.maximum(sides[1].count, 1)
    for place, level in enumerate(levels.tolist()):
        terms = [term for side in sides for term in _terms(side, place)]
        if not terms or not all(math.isfinite(error) for error, _ in terms):
            continue
        share = float(shares[place])
        if spread.freedom_rows:
            terms.append((spread.of_rows * math.sqrt(share), spread.freedom_rows))
        error = math.hypot(*(each for each, _ in terms))
        shared = t_quantile(LEVEL, spread.freedom) * spread.of_runs * math.sqrt(share) if spread.freedom else 0.0
        half[place] = math.hypot(t_quantile(level, _freedom(terms)) * error, shared)
    return half


def _terms(side: Runs, place: int) -> list[tuple[float, int]]:
    """What each run adds to the standard error of the side's mean, with its degrees of freedom."""
    held = [
        (error, number)
        for mean, error, number in zip(
            side.means[:, place].tolist(), side.errors[:, place].tolist(), side.numbers[:, place].tolist(), strict=True
        )
        if math.isfinite(mean)
    ]
    return [(error / len(held), int(number) - 1) for error, number in held]


def _freedom(terms: Sequence[tuple[float, int]]) -> int:
    """Welch and Satterthwaite's degrees of freedom, rounded down: never fewer than the smallest term has by itself."""
    largest = max(error for error, _ in terms)
    if largest == 0:  # nothing moved anywhere
        return min(freedom for _, freedom in terms)
    squares = [((error / largest) ** 2, freedom) for error, freedom in terms]
    freedom = math.fsum(each for each, _ in squares) ** 2 / math.fsum(each * each / free for each, free in squares)
    # Not below what rounding alone would take from a whole number.
    return max(1, math.floor(freedom + 1e-9))
