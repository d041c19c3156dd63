"""The headline: each contender against its reference over all the shapes that both completed."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections import Counter

import pandas as pd

from profiling.charts.metrics import NOT_COMPARABLE, counts_in_mean, with_memory_ratio

SPEED_VERDICTS = ("faster", "slower", "same", "unsure", "provisional")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Headline:
    """One contender against its reference.

    Attributes:
        speedup: geometric mean over the `num_speedups` shapes that both completed and whose check does not fail.
        verdicts: what may be claimed of those speed-ups, each with its number of shapes, the surest first.
        replicates: the fewest and the most replicates behind them.
        noise_floor: the median of how far the reference's clone strayed from 1 at these shapes.
        interval: the 95 % interval of the speed-up, and
        reason: what its verdict rests on, where there is one such shape alone: several have no interval together.
        memory_ratio: geometric mean of peak memory / the reference's, over `num_memory_ratios` shapes.
        max_abs_error: the largest over `num_checked` shapes; inf where an output was not finite.
        num_failed_checks: shapes at which the check fails or raises; their speed-up is not in the mean.
        num_not_comparable: shapes at which the weights cannot correspond; their speed-up is in the mean.
        num_unmeasured: shapes without numbers, points that no layer can have left aside.
    """

    contender: str
    reference: str
    speedup: float | None
    num_speedups: int
    verdicts: tuple[tuple[str, int], ...]
    replicates: tuple[int, int]
    noise_floor: float | None
    interval: tuple[float, float] | None
    reason: str
    memory_ratio: float | None
    num_memory_ratios: int
    max_abs_error: float | None
    num_checked: int
    num_failed_checks: int
    num_not_comparable: int
    num_unmeasured: int


def headlines(table: pd.DataFrame) -> list[Headline]:
    """One headline for each contender that has a reference, in the table's order."""
    compared = with_memory_ratio(table)
    compared = compared[compared["reference"].notna()]
    return [_headline(str(name), rows) for name, rows in compared.groupby("contender", sort=False)]


def _headline(contender: str, rows: pd.DataFrame) -> Headline:
    counting = counts_in_mean(rows)
    speedups = _positive(rows.loc[counting, "speedup"])
    claimed = rows[counting & rows["speedup"].notna() & rows["speed_verdict"].notna()]
    replicates = [int(number) for number in claimed["num_replicates"].dropna()] or [0]
    ratios = _positive(rows["memory_ratio"])
    errors = rows["max_abs_error"].dropna()
    unmeasured = ~rows["status"].isin(["ok", "invalid"])
    return Headline(
        contender=contender,
        reference=str(rows["reference"].iloc[0]),
        speedup=statistics.geometric_mean(speedups) if speedups else None,
        num_speedups=len(speedups),
        verdicts=tuple((name, number) for name in SPEED_VERDICTS if (number := _number(claimed, name))),
        replicates=(min(replicates), max(replicates)),
        noise_floor=None if (floors := claimed["noise_floor"].dropna()).empty else float(floors.median()),
        interval=_interval(claimed),
        reason=_reason(claimed),
        memory_ratio=statistics.geometric_mean(ratios) if ratios else None,
        num_memory_ratios=len(ratios),
        max_abs_error=None if errors.empty else float(errors.max()),
        num_checked=int(rows["check_verdict"].notna().sum()),
        num_failed_checks=int((rows["check_verdict"].notna() & ~counting).sum()),
        num_not_comparable=int(rows["check_verdict"].eq(NOT_COMPARABLE).sum()),
        num_unmeasured=int(unmeasured.sum()),
    )


def _number(claimed: pd.DataFrame, verdict: str) -> int:
    return int(claimed["speed_verdict"].eq(verdict).sum())


def _interval(claimed: pd.DataFrame) -> tuple[float, float] | None:
    ends = claimed[["speedup_low", "speedup_high"]].dropna()
    if len(claimed) != 1 or ends.empty:
        return None
    return float(ends["speedup_low"].iloc[0]), float(ends["speedup_high"].iloc[0])


def _reason(claimed: pd.DataFrame) -> str:
    reasons = claimed["speed_verdict_reason"].dropna()
    return str(reasons.iloc[0]) if len(claimed) == 1 and len(reasons) == 1 else ""


def unmeasured(table: pd.DataFrame) -> list[tuple[str, str, int]]:
    """Why points have no numbers: status, reason and the number of rows, the commonest first."""
    rows = table[table["status"] != "ok"]
    pairs = zip(rows["status"].astype(str), rows["status_reason"].fillna("").astype(str), strict=True)
    return [(status, reason, number) for (status, reason), number in Counter(pairs).most_common()]


def warned(table: pd.DataFrame) -> list[tuple[str, int]]:
    """What rows are warned of, whatever the figures in it, and in how many rows; the commonest first.

    Warnings of one kind differ in their figures ("took 0.7 of 2 cores"): the first of a kind stands for all.
    """
    first: dict[str, str] = {}
    kinds: Counter[str] = Counter()
    for texts in table["warnings"].dropna().astype(str):
        for text in dict.fromkeys(texts.split("; ")):
            kind = re.sub(r"[\d.,+-]+%?", "#", text)
            first.setdefault(kind, text)
            kinds[kind] += 1
    return [(first[kind], number) for kind, number in kinds.most_common()]


def _positive(values: pd.Series) -> list[float]:
    numbers = [float(value) for value in values.dropna()]
    return [number for number in numbers if number > 0 and math.isfinite(number)]
