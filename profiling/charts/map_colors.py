"""The colours of a speed-up map: log2 of the ratio, the same distance for 2× and 0.5×."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from profiling.charts.formatting import ratio

# Blue where the contender is faster, brown where it is slower, white where nothing is between them.
COLORS = ((0.0, "#b35806"), (0.25, "#fdb863"), (0.5, "#f7f7f7"), (0.75, "#92c5de"), (1.0, "#2166ac"))
# Same or unsure: no colour of faster or slower, but a cell all the same. Its number is dark on it in either theme.
NO_CLAIM_CELL = "#bfbfbf"
# The colours reach at least so far either way: what is hardly faster looks hardly faster.
SMALLEST_BOUND = math.log2(1.5)


def bound_of(compared: pd.DataFrame) -> float:
    """How far the colours have to reach either way for these rows, as log2 of the ratio."""
    speedups = compared["speedup"].dropna().to_numpy(dtype=float).tolist()
    return max([*(abs(math.log2(value)) for value in speedups if 0 < value < math.inf), SMALLEST_BOUND])


def color_axis(bound: float) -> dict[str, Any]:
    """What plotly has to know of it."""
    ticks = (-bound, 0.0, bound)
    return {
        **{"colorscale": COLORS, "cmin": -bound, "cmid": 0, "cmax": bound},
        "colorbar": {"tickvals": ticks, "ticktext": [ratio(2**tick) for tick in ticks], "thickness": 12},
    }
