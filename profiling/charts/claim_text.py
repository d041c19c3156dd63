"""What may be claimed of a speed-up, in words: verdict, interval, noise floor, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from profiling.charts.formatting import chart_lines, count, percent, ratio
from profiling.settings import MIN_REPLICATES_FOR_VERDICT

# The verdicts that say that there is a difference; the others say that there is none, or that nothing is known.
CLAIMS = ("faster", "slower")
# Those with which a colour would tell more than is known.
NO_CLAIMS = ("same", "unsure")
PROVISIONAL = "provisional"
# An interval whose ends are further apart leaves the chart, as it is not told at the command line.
WIDEST_DRAWN = 100
MAP_CAPTION = (
    "Blue is faster than the reference, brown slower; the paler, the less. Greyed colours, with a ?, are provisional: "
    "too few replicates for a claim. Grey cells claim nothing: same (=), or unsure. A value in brackets fails the "
    "check and does not count; one with ≠ is of another design, timed with its own weights."
)
DENSE_MAP_CAPTION = (
    "Blue is faster than the reference, brown slower; the paler, the less. Greyed colours are provisional: too few "
    "replicates for a claim. Light grey claims nothing: same, or unsure. Dark grey has no number that counts. Point at "
    "a cell for its number."
)


def claims_difference(rows: pd.DataFrame) -> pd.Series:
    """Which rows' verdict says that the contender is faster or slower."""
    return rows["speed_verdict"].isin(CLAIMS).fillna(False).astype(bool)


def leaves_chart(rows: pd.DataFrame) -> pd.Series:
    """Which rows' intervals are so wide, by few and noisy replicates, that nothing else could be read beside them."""
    return (rows["speedup_high"] > WIDEST_DRAWN * rows["speedup_low"]).fillna(False).astype(bool)


def interval(row: Mapping[Any, Any]) -> str:
    """`[1.02×, 1.05×]`; empty where the row has no interval."""
    low, high = row["speedup_low"], row["speedup_high"]
    return "" if pd.isna(low) or pd.isna(high) else f"[{ratio(float(low))}, {ratio(float(high))}]"


def verdict_lines(row: Mapping[Any, Any]) -> list[str]:
    """A row's interval, verdict, reason, noise floor and replicates, lines of a chart; what is empty is left out."""
    lines = [f"95 % interval {interval(row)}"] if interval(row) else []
    if pd.notna(row["speed_verdict"]):
        reason = f": {row['speed_verdict_reason']}" if pd.notna(row["speed_verdict_reason"]) else ""
        lines += chart_lines(f"{row['speed_verdict']}{reason}")
    told = [f"noise floor {percent(float(row['noise_floor']))}"] if pd.notna(row["noise_floor"]) else []
    told += [count(int(row["num_replicates"]), "replicate")] if pd.notna(row["num_replicates"]) else []
    return lines + ([", ".join(told)] if told else [])


def caption(table: pd.DataFrame) -> str:
    """What bars, hollow marks and the grey band of a speed-up chart mean, and what is missing."""
    compared = table[table["speedup"].notna()]
    if compared.empty:
        return ""
    hollow = "Hollow marks claim nothing (same, unsure or provisional), full ones a difference."
    has_interval = compared["speedup_low"].notna()
    if has_interval.any():
        bars = "Bars: 95 % interval across replicates, for all contenders of a point together."
        bars += "" if has_interval.all() else " A point with one replicate has none."
        bars += (
            f" One that leaves the chart spans more than {WIDEST_DRAWN} times." if leaves_chart(compared).any() else ""
        )
    else:
        bars = (
            "One replicate: there is no interval, and one process alone supports no claim "
            f"({MIN_REPLICATES_FOR_VERDICT} replicates do)."
        )
    floor = "Grey band: noise floor, how far a clone of the reference strayed from 1."
    return " ".join([bars, hollow, *([floor] if compared["noise_floor"].notna().any() else [])])
