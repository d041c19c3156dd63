"""Samples of one point as they are drawn and told: laid out in order, thinned, and divided round by round."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping

import numpy as np
import pandas as pd

from profiling.intervals import median_half_width
from profiling.settings import CLONE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Within:
    """The ratio within one process: its median over `num_rounds` rounds, and the 95 % interval of that median."""

    contender: str
    replicate: int
    num_rounds: int
    median: float
    low: float
    high: float


def reference_in(contender: str, references: Mapping[str, str | None]) -> str | None:
    """What a contender's times are divided into: a clone's are those of its original."""
    return contender.removeprefix(CLONE) if contender.startswith(CLONE) else references.get(contender)


def laid_out(samples: pd.DataFrame) -> pd.DataFrame:
    """The samples and a column `position`: the rounds of all replicates one after the other, from 1."""
    lengths = samples.groupby("replicate")["round"].max().sort_index()
    starts = lengths.cumsum() - lengths
    return samples.assign(position=samples["round"] + samples["replicate"].map(starts))


def thinned(placed: pd.DataFrame, most: int) -> tuple[pd.DataFrame, int]:
    """Every n-th round, so that at most `most` positions are left, and n."""
    last = 0 if placed.empty else int(placed["position"].max())
    step = max(1, -(-last // most))
    return placed[(placed["position"] - 1) % step == 0], step


def ratios_of(placed: pd.DataFrame, references: Mapping[str, str | None]) -> pd.DataFrame:
    """Reference / contender in every round that holds both: contender, replicate, round, position, `ratio`."""
    keys = ["replicate", "round"]
    found = []
    for contender, rows in placed.groupby("contender", sort=False):
        reference = reference_in(str(contender), references)
        of_reference = placed.loc[placed["contender"] == reference, [*keys, "latency_ms"]]
        paired = rows.merge(of_reference, on=keys, suffixes=("", "_reference"))
        found.append(paired.assign(ratio=paired["latency_ms_reference"] / paired["latency_ms"]))
    columns = ["contender", *keys, "position", "ratio"]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def within(ratios: pd.DataFrame) -> list[Within]:
    """The median ratio of each contender in each replicate, with its interval by order statistics."""
    found = []
    for _, rows in ratios.groupby(["contender", "replicate"], sort=False):
        logs = [float(value) for value in np.log(rows["ratio"].to_numpy(dtype=float))]
        middle, half = statistics.median(logs), median_half_width(logs)
        found.append(
            Within(
                contender=str(rows["contender"].iloc[0]),
                replicate=int(rows["replicate"].iloc[0]),
                num_rounds=len(logs),
                median=math.exp(middle),
                low=math.exp(middle - half),
                high=math.exp(middle + half),
            )
        )
    return found
