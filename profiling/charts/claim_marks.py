"""What a chart of speed-ups shows of their certainty: bars, hollow marks, and the noise floor as a band around 1."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from profiling.charts.palette import MUTED

NOISE_FLOOR = "noise floor"
NOISE_FILL = "rgba(128,128,128,0.22)"


def bars(rows: pd.DataFrame, color: str) -> dict[str, Any]:
    """The interval of each row as error bars; a row without one has none."""
    up = (rows["speedup_high"] - rows["speedup"]).astype(object)
    down = (rows["speedup"] - rows["speedup_low"]).astype(object)
    return {
        **{"type": "data", "symmetric": False, "color": color, "thickness": 1.5, "width": 4},
        "array": up.where(up.notna(), None).tolist(),
        "arrayminus": down.where(down.notna(), None).tolist(),
    }


def mark(symbol: str, *, is_claimed: bool) -> str:
    """The mark of a series, full where a difference is claimed and hollow where none is, however it looks elsewhere."""
    full = symbol.removesuffix("-open")
    return full if is_claimed else f"{full}-open"


def add_noise_floor(figure: go.Figure, rows: pd.DataFrame, x: str, at: Any, place: dict[str, int]) -> None:
    """Draws the noise floor of a panel: at each x that of the clone that strayed the most.

    Args:
        figure: what to draw on.
        rows: the panel's rows.
        x: the axis from left to right.
        at: a value of that axis → where it is drawn.
        place: the panel's row and column.
    """
    floors = rows[rows["speedup"].notna() & rows["noise_floor"].notna()].groupby(x, sort=True)["noise_floor"].max()
    if floors.empty:
        return
    is_first = not any(trace.legendgroup == NOISE_FLOOR for trace in figure.data)
    across = [at(value) for value in floors.index]
    high = [1 + float(floor) for floor in floors]
    low = [1 / each for each in high]
    is_alone = len(across) == 1
    figure.add_trace(
        go.Scatter(
            x=[*across, *reversed(across)],
            y=[*high, *reversed(low)],
            # A band has no width at one point alone: there it is a bar.
            **({"line": {"width": 14, "color": NOISE_FILL}} if is_alone else {"fill": "toself", "line": {"width": 0}}),
            fillcolor=NOISE_FILL,
            mode="lines",
            marker={"color": MUTED},
            name=NOISE_FLOOR,
            legendgroup=NOISE_FLOOR,
            showlegend=is_first,
            hoverinfo="skip",
        ),
        **place,
    )
