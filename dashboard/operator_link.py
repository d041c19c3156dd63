"""The way from a point of a run to where the time of its calls goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import operator_controls, services, session
from profiling.runs import Run


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
        query_params={session.RUN: run.run_id, **operator_controls.query_of(start.workload, start.pair)},
    )
