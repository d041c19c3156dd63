"""The ways between a point of a run and where the time of its calls goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import operator_controls, services, session
from profiling.charts.axes import values_of
from profiling.charts.formatting import axis_value
from profiling.runs import Run
from profiling.workload import Workload

SAMPLES_TAB = "Samples"


def show(run: Run, axes: Mapping[str, Any]) -> None:
    """Draws a link to the operators of a run's point.

    Args:
        run: which run.
        axes: the values of its swept axes at that point.
    """
    from dashboard.views import operators  # which begins with such a point, and so knows of those who link to it

    start = operator_controls.start_of(run, axes, services.layers(), services.live_checks().machine)
    st.page_link(
        st.Page(operators.show, title="Operators", url_path="operators"),
        label="Where the time of this point goes: its operators",
        query_params={session.RUN: run.run_id, **operator_controls.changed_of(start.workload, start.pair)},
    )


def show_back(run: Run, workload: Workload) -> None:
    """Draws a link to the samples of a workload, where it is a point of the run."""
    from dashboard.views import measure

    axes = {axis: getattr(workload, axis) for axis in run.grid.swept_axes()}
    if any(axes[axis] not in values_of(run)[axis] for axis in axes):
        return
    point = operator_controls.point_of(run, axes)
    if any(getattr(point, name) != getattr(workload, name) for name, _ in operator_controls.FIELDS.values()):
        return
    chosen = {session.sample(axis): axis_value(axis, value) for axis, value in axes.items()}
    st.page_link(
        st.Page(measure.show, title="Measure", url_path="measure", default=True),
        label="The samples of this point",
        query_params={session.RUN: run.run_id, session.TAB: SAMPLES_TAB, **chosen},
    )
