"""The choices under a chart: x axis, series, panels, scales, and the value of each axis that is held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard import session
from dashboard.axes import ALL_OTHERS, NONE, SIZES, View, others, panel_axes, series_options, values_of, x_options
from dashboard.formatting import axis_label, axis_value
from profiling.runs import Run


def choose_view(run: Run, *, only_x: bool = False) -> View:
    """Draws the choices in a row and returns what they mean for this run; what does not fit it falls back."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="view_choice"):
        x = _select("x axis", x_options(run), session.X_AXIS)
        if only_x:
            return View(x=x, series="", panels=())
        series = _select("Series", series_options(run, x), session.SERIES)
        remaining = others(run, x, series)
        panels: tuple[str, ...] = ()
        if remaining:
            facet = _select("Panels", [ALL_OTHERS, *remaining, NONE], session.FACET)
            panels = panel_axes(facet, remaining)
        held = {axis: _hold(run, axis) for axis in remaining if axis not in panels}
        log_x = x not in SIZES or st.toggle("log x", value=True, key=session.LOG_X, bind="query-params")
        log_y = st.toggle("log y", value=True, key=session.LOG_Y, bind="query-params")
    return View(x=x, series=series, panels=panels, held=held, log_x=log_x, log_y=log_y)


def _select(label: str, options: Sequence[str], key: str) -> str:
    chosen = st.selectbox(label, options, format_func=_name, key=key, bind="query-params", width=150)
    return chosen if chosen in options else options[0]


def _hold(run: Run, axis: str) -> Any:
    values = {axis_value(axis, value): value for value in values_of(run)[axis]}
    chosen = _select(axis_label(axis), list(values), session.held(axis))
    return values[chosen]


def _name(option: str) -> str:
    return axis_label(option)
