"""A point measured again: by a command, or by a script that needs torch alone; and the source that was measured."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import session, store
from profiling.charts.formatting import plain
from profiling.charts.names import names_of
from profiling.measured_point import MeasuredPoint, point_among
from profiling.runs import Run, RunError
from profiling.sources import NoSource, source_diff, source_now
from profiling.standalone.writing import NoScript, script_text

SCRIPT = "repeat.py"
# Of a source, and of what differs: a page of it is enough to know it by.
MOST_LETTERS = 20_000


def show(run: Run, rows: pd.DataFrame) -> None:
    """Draws the choice of one of a point's contenders, and how that is measured again.

    Args:
        run: which run.
        rows: the point's, as `load_run` gives them.
    """
    measured = rows[rows["status"] != "invalid"]
    if measured.empty:
        return
    names = names_of(measured["contender"])
    with st.container(border=True):
        chosen = st.selectbox(
            "Measure this point again", list(names.values()), key=session.REPEAT, bind="query-params", width=260
        )
        contender = next((own for own, name in names.items() if name == chosen), next(iter(names)))
        try:
            point = point_among(store.folder_of(run), run, rows, contender)
        except RunError as error:
            st.info(f"{plain(str(error)).capitalize()}.")
            return
        st.code(point.command, language="bash", wrap_lines=True)
        if not point.is_unchanged:
            st.warning("The layer's file was edited since, or is gone: the script below has it as it was measured.")
        _show_script(point)
        _show_source(point)


def _show_script(point: MeasuredPoint) -> None:
    try:
        text = script_text(point, SCRIPT)
    except NoScript as error:
        st.caption(f"There is no script for it: {plain(str(error))}.")
        return
    st.download_button(
        "Download script",
        data=text,
        file_name=SCRIPT,
        mime="text/x-python",
        on_click="ignore",
        key="download_script",
        help="Python that needs torch alone: the layer as it was measured, next to its reference, in fresh processes; "
        "it says whether the row agrees.",
    )


def _show_source(point: MeasuredPoint) -> None:
    try:
        source = point.source()
    except NoSource as error:
        st.caption(f"Source: {plain(str(error))}.")
        return
    with st.expander(f"Source {source.hash}"):
        now = source_now(point.layer)
        difference = source_diff(source, now) if now is not None else ""
        for name, text in source.texts.items():
            st.caption(plain(name))
            st.code(text[:MOST_LETTERS], language="python", height=320)
        if difference:
            st.caption("What has changed in it since:")
            st.code(difference[:MOST_LETTERS], language="diff", height=240)
