"""The colours of a speed-up map: log2 of the ratio, the same distance for 2× and 0.5×, and what is claimed of it."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from profiling.charts.claim_text import CLAIMS, NO_CLAIMS
from profiling.charts.formatting import ratio
from profiling.charts.frame import legend_height


class Claim(enum.Enum):
    """What a verdict lets a cell say; the value stands in the hover where there is no longer sentence."""

    CLAIMED = ""
    PROVISIONAL = ", provisional"
    NOTHING = ", same or unsure"


# Blue where the contender is faster, brown where it is slower, white where nothing is between them.
COLORS = ((0.0, "#b35806"), (0.25, "#fdb863"), (0.5, "#f7f7f7"), (0.75, "#92c5de"), (1.0, "#2166ac"))
# Same or unsure: no colour of faster or slower, but a cell all the same. Its number is dark on it in either theme.
NO_CLAIM_CELL = "#bfbfbf"
UNCOUNTED_CELL = "#6b6b6b"
# How much of that grey is in a provisional cell: it hints at a direction, and is taken for no claim.
GREYED = 0.7
# The colours reach at least so far either way: what is hardly faster looks hardly faster.
SMALLEST_BOUND = math.log2(1.5)
# Pixels above a map: its title, below the legend, which has a line for each kind of cell on a phone.
TITLE_HEIGHT = 40
LEGEND_LINE = 20


def claim_of(verdict: object) -> Claim:
    """What a row's verdict claims; a row without one, as of a torn file, claims no more than a provisional one."""
    if not isinstance(verdict, str):
        return Claim.PROVISIONAL
    return Claim.CLAIMED if verdict in CLAIMS else Claim.NOTHING if verdict in NO_CLAIMS else Claim.PROVISIONAL


def bound_of(compared: pd.DataFrame) -> float:
    """How far the colours have to reach either way for these rows, as log2 of the ratio."""
    speedups = compared["speedup"].dropna().to_numpy(dtype=float).tolist()
    return max([*(abs(math.log2(value)) for value in speedups if 0 < value < math.inf), SMALLEST_BOUND])


def look_of(claim: Claim) -> dict[str, Any]:
    """What plotly has to know of the colours of the cells of one kind."""
    if claim is Claim.NOTHING:
        return one_color(NO_CLAIM_CELL)
    return {"coloraxis": "coloraxis" if claim is Claim.CLAIMED else "coloraxis2"}


def one_color(color: str) -> dict[str, Any]:
    """The same for cells of one colour, whatever their values."""
    return {"colorscale": [[0, color], [1, color]], "zmin": -1, "zmax": 1, "showscale": False}


def finish(figure: go.Figure, bound: float, height: int, *, has_uncounted: bool) -> None:
    """Gives a figure of maps its colours, its legend, which has the kinds of cells that are there, and its height.

    Args:
        figure: the maps.
        bound: how far the colours reach either way, as log2 of the ratio.
        height: of the maps and what is around them, without the legend; pixels.
        has_uncounted: whether cells without a number that counts are drawn in a colour of their own.
    """
    axes = {trace.coloraxis for trace in figure.data if isinstance(trace, go.Heatmap) and _is_filled(trace)}
    greys = {
        trace.colorscale[0][1] for trace in figure.data if isinstance(trace, go.Heatmap) and trace.coloraxis is None
    }
    shown = {
        "faster": (COLORS[-1][1], "coloraxis" in axes),
        "slower": (COLORS[0][1], "coloraxis" in axes),
        "provisional: faster?": (_greyed(COLORS[-1][1]), "coloraxis2" in axes),
        "provisional: slower?": (_greyed(COLORS[0][1]), "coloraxis2" in axes),
        "same or unsure": (NO_CLAIM_CELL, NO_CLAIM_CELL in greys),
        "no number that counts": (UNCOUNTED_CELL, has_uncounted),
    }
    for name, (color, is_there) in shown.items():
        if is_there:
            figure.add_trace(_swatch(name, color), 1, 1)
    legend = max(legend_height(figure), LEGEND_LINE * sum(is_there for _, is_there in shown.values()))
    figure.update_layout(
        height=height + legend,
        margin={"l": 10, "r": 10, "t": TITLE_HEIGHT + legend, "b": 10},
        legend={
            **{"orientation": "h", "xanchor": "left", "x": 0, "font": {"size": 12}},
            **{"yref": "container", "yanchor": "top", "y": 1 - 4 / (height + legend)},
            **{"itemclick": False, "itemdoubleclick": False},
        },
        coloraxis=_color_axis(COLORS, bound),
        coloraxis2={
            **_color_axis([(at, _greyed(color)) for at, color in COLORS], bound),
            "showscale": "coloraxis" not in axes,  # one bar is enough: the greyed colours lie where the full ones do
        },
        uirevision="kept",
    )


def _is_filled(trace: go.Heatmap) -> bool:
    return any(value is not None and not math.isnan(value) for row in trace.z for value in row)


def _swatch(name: str, color: str) -> go.Scatter:
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers",
        marker={"symbol": "square", "size": 12, "color": color},
        name=name,
        showlegend=True,
        hoverinfo="skip",
    )


def _color_axis(colors: Sequence[tuple[float, str]], bound: float) -> dict[str, Any]:
    ticks = (-bound, 0.0, bound)
    return {
        **{"colorscale": colors, "cmin": -bound, "cmid": 0, "cmax": bound},
        "colorbar": {"tickvals": ticks, "ticktext": [ratio(2**tick) for tick in ticks], "thickness": 12},
    }


def _greyed(color: str) -> str:
    """The colour with the grey of no claim mixed in."""
    pairs = [(int(color[at : at + 2], 16), int(NO_CLAIM_CELL[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(own * (1 - GREYED) + grey * GREYED):02x}" for own, grey in pairs)
