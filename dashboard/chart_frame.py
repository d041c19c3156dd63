"""What every line and sample chart has around it: title and legend above the plot, the zoom kept while rows come."""

from __future__ import annotations

import plotly.graph_objects as go


def frame(figure: go.Figure, title: str, height: int, *, header: int, legend_at: int) -> None:
    """Gives a figure its title and legend.

    Args:
        figure: what to frame.
        title: stands above all, on the left.
        height: of the whole, pixels.
        header: pixels that title and legend take of it.
        legend_at: pixels from the top to the legend.
    """
    figure.update_layout(
        height=height,
        margin={"l": 10, "r": 10, "t": header, "b": 10},
        title={
            "text": title,
            "font": {"size": 14},
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 4},
        },
        legend={
            **{"orientation": "h", "xanchor": "left", "x": 0, "font": {"size": 12}},
            **{"yref": "container", "yanchor": "top", "y": 1 - legend_at / height},
        },
        hovermode="closest",
        uirevision="kept",
    )
