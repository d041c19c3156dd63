"""How much one chart may draw: which axes get panels, and what is left out of a picture nobody could read.

A browser needs seconds for ten thousand marks with a text each, and a person sees a cloud. So a chart of much is
lines without marks, and one of very much has every n-th value of an axis; what is left out is told.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from profiling.charts.axes import CONTENDER, View, others, values_of, x_options
from profiling.charts.formatting import axis_label
from profiling.runs import Run

MAX_PANELS = 24
MAX_SERIES = 24
# Lines of all panels together, and points of all lines.
MOST_LINES = 120
MOST_POINTS = 12_000
# Of panels that nobody has chosen one by one: what a small machine draws anew within a second of a click.
MOST_POINTS_UNASKED = 1_500
MOST_LINES_UNASKED = 32
# Points that are marks of their own, each with what it tells when it is pointed at.
MOST_MARKS = 1_000
MOST_MARKS_A_LINE = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What of a view is drawn.

    Attributes:
        panels: the panel axes' values, one dictionary a panel.
        x: the values from left to right; empty where nothing is swept, and all there are are drawn.
        series: the values of the series' axis.
        is_dense: whether lines are drawn without marks.
        left_out: sentences that say what is not drawn.
    """

    panels: tuple[Mapping[str, Any], ...]
    x: tuple[Any, ...]
    series: tuple[Any, ...]
    is_dense: bool
    left_out: tuple[str, ...]


def plan(view: View, axes: Mapping[str, Sequence[Any]], panels: Sequence[Mapping[str, Any]]) -> Plan:
    """Chooses what is drawn of a view: all of it wherever that can be read.

    Args:
        view: what is on x, and what makes a line.
        axes: every value of every axis.
        panels: the panel axes' values, one dictionary a panel.
    """
    shown = tuple(panels)[:MAX_PANELS] or ({},)
    series, series_step = _every_nth(axes.get(view.series, ("",)), min(MAX_SERIES, max(1, MOST_LINES // len(shown))))
    num_lines = len(shown) * len(series)
    x, x_step = _every_nth(axes.get(view.x, ()), max(2, MOST_POINTS // num_lines))
    left_out = [f"The first {len(shown)} of {len(panels)} panels."] if len(panels) > len(shown) else []
    for axis, step in ((view.series, series_step), (view.x, x_step)):
        if step > 1:
            left_out.append(f"Every {_ordinal(step)} {axis_label(axis)} is drawn.")
    is_dense = len(x) * num_lines > MOST_MARKS or len(x) > MOST_MARKS_A_LINE
    return Plan(panels=shown, x=x, series=series, is_dense=is_dense, left_out=tuple(left_out))


def fitting(axes: Mapping[str, Sequence[Any]], x: str, series: str, remaining: Sequence[str]) -> tuple[str, ...]:
    """Those of the remaining axes that can make panels together, as many as fit; the others have to be held."""
    lines = len(axes.get(series, ("",)))
    points = len(axes.get(x, ("",))) * lines
    chosen: list[str] = []
    for axis in remaining:
        panels = math.prod(len(axes[each]) for each in (*chosen, axis))
        is_readable = panels <= MAX_PANELS and panels * lines <= MOST_LINES_UNASKED
        if panels == 1 or (is_readable and panels * points <= MOST_POINTS_UNASKED):
            chosen.append(axis)
    return tuple(chosen)


def default_view(run: Run) -> View:
    """How a run is drawn where nobody has chosen: what no panel is made of is held at its first value."""
    axes, x = values_of(run), x_options(run)[0]
    remaining = others(run, x, CONTENDER)
    panels = fitting(axes, x, CONTENDER, remaining)
    return View(x=x, series=CONTENDER, panels=panels, held={a: axes[a][0] for a in remaining if a not in panels})


def _every_nth(values: Sequence[Any], most: int) -> tuple[tuple[Any, ...], int]:
    step = max(1, -(-len(values) // most))
    return tuple(values)[::step], step


def _ordinal(step: int) -> str:
    ending = "th" if step % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(step % 10, "th")
    return f"{step}{ending}"
