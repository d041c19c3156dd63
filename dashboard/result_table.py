"""The table on the page: the report's rows, each column with its meaning, empty columns left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import session
from profiling.charts.claim_text import claims_difference
from profiling.charts.metrics import counts_in_mean
from profiling.charts.names import names_of
from profiling.charts.palette import UNRELIABLE
from profiling.charts.row_columns import column_order
from profiling.columns import REPORT_COLUMNS, Column
from profiling.table import without_formula

# Of more rows than this one page at a time is drawn: the browser would need seconds for all of them.
PAGE_ROWS = 1_000
# Sorted by the order of measurement, which is no column of the table.
AS_MEASURED = "as measured"


def show_table(table: pd.DataFrame) -> None:
    """Draws the rows; grey are a speed-up that does not count, and a verdict that claims no difference."""
    columns = column_order(table)
    page = _choose_page(table, columns) if len(table) > PAGE_ROWS else table
    shown = page[columns].assign(contender=page["contender"].map(names_of(table["contender"].unique())))
    shown = shown.assign(**{name: _texts(shown[name]) for name in columns if table[name].dtype == "string"})
    st.dataframe(
        _styled(shown),
        hide_index=True,
        height=min(36 * (len(shown) + 1) + 4, 560),
        column_config={column.name: _config(column) for column in REPORT_COLUMNS if column.name in shown},
        placeholder="",
        key="table",
        alt=f"{len(shown):,} of the report's {len(table):,} rows; the CSV holds all.",
    )
    st.caption(
        "Hover over a column's name for its meaning. Columns that are wholly empty are left out here, not in the CSV."
    )


def _texts(cells: pd.Series) -> pd.Series:
    """The texts as a spreadsheet may have them: the browser offers what is shown as a CSV of its own."""
    return cells.map(without_formula, na_action="ignore")


def _choose_page(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Draws the choice of an order of all rows, and of a page of them."""
    num_pages = -(-len(table) // PAGE_ROWS)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="table_choice"):
        by = st.selectbox("Sort all rows by", [AS_MEASURED, *columns], key=session.TABLE_ORDER, width=220)
        descends = st.toggle("largest first", key=session.TABLE_DESCENDS, disabled=by == AS_MEASURED)
        page = st.number_input(f"Page, of {num_pages:,}", 1, num_pages, key=session.TABLE_PAGE, width=140)
    ordered = sorted_by(table, by, descends=descends)
    return ordered.iloc[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]


def sorted_by(table: pd.DataFrame, column: str, *, descends: bool) -> pd.DataFrame:
    """All rows in the order of one column, empty cells last; as they are for `AS_MEASURED`."""
    if column not in table:
        return table
    return table.sort_values(column, ascending=not descends, kind="stable", na_position="last")


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
