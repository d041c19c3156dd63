"""The changes of time between two sides, row by row, in logarithms, with half the widths of their intervals."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiling.compare.run_to_run import UNKNOWN, Floats, Runs, RunToRun
from profiling.compare.sides import Side
from profiling.compare.spreads import change_half_widths

Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Times:
    """Changes of one measure of time, row by row: logarithms of NEW / BASE, and half the widths of their intervals."""

    logs: Floats
    halves: Floats
    halves_all: Floats
    numbers: tuple[Floats, Floats]
    spread: RunToRun = UNKNOWN


def spreads_at(both: pd.DataFrame, base: Side, new: Side, quantity: str) -> tuple[Runs, Runs]:
    """What the runs of BASE and of NEW say of a quantity, at the rows that both hold."""
    pair = []
    for side, name in ((base, "place_base"), (new, "place_new")):
        places, found = both[name].to_numpy(dtype=np.intp), side.spreads(quantity)
        pair.append(Runs(found.means[:, places], found.errors[:, places], found.numbers[:, places]))
    return pair[0], pair[1]


def changes(
    sides: tuple[Runs, Runs], levels: Floats, level_all: float, spread: RunToRun, *, is_there: Mask, sign: float = 1.0
) -> Times:
    """The changes of time; `sign` is -1 for a quantity that falls where the time rises."""
    logs = np.where(is_there, sign * (sides[1].mean - sides[0].mean), np.nan)
    is_known = np.isfinite(logs)
    halves = [
        np.where(is_known, change_half_widths(sides, each, spread), np.nan)
        for each in (levels, np.full(len(logs), level_all))
    ]
    return Times(logs=logs, halves=halves[0], halves_all=halves[1], numbers=_numbers_of(sides), spread=spread)


def changes_of_medians(both: pd.DataFrame, sides: tuple[Runs, Runs], *, is_there: Mask) -> Times:
    """The changes of the median latency, without intervals: a report holds no time replicate by replicate."""
    base, new = (np.log(floats_of(both, f"latency_median_ms_{side}")) for side in ("base", "new"))
    none = np.full(len(both), np.nan)
    return Times(logs=np.where(is_there, new - base, np.nan), halves=none, halves_all=none, numbers=_numbers_of(sides))


def _numbers_of(sides: tuple[Runs, Runs]) -> tuple[Floats, Floats]:
    """The replicates behind each row, on either side: of its run that has the fewest."""
    base, new = (
        np.where(side.count > 0, np.where(np.isfinite(side.means), side.numbers, np.inf).min(axis=0), 0.0)
        for side in sides
    )
    return base, new


def floats_of(table: pd.DataFrame, name: str) -> Floats:
    """A column as numbers; NaN where it is empty."""
    values: Floats = table[name].to_numpy(dtype=np.float64, na_value=np.nan)
    return values
