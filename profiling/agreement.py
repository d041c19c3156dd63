"""Whether a speed-up measured again agrees with what a row says: whether the two differ by no more than their noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from profiling.ratios import SMALLEST_CLAIM
from profiling.wording import rounded_percent

# Two figures that are alike within more than this are not said to agree: nearly all are.
WIDEST_AGREEMENT = 0.25


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    """A speed-up as a row tells it: with the ends of its interval and its noise floor, None where it has none.

    `processes` counts the replicates behind it.
    """

    speedup: float
    low: float | None
    high: float | None
    processes: int
    noise_floor: float | None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Told | None:
        """What a row of a table says (None in an empty cell); None where it says no speed-up."""
        if row["speedup"] is None or not 0 < row["speedup"] < math.inf:
            return None
        return cls(
            speedup=float(row["speedup"]),
            low=row["speedup_low"],
            high=row["speedup_high"],
            processes=int(row["num_speedups"] or 1),
            noise_floor=row["noise_floor"],
        )

    @property
    def half_width(self) -> float | None:
        """Half the width of its interval, as a logarithm."""
        return math.log(self.high / self.low) / 2 if self.low and self.high else None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.speedup:.3f}, without an interval"
        return f"{self.speedup:.3f} [{self.low:.3f}, {self.high:.3f}]"


def agreement(said: Told, found: Told) -> tuple[bool | None, str]:
    """Whether they agree (None where chance reaches so far, or nobody knows how far, that it cannot be told), in words.

    The margin is the half-width of the interval of their difference: the root of the sum of both squares. A single
    process strays √n times as far as the mean of n; so where one side has no interval, the other's serves, widened.
    It is never below 2 %, nor below either noise floor.
    """
    words = f"the row said {said}, here {found}"
    mine, theirs = found.half_width, said.half_width
    if mine is None and theirs is None:
        return None, f"{words}: one process each, which tells no noise; measure with more"
    mine = (theirs or 0.0) * math.sqrt(said.processes) if mine is None else mine
    theirs = mine * math.sqrt(found.processes) if theirs is None else theirs
    floor = max(said.noise_floor or 0.0, found.noise_floor or 0.0)
    noise = max(math.log1p(SMALLEST_CLAIM), math.hypot(mine, theirs), math.log1p(floor))
    agrees = abs(math.log(found.speedup / said.speedup)) <= noise
    if agrees and noise > math.log1p(WIDEST_AGREEMENT):
        return None, f"{words}: too noisy to tell; measure with more processes, or in a quieter moment"
    verdict = "agree, within" if agrees else "differ, by more than"
    return agrees, f"{words}: they {verdict} {rounded_percent(math.expm1(noise))} of noise"
