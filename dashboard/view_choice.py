"""The choices under a chart: x axis, series, panels, scales, and the value of each axis that is held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard import session
from profiling.charts.axes import (
    ALL_OTHERS,
    NONE,
    SIZES,
    View,
    others,
    panel_axes,
    series_options,
    values_of,
    x_options,
)
from profiling.charts.density import fitting
from profiling.charts.formatting import axis_label, axis_value
from profiling.runs import Run


def choose_view(run: Run, *, x_place: Any, place: Any) -> View:
    """Draws the choices and returns what they mean for this run; what does not fit it falls back.

    Args:
        run: the run whose axes are chosen from.
        x_place: where the choice of the x axis is drawn.
        place: where the others are drawn.
    """
    x = _select(x_place, "x axis", x_options(run), session.X_AXIS)
    series = _select(place, "Series", series_options(run, x), session.SERIES)
    remaining = others(run, x, series)
    facet = _select(place, "Panels", [ALL_OTHERS, *remaining, NONE], session.FACET) if remaining else NONE
    panels = fitting(values_of(run), x, series, remaining) if facet == ALL_OTHERS else panel_axes(facet, remaining)
    held = {axis: _hold(place, run, axis) for axis in remaining if axis not in panels}
    log_x = place.toggle("log x", value=True, key=session.LOG_X, bind="query-params", disabled=x not in SIZES)
    log_y = place.toggle("log y", value=True, key=session.LOG_Y, bind="query-params")
    return View(x=x, series=series, panels=panels, held=held, log_x=log_x, log_y=log_y)


def _select(place: Any, label: str, options: Sequence[str], key: str) -> str:
    chosen = place.selectbox(label, options, format_func=_name, key=key, bind="query-params", width=150)
    return chosen if chosen in options else options[0]


def _hold(place: Any, run: Run, axis: str) -> Any:
    values = {axis_value(axis, value): value for value in values_of(run)[axis]}
    chosen = _select(place, axis_label(axis), list(values), session.held(axis))
    return values[chosen]


def _name(option: str) -> str:
    return axis_label(option)
