"""The table on the page: the report's rows, each column with its meaning, empty columns left out."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard.claim_text import claims_difference
from dashboard.layers import names_of
from dashboard.metrics import counts_in_mean
from dashboard.palette import UNRELIABLE
from profiling.columns import REPORT_COLUMNS, Column

# What is looked for first; the others follow in the report's order.
FIRST = (
    *("contender", "batch_size", "seq_len", "num_heads", "d_model", "latency_median_ms"),
    *("speedup", "speedup_low", "speedup_high", "speed_verdict", "noise_floor", "check_verdict"),
    *("max_abs_error", "peak_memory_mib", "reference", "status", "error_ratio"),
)
# Beyond this many rows the grey of unreliable speed-ups costs more time than it is worth.
MAX_STYLED_ROWS = 2_000


def show_table(table: pd.DataFrame) -> None:
    """Draws all rows; grey are a speed-up that does not count, and a verdict that claims no difference."""
    names = names_of(table["contender"])
    shown = table[column_order(table)].assign(contender=table["contender"].map(names))
    st.dataframe(
        _styled(shown) if len(shown) <= MAX_STYLED_ROWS else shown,
        hide_index=True,
        height=min(36 * (len(shown) + 1) + 4, 560),
        column_config={column.name: _config(column) for column in REPORT_COLUMNS if column.name in shown},
        placeholder="",
        key="table",
        alt=f"The report's {len(table)} rows; the CSV holds the same.",
    )
    st.caption(
        "Hover over a column's name for its meaning. Columns that are wholly empty are left out here, not in the CSV."
    )


def column_order(table: pd.DataFrame) -> list[str]:
    """The columns with something in them, those looked for first in front."""
    rest = [column.name for column in REPORT_COLUMNS if column.name not in FIRST]
    return [name for name in (*FIRST, *rest) if table[name].notna().any()]


def _styled(shown: pd.DataFrame) -> Any:
    if "speedup" not in shown or "check_verdict" not in shown:
        return shown
    styled = _greyed(shown.style, "speedup", ~counts_in_mean(shown))
    return _greyed(styled, "speed_verdict", ~claims_difference(shown)) if "speed_verdict" in shown else styled


def _greyed(styled: Any, column: str, is_grey: pd.Series) -> Any:
    return styled.apply(lambda _: [f"color: {UNRELIABLE}" if grey else "" for grey in is_grey], subset=[column])


def _config(column: Column) -> Any:
    if column.kind == "float":
        return st.column_config.NumberColumn(column.name, help=column.meaning, format=_format(column.name))
    if column.kind == "int":
        return st.column_config.NumberColumn(column.name, help=column.meaning, format="%d")
    if column.kind == "bool":
        return st.column_config.CheckboxColumn(column.name, help=column.meaning)
    return st.column_config.TextColumn(column.name, help=column.meaning)


def _format(name: str) -> str:
    return "%.2e" if name.startswith("max_abs_error") else "%.4g"
