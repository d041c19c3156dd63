"""The rows of a run as an HTML table: every column that holds something, sorted by a click, the numbers in full."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from profiling.charts.claim_text import claims_difference
from profiling.charts.formatting import count, digits, error, visible
from profiling.charts.metrics import counts_in_mean
from profiling.charts.names import names_of
from profiling.charts.row_columns import column_order
from profiling.columns import REPORT_COLUMNS

# A browser needs seconds for more; they stand in the CSV.
MOST_ROWS = 2_000


def table_html(table: pd.DataFrame) -> str:
    """The table, its first `MOST_ROWS` rows, and a sentence about the others."""
    if table.empty:
        return "<p>No row was measured.</p>"
    meanings = {column.name: column.meaning for column in REPORT_COLUMNS}
    names = column_order(table)
    shown = table.head(MOST_ROWS)
    head = "".join(
        f'<th scope="col" title="{html.escape(meanings[name])}"><button type="button">{name}</button></th>'
        for name in names
    )
    cells = [_column(shown, name) for name in names]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    more = len(table) - len(shown)
    told = f" {count(more, 'more row')} stand in the CSV." if more else ""
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="soft">A click on a column sorts by it; a pointer on its name tells what it means.{told}</p>'
    )


def facts_html(facts: Iterable[tuple[str, object]]) -> str:
    """Names and what is told of each, one below the other."""
    rows = "".join(f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>' for name, value in facts)
    return f'<table class="facts"><tbody>{rows}</tbody></table>'


def escaped(text: object) -> str:
    """Text as it is, in HTML: nothing in it is markup, and nothing of it is hidden."""
    return html.escape(visible(str(text)))


def _column(shown: pd.DataFrame, name: str) -> list[str]:
    values = shown[name].astype(object).where(shown[name].notna(), None).tolist()
    grey = _greyed(shown, name)
    if name == "contender":
        called = names_of(str(value) for value in values)
        values = [called[str(value)] for value in values]
    return [_cell(value, name, is_grey=is_grey) for value, is_grey in zip(values, grey, strict=True)]


def _greyed(shown: pd.DataFrame, name: str) -> list[bool]:
    """Which cells do not count: a speed-up whose check fails, a verdict that claims nothing."""
    if name == "speedup":
        return [bool(each) for each in ~counts_in_mean(shown)]
    if name == "speed_verdict":
        return [bool(each) for each in ~claims_difference(shown)]
    return [False] * len(shown)


def _cell(value: Any, name: str, *, is_grey: bool) -> str:
    kind = " grey" if is_grey else ""
    if value is None:
        return f'<td class="{kind.strip()}"></td>' if kind else "<td></td>"
    if isinstance(value, float):
        said = error(value) if name.startswith("max_abs_error") else digits(value, 4)
        full = repr(value) if math.isfinite(value) else str(value)
        return f'<td class="number{kind}" data-value="{full}" title="{full}">{said}</td>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number{kind}" data-value="{value}">{value:,}</td>'
    text = "yes" if value is True else "no" if value is False else escaped(value)
    return f'<td class="{kind.strip()}" title="{text}">{text}</td>' if kind else f'<td title="{text}">{text}</td>'
