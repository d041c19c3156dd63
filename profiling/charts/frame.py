"""What every line and sample chart has around it: title and legend above the plot, the zoom kept while rows come."""

from __future__ import annotations

import plotly.graph_objects as go

# Of every chart on the page: no other host's button, and no selection but a click.
CHART_CONFIG = {"displaylogo": False, "showSendToCloud": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}
# Pixels of a legend: a line of it, what stands before a name, a letter, and how wide it is on a phone.
LINE_HEIGHT = 29
SIGN_WIDTH = 45
LETTER_WIDTH = 6.5
NARROW = 350
# So that a legend has the same room whether or not some point of a run has no number yet.
FEWEST_LINES = 2
READING_HEIGHT = 320


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


def legend_height(figure: go.Figure) -> int:
    """The pixels that the legend of a figure takes on a phone, where it is the highest."""
    lines, used = 1, 0.0
    for trace in figure.data:
        width = SIGN_WIDTH + LETTER_WIDTH * len(trace.name or "") if trace.showlegend else 0.0
        if used and used + width > NARROW:
            lines, used = lines + 1, 0.0
        used += width
    return LINE_HEIGHT * max(lines, FEWEST_LINES)


def reading_chart() -> go.Figure:
    """What stands in the place of a chart until the rows for it are read."""
    figure = go.Figure()
    figure.update_layout(height=READING_HEIGHT, margin={"l": 10, "r": 10, "t": 10, "b": 10})
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(
        text="Reading the run …", showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper", opacity=0.75
    )
    return figure
