"""What one points at and clicks where a chart has no marks: a mark in every cell of a map, or point of a line, unseen.

Neither cells nor lines can be chosen: plotly selects marks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

# Cells of all maps together that have one: each goes to the browser with its words.
MOST_TARGETS = 20_000
# However far from a mark: where every cell has one, the nearest is that of the cell that one points at.
HOVER_DISTANCE = -1
# One is drawn, which is enough for all to be found: thousands would take the browser seconds.
UNSEEN: dict[str, Any] = {"opacity": 0, "maxdisplayed": 1}
UNSEEN_STILL: dict[str, Any] = {"marker": {"opacity": 0}}


def targets(x: Sequence[str], y: Sequence[str], told: Sequence[str], points: Sequence[int | None]) -> go.Scatter:
    """The marks of one map.

    Args:
        x: where each lies, from left to right.
        y: and from top to bottom.
        told: what is said where one points at it.
        points: the number of its point, which a click leads to; None where it is not measured yet.
    """
    return go.Scatter(
        x=x,
        y=y,
        hovertext=told,
        customdata=points,
        hovertemplate="%{y}<br>%{x}<br>%{hovertext}<extra></extra>",
        mode="markers",
        marker=UNSEEN,
        selected=UNSEEN_STILL,
        unselected=UNSEEN_STILL,
        name="cells",
        showlegend=False,
    )
