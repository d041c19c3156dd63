"""The rows of a comparison as a table, the worst first, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import session
from profiling.charts.claim_text import CLAIMS
from profiling.charts.compare_text import interval_words
from profiling.charts.formatting import latency, memory
from profiling.charts.palette import FAILED, UNRELIABLE
from profiling.compare.columns import VERDICTS
from profiling.table import without_formula
from profiling.wording import workload_words

PAGE_ROWS = 500
HEADINGS = {
    "workload": "Batch, sequence length, heads, d_model, and what is unusual about it.",
    "contender": "The layer, by name.",
    "BASE": "Median time of one call in BASE.",
    "NEW": "Median time of one call in NEW.",
    "time, %": "Change of the time from BASE to NEW; above 0 is slower.",
    "interval, %": "Of that change: 95 % for all contenders compared at the point together.",
    "of": "What changed so: the time relative to the reference, or the latency itself, which the machine moves too.",
    "memory": "Change of the call's peak memory; = where not a byte has changed.",
    "verdict": "What may be claimed of the time, or why the row counts as a regression.",
    "why": "Why that verdict and no other.",
}


def show(rows: pd.DataFrame, names: Mapping[str, str]) -> None:
    """Draws the rows of a comparison, as `profiling.compare.columns` has them, with contenders by their names."""
    ordered = worst_first(rows)
    num_pages = -(-len(ordered) // PAGE_ROWS)
    page = 1
    if num_pages > 1:
        page = int(st.number_input(f"Page, of {num_pages:,}", 1, num_pages, key=session.COMPARE_PAGE, width=140))
    part = ordered.iloc[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    shown = cells_of(part, names)
    st.dataframe(
        shown.style.apply(lambda _: _colors(part), subset=["verdict"]),
        hide_index=True,
        height=min(36 * (len(shown) + 1) + 4, 480),
        column_config={name: _config(name) for name in HEADINGS},
        placeholder="",
        key="compare_table",
        alt=f"{len(shown):,} of {len(rows):,} compared rows, the worst first.",
    )


def worst_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Regressions first, yardsticks last, by verdict, then by change, as the command line tells them."""
    place = {verdict: number for number, verdict in enumerate(VERDICTS)}
    keys = pd.DataFrame(
        {
            "is_fine": ~rows["is_regression"],
            "is_yardstick": rows["is_yardstick"],
            # What cannot be judged has no place among the better ones.
            "verdict": rows["verdict"].map(place).astype("float64").fillna(-1.0),
            "change": -rows["change_percent"].astype("float64").fillna(0.0),
        },
        index=rows.index,
    )
    by = ["is_fine", "is_yardstick", "verdict", "change"]
    return rows.loc[keys.sort_values(by, kind="stable").index]


def cells_of(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The rows as they are shown: numbers that can be sorted for the change, texts for all else."""
    cells = rows.astype(object).where(rows.notna(), None)
    told = [_cells(row, names) for row in cells.to_dict("records")]
    return pd.DataFrame(told, index=rows.index, columns=list(HEADINGS))


def _cells(row: dict[Any, Any], names: Mapping[str, str]) -> dict[str, Any]:
    is_yardstick = row["is_yardstick"]
    change = row["change_percent"]
    if is_yardstick and row["latency_ratio"] is not None:
        change = 100 * (row["latency_ratio"] - 1)
    verdict = "yardstick" if is_yardstick and row["verdict"] else row["verdict"]
    return {
        "workload": workload_words(row),
        "contender": without_formula(names[row["contender"]]),
        "BASE": "" if row["latency_base_ms"] is None else latency(row["latency_base_ms"]),
        "NEW": "" if row["latency_new_ms"] is None else latency(row["latency_new_ms"]),
        "time, %": change,
        "interval, %": "" if is_yardstick else interval_words(row),
        "of": row["measure"] or "",
        "memory": _memory(row),
        "verdict": without_formula(row["regression"] if row["is_regression"] else verdict or "none"),
        "why": without_formula(row["reason"] or ""),
    }


def _memory(row: dict[Any, Any]) -> str:
    change, share = row["memory_change_bytes"], row["memory_change_percent"]
    if change is None:
        return ""
    if change == 0:
        return "="
    told = f"{'+' if change > 0 else '−'}{memory(abs(change) / 2**20)}"
    return told if share is None else f"{told} ({share:+.1f} %)"


def _colors(rows: pd.DataFrame) -> list[str]:
    """Of the verdicts: red is a regression, grey claims nothing; both stand there in words too."""
    claims = rows["verdict"].isin(CLAIMS).fillna(False)
    return [
        f"color: {FAILED}; font-weight: 600" if is_regression else "" if is_claimed else f"color: {UNRELIABLE}"
        for is_regression, is_claimed in zip(rows["is_regression"], claims, strict=True)
    ]


def _config(name: str) -> Any:
    if name == "time, %":
        return st.column_config.NumberColumn(name, help=HEADINGS[name], format="%+.1f")
    return st.column_config.TextColumn(name, help=HEADINGS[name], width="medium" if name == "why" else None)
