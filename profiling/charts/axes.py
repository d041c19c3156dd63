"""What a chart is drawn against: x axis, series, panels, and the axes that are held at one value."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from profiling.charts.formatting import axis_label, axis_value, chart_text
from profiling.runs import Run

ALL_OTHERS = "all others"
NONE = "none"
CONTENDER = "contender"
SIZES = ("seq_len", "batch_size", "num_heads")


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """How the points of a run are laid out. `held` gives the one value of each axis that is not drawn."""

    x: str
    series: str
    panels: tuple[str, ...]
    held: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    log_x: bool = True
    log_y: bool = True


def values_of(run: Run) -> dict[str, tuple[Any, ...]]:
    """Every axis along which this run's rows differ, contenders last, with its values in order."""
    axes = {axis: tuple(getattr(run.grid, axis)) for axis in run.grid.swept_axes()}
    ordered = {axis: tuple(sorted(values)) if axis in SIZES else values for axis, values in axes.items()}
    return {**ordered, CONTENDER: run.settings.contenders}


def x_options(run: Run) -> list[str]:
    """The axes that can run from left to right: the swept ones, or the sequence length where nothing is swept."""
    return list(run.grid.swept_axes()) or ["seq_len"]


def series_options(run: Run, x: str) -> list[str]:
    """What can be told apart by colour and dash: contenders first."""
    return [CONTENDER, *(axis for axis in run.grid.swept_axes() if axis != x)]


def others(run: Run, x: str, series: str) -> list[str]:
    """The axes that are neither x nor series."""
    return [axis for axis in values_of(run) if axis not in (x, series)]


def panel_axes(facet: str, remaining: list[str]) -> tuple[str, ...]:
    """The axes that make panels under a choice of facet."""
    if facet == ALL_OTHERS:
        return tuple(remaining)
    return (facet,) if facet in remaining else ()


def panel_values(run: Run, view: View) -> list[dict[str, Any]]:
    """One dictionary a panel, in order: the value of each panel axis."""
    values = values_of(run)
    product = itertools.product(*(values[axis] for axis in view.panels))
    return [dict(zip(view.panels, combination, strict=True)) for combination in product]


def label(where: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """Axes with their values, for a title: `heads 8 · batch size 4`; contenders under their `names`, if given."""
    return " · ".join(
        chart_text((names or {}).get(value, value), 40)
        if axis == CONTENDER
        else f"{axis_label(axis)} {chart_text(axis_value(axis, value))}"
        for axis, value in where.items()
    )


def x_value(axis: str, value: Any) -> Any:
    """A value of an axis as plotly places it: a size by its size, anything else by its name."""
    return int(value) if axis in SIZES else axis_value(axis, value)
