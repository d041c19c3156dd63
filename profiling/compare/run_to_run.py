"""How far whole runs of the same thing differ by themselves, beyond what their replicates tell.

What holds for all of a run, such as the state of the machine that day, moves all its replicates alike, so that no
number of them shows it: only further runs do. The model has two random effects, each of the same size on both sides:
what all rows of a run share, of which there is one value a run, and what moves row by row. The first is known from as
many degrees of freedom as there are runs beyond one on each side, however many rows they have; the second from as many
times the rows beyond one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from profiling.wording import as_percent, counted

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Runs:
    """What the runs of a side say of a quantity, in logarithms; NaN where a run does not hold the row.

    Attributes:
        means: across the replicates of a run, by run and row.
        errors: their standard errors, likewise.
        numbers: the replicates behind each, likewise.
    """

    means: Floats
    errors: Floats
    numbers: Floats

    @property
    def count(self) -> Floats:
        """How many runs hold each row."""
        found: Floats = np.isfinite(self.means).sum(axis=0).astype(np.float64)
        return found

    @property
    def mean(self) -> Floats:
        """The mean over the runs that hold it, each of the same weight, row by row."""
        with np.errstate(invalid="ignore"):
            found: Floats = np.where(np.isfinite(self.means), self.means, 0.0).sum(axis=0) / self.count
        return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunToRun:
    """What is known of the spread from run to run, as standard deviations of logarithms.

    Attributes:
        of_runs: of the mean over all rows of a run: what they share, and what is left in it of the noise of the rows.
        of_rows: of a row, beyond that and beyond the spread of its replicates.
        freedom: degrees of freedom behind `of_runs`; 0 where nothing is known, as with one run a side.
        freedom_rows: those behind `of_rows`; 0 where nothing is known.
    """

    of_runs: float = 0.0
    of_rows: float = 0.0
    freedom: int = 0
    freedom_rows: int = 0

    def sentence(self, num_runs: tuple[int, int]) -> str:
        """What is known of it, for so many runs of BASE and of NEW."""
        if sum(num_runs) == 2:
            return (
                "unknown, with one run a side: two runs of the same layers may differ by more than these intervals "
                "say. Where it matters, measure once more, and add that run to its side"
            )
        told = f"{num_runs[0]:,} of BASE, {num_runs[1]:,} of NEW"
        if not self.freedom:
            return f"unknown: no row was measured in every run ({told})"
        return (
            f"the mean of a run strays by {as_percent(self.of_runs)}, each row by a further {as_percent(self.of_rows)} "
            f"({told}); the intervals allow for it, known from {counted(self.freedom, 'run')} beyond the first of a "
            "side" + (": with one more they would be far narrower" if self.freedom == 1 else "")
        )

    def to_dict(self, num_runs: tuple[int, int]) -> dict[str, Any]:
        """All of it, ready for JSON; what is not known is null."""
        is_known = self.freedom > 0
        return {
            "num_runs_base": num_runs[0],
            "num_runs_new": num_runs[1],
            "is_known": is_known,
            "run_percent": 100 * self.of_runs if is_known else None,
            "row_percent": 100 * self.of_rows if self.freedom_rows else None,
            "degrees_of_freedom": self.freedom,
            "sentence": self.sentence(num_runs),
        }


UNKNOWN = RunToRun()


def run_to_run(sides: Sequence[Runs], is_judged: npt.NDArray[np.bool_]) -> RunToRun:
    """The spread between the runs of a side, over both sides and over all rows that every run holds.

    Args:
        sides: what BASE and NEW say of a quantity, row by row.
        is_judged: the rows to be looked at.
    """
    is_whole = is_judged & np.all([np.isfinite(side.means).all(axis=0) for side in sides], axis=0)
    freedom, num_rows = sum(len(side.means) - 1 for side in sides), int(is_whole.sum())
    if not freedom or not num_rows:
        return UNKNOWN
    of_runs = of_rows = noise = 0.0
    for side in sides:
        strayed = side.means[:, is_whole] - side.means[:, is_whole].mean(axis=0)
        shared = strayed.mean(axis=1, keepdims=True)
        of_runs += float((shared**2).sum())
        of_rows += float(((strayed - shared) ** 2).sum())
        errors = side.errors[:, is_whole]
        known = errors[np.isfinite(errors)]
        noise += (len(side.means) - 1) * float((known**2).mean()) if len(known) else 0.0
    freedom_rows = freedom * (num_rows - 1)
    beyond = of_rows / freedom_rows - noise / freedom if freedom_rows else 0.0
    return RunToRun(
        of_runs=math.sqrt(of_runs / freedom),
        of_rows=math.sqrt(max(0.0, beyond)),
        freedom=freedom,
        freedom_rows=freedom_rows,
    )
