"""What is told of a whole run, worked out once for the rows there are: the page is drawn anew at every click."""

from __future__ import annotations

import dataclasses

import pandas as pd
import streamlit as st

from dashboard import replicate_panel, store
from profiling.charts import claim_text, takeaway
from profiling.charts.summary import Headline, headlines, unmeasured, warned
from profiling.runs import Run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that takes all rows of a table to be told.

    Attributes:
        headlines: each contender against its reference.
        unmeasured: why rows have no numbers: status, reason, number of rows.
        warned: what rows are warned of, and how many.
        num_warned: rows with a warning.
        has_failing: whether some speed-up does not count.
        caption: what bars, marks and band of a speed-up chart mean.
        lacks_replicates: whether more replicates would let the run be judged.
    """

    headlines: list[Headline]
    unmeasured: list[tuple[str, str, int]]
    warned: list[tuple[str, int]]
    num_warned: int
    has_failing: bool
    caption: str
    lacks_replicates: bool


def facts_of(run: Run, table: pd.DataFrame) -> Facts:
    """The facts of a run's table as `load_run` gives it."""
    counts = tuple(int(table[name].sum()) for name in ("num_samples", "num_replicates"))
    warnings = int(table["warnings"].notna().sum())
    return _facts(str(store.folder_of(run)), run.state, store.size_of(run), len(table), counts, warnings, run, table)


@st.cache_data(show_spinner=False, max_entries=8)
def _facts(
    folder: str,
    state: str,
    size: int,
    num_rows: int,
    counts: tuple[int, ...],
    num_warned: int,
    _run: Run,
    _table: pd.DataFrame,
) -> Facts:
    # The size alone would not do: rows may have come between the reading of the table and this.
    del folder, state, size, num_rows, counts
    return Facts(
        headlines=headlines(_table),
        unmeasured=unmeasured(_table),
        warned=warned(_table),
        num_warned=num_warned,
        has_failing=takeaway.has_failing(_table),
        caption=claim_text.caption(_table),
        lacks_replicates=replicate_panel.lacks_replicates(_run, _table),
    )
