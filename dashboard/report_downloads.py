"""What a person takes along of a run: the table, a report that opens offline, a summary for a pull request."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import store
from profiling.report.writing import html_of, markdown_of
from profiling.runs import Run
from profiling.table import report_csv


def show(run: Run, table: pd.DataFrame) -> None:
    """Draws the three buttons; each file is made when it is asked for."""
    folder = store.folder_of(run)
    with st.container(horizontal=True, gap="small"):
        st.download_button(
            "Download CSV",
            data=lambda: report_csv(table),
            file_name=f"mha-bench-{run.run_id}.csv",
            mime="text/csv",
            on_click="ignore",
            key="download_csv",
            help="One row per point and contender, every column, full precision, with the environment.",
        )
        st.download_button(
            "Download report",
            data=lambda: html_of(folder),
            file_name=f"mha-bench-{run.run_id}.html",
            mime="text/html",
            on_click="ignore",
            key="download_html",
            help="One HTML file that opens offline: the charts, the table, the method and the environment.",
        )
        st.download_button(
            "Download summary",
            data=lambda: markdown_of(folder),
            file_name=f"mha-bench-{run.run_id}.md",
            mime="text/markdown",
            on_click="ignore",
            key="download_markdown",
            help="Markdown for a pull request: what may be claimed, at which shapes, on what.",
        )
