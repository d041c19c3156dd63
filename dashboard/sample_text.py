"""What the samples of a point come to, in words and in a small table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard.sample_ratios import Within
from profiling.charts.claim_text import interval
from profiling.charts.formatting import count, digits, latency, percent, plain, ratio
from profiling.charts.names import names_of
from profiling.ratios import stray
from profiling.runs import SAMPLES_FILE

# Of the contenders and replicates that have lost samples; the others are counted.
MOST_LOST = 6

# What a sample table tells of a contender: the column, its heading, and how its value is written.
_CONDITIONS = (
    ("latency_median_ms", "median", lambda value: latency(float(value))),
    ("num_samples", "samples", lambda value: f"{int(value):,}"),
    ("calls_per_sample", "calls per sample", lambda value: f"{int(value):,}"),
    ("stop_reason", "rounds ended by", str),
    ("kernel", "kernel", str),
    ("fast_path_reason", "no fast path, since", str),
    ("roofline_fraction", "share of the roofline", lambda value: percent(float(value))),
    ("compile_s", "compiled in", lambda value: f"{digits(float(value))} s"),
    ("page_faults_per_call", "page faults per call", lambda value: digits(float(value))),
    ("waited_s", "waited for quiet", lambda value: f"{digits(float(value))} s"),
    ("load_start", "load at start", lambda value: digits(float(value))),
    ("load_end", "load at end", lambda value: digits(float(value))),
    ("clock_mhz", "clock", lambda value: f"{float(value):,.0f} MHz"),
)


def speedup_sentences(row: Mapping[Any, Any], replicates: pd.DataFrame, medians: Sequence[Within]) -> list[str]:
    """What is known of one contender's speed-up at a point, in markdown; the first sentence is its result.

    Args:
        row: the contender's, of the run's table.
        replicates: its rows as measured, one a replicate.
        medians: the medians over rounds of its samples, and of its reference's clone, per replicate.
    """
    if row["status"] != "ok":
        reason = "" if pd.isna(row["status_reason"]) else f": {plain(str(row['status_reason']))}"
        return [f"**{plain(str(row['status']))}**{reason}"]
    if pd.isna(row["speedup"]):
        return [f"No speed-up: {plain(str(row['reference']))} was not measured here."]
    told = f"**{ratio(float(row['speedup']))}**"
    told += f", 95 % interval {plain(interval(row))}" if interval(row) else ""
    if pd.notna(row["speed_verdict"]):
        reason = "" if pd.isna(row["speed_verdict_reason"]) else f": {plain(str(row['speed_verdict_reason']))}"
        told += f" · **{plain(str(row['speed_verdict']))}**{reason}."
    elif pd.notna(row["speed_verdict_reason"]):
        told += f" · {plain(str(row['speed_verdict_reason']))}."
    sentences = [told, _replicates(row, replicates, medians)]
    return [*sentences, *_clone(row, replicates)]


def _replicates(row: Mapping[Any, Any], replicates: pd.DataFrame, medians: Sequence[Within]) -> str:
    """`rep 1: 1.03× [1.02×, 1.04×], rep 2: …`; in brackets the interval within that process, where samples are kept."""
    inside = {each.replicate: each for each in medians if each.contender == row["contender"]}
    parts = []
    for replicate, speedup in zip(replicates["replicate"], replicates["speedup"], strict=True):
        if pd.isna(speedup):
            parts.append(f"rep {replicate}: –")
            continue
        found = inside.get(int(replicate))
        bounds = f" [{ratio(found.low)}, {ratio(found.high)}]" if found else ""
        parts.append(f"rep {replicate}: {ratio(float(speedup))}{bounds}")
    within = " (in brackets the 95 % interval of the median within that process)" if inside else ""
    return f"Median over rounds{within}: {plain(', '.join(parts))}."


def _clone(row: Mapping[Any, Any], replicates: pd.DataFrame) -> list[str]:
    if pd.isna(row["noise_floor"]):
        return []
    clones = {
        int(replicate): float(value)
        for replicate, value in zip(replicates["replicate"], replicates["clone_speedup"], strict=True)
        if pd.notna(value)
    }
    listed = f" ({', '.join(f'rep {number}: {ratio(value)}' for number, value in clones.items())})" if clones else ""
    floor, what = percent(float(row["noise_floor"])), f"a clone of {plain(str(row['reference']))}"
    if len(clones) < 2:
        return [f"Noise floor {floor}: so far {what} strayed from 1{listed}."]
    worst = percent(max(map(stray, clones.values())))
    return [f"Noise floor {floor}: so far {what} strayed from 1 over all replicates, up to {worst} in one{listed}."]


def warnings_of(rows: pd.DataFrame) -> list[str]:
    """What the rows of a point are warned of, each once, with the contenders it is said of."""
    names = names_of(rows["contender"])
    said: dict[str, list[str]] = {}
    for contender, texts in zip(rows["contender"], rows["warnings"], strict=True):
        for text in [] if pd.isna(texts) else dict.fromkeys(str(texts).split("; ")):
            said.setdefault(text, []).append(names[contender])
    everyone = int(rows["status"].eq("ok").sum())
    return [
        f"{plain(text)}" + ("" if len(whom) == everyone > 1 else f" ({plain(', '.join(whom))})")
        for text, whom in said.items()
    ]


def conditions(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per contender with what its samples were taken under; what nobody measured has no column."""
    names = names_of(rows["contender"])
    table = {"contender": [names[contender] for contender in rows["contender"]]}
    for column, heading, text in _CONDITIONS:
        if rows[column].notna().any():
            table[heading] = ["" if pd.isna(value) else text(value) for value in rows[column]]
    return pd.DataFrame(table)


def missing(replicates: pd.DataFrame, samples: pd.DataFrame) -> str:
    """Where fewer samples are kept than were measured, in markdown; empty where all are there.

    Args:
        replicates: the point's rows as measured, one per replicate and contender.
        samples: its samples.
    """
    kept = samples.groupby(["replicate", "contender"]).size().to_dict()
    measured = replicates[replicates["num_samples"].notna() & replicates["status"].eq("ok")]
    rows = [
        (contender, replicate, kept.get((replicate, contender), 0), number)
        for contender, replicate, number in zip(
            measured["contender"], measured["replicate"], measured["num_samples"], strict=True
        )
    ]
    lost = [row for row in rows if row[2] < row[3]]
    if not lost:
        return ""
    names = names_of(replicates["contender"])
    told = [
        f"{there:,} of the {number:,} of {plain(names[contender])} in replicate {replicate}"
        for contender, replicate, there, number in lost[:MOST_LOST]
    ]
    others = f", and fewer in {count(len(lost) - MOST_LOST, 'more row')}" if len(lost) > MOST_LOST else ""
    return (
        f"{SAMPLES_FILE} does not hold all samples any more: {', '.join(told)}{others}. What is drawn here is of those "
        "that are left; the table was made of all."
    )


def takeaway(rows: pd.DataFrame, samples: pd.DataFrame) -> str:
    """The samples of a point in one sentence, for those who hear the page."""
    told = [
        f"{row['contender']} takes {latency(float(row['latency_median_ms']))}"
        + (f", {ratio(float(row['speedup']))} as fast as {row['reference']}" if pd.notna(row["speedup"]) else "")
        for row in rows[rows["latency_median_ms"].notna()].to_dict("records")
    ]
    num_replicates = samples["replicate"].nunique()
    return f"{len(samples):,} samples of {count(num_replicates, 'replicate')}; medians: {'; '.join(told)}."
