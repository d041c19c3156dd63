"""The ways between the views: from a run to its comparison, and from a compared point to its samples."""

from __future__ import annotations

import dataclasses
import itertools

import pandas as pd
import streamlit as st

from dashboard import session
from profiling.charts.axes import values_of
from profiling.charts.formatting import axis_value
from profiling.compare.sides import Side, at_rows
from profiling.runs import Run


def show_to_compare(run: Run) -> None:
    """Draws a link to the comparison of a run with the one before it."""
    from dashboard.views import compare  # whose choice of runs knows of those who link to it

    st.page_link(
        st.Page(compare.show, title="Compare", url_path="compare"),
        label="Compare it with the run before",
        query_params={session.NEW: run.run_id},
    )


def show_to_samples_at(side: Side, row: pd.DataFrame, name: str) -> None:
    """Draws the same for the point of a compared row, where a side's run is a folder and holds it.

    Args:
        side: one run of a side.
        row: of a comparison, as `profiling.compare.columns` has it.
        name: what the run is called here.
    """
    number = at_rows(side, row)["point"].iloc[0]
    if side.run is not None and not pd.isna(number):
        # A folder that was copied or renamed holds the id that it was measured under.
        show_to_samples(dataclasses.replace(side.run, run_id=side.path.name), int(number), name)


def show_to_samples(run: Run, number: int, side: str) -> None:
    """Draws a link to the samples of a run's point, where its operators and its command stand too.

    Args:
        run: which run.
        number: the point's position in its grid.
        side: what the run is called here.
    """
    from dashboard.views import measure

    workload = next(itertools.islice(run.grid.workloads(), number - 1, None))
    axes = {axis: getattr(workload, axis) for axis in run.grid.swept_axes() if axis in values_of(run)}
    st.page_link(
        st.Page(measure.show, title="Measure", url_path="measure", default=True),
        label=f"Its samples, operators and command in {side}",
        query_params={
            session.RUN: run.run_id,
            session.TAB: "Samples",
            **{session.sample(axis): axis_value(axis, value) for axis, value in axes.items()},
        },
    )
