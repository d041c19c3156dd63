"""The charts of the HTML report: those of the page, in its first view, drawn by plotly from within the file."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import plotly
import plotly.graph_objects as go

from profiling.charts import dense_map, density, takeaway
from profiling.charts.axes import View, panel_values, values_of
from profiling.charts.claim_text import DENSE_MAP_CAPTION, MAP_CAPTION, caption
from profiling.charts.formatting import axis_label, axis_value
from profiling.charts.frame import CHART_CONFIG
from profiling.charts.lines import line_chart
from profiling.charts.metrics import ERROR, LATENCY, MEMORY, SPEEDUP
from profiling.charts.roofline_chart import roofline_alt, roofline_chart
from profiling.charts.speedup_map import speedup_map
from profiling.report.content import Content

LINES = (
    ("Latency", LATENCY, "Latency"),
    ("Speed-up", SPEEDUP, "Latency"),
    ("Memory", MEMORY, "Memory"),
    ("Error", ERROR, "Max error"),
)


def plotly_source() -> str:
    """The text of plotly's own program, as it comes with the package."""
    return (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def charts_html(content: Content) -> Iterator[str]:
    """Each chart under its title, with what it shows in words for those who do not see it."""
    run, table, found = content.run, content.table, content.headlines
    view, axes = density.default_view(run), values_of(run)
    panels = panel_values(run, view)
    drawn = density.plan(view, axes, panels)
    told = [*drawn.left_out, *([_held(view)] if view.held else [])]
    for title, metric, kind in LINES:
        said = [*told, caption(table)] if metric.compares and not drawn.is_dense else told
        figure = line_chart(table, metric, view, axes, panels)
        yield _figure(title, figure, takeaway.of_lines(found, metric, kind), said)
    if found:
        is_dense = dense_map.is_needed(axes, view.x, len(found))
        said = [dense_map.left_out(axes, view.x, len(found)), DENSE_MAP_CAPTION] if is_dense else [MAP_CAPTION]
        yield _figure("Speed-up of every point", speedup_map(table, view.x, axes), takeaway.of_map(found), said)
    if content.limits.limits:
        yield _figure(
            "Limits",
            roofline_chart(content.limits),
            roofline_alt(content.limits),
            [f"{words}." for words in content.limit_words],
        )


def _held(view: View) -> str:
    where = ", ".join(f"{axis_label(axis)} {axis_value(axis, value)}" for axis, value in view.held.items())
    return f"At {where} alone; the other points are in the table."


def _figure(title: str, figure: go.Figure, alt: str, told: list[str]) -> str:
    clear = "rgba(0,0,0,0)"
    figure.update_layout(template="plotly_white", paper_bgcolor=clear, plot_bgcolor=clear, autosize=True)
    drawing = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        config={**CHART_CONFIG, "responsive": True},
        div_id=f"chart-{''.join(letter for letter in title.lower() if letter.isalpha())}",
    )
    words = " ".join(filter(None, told))
    return (
        f'<h3>{html.escape(title)}</h3><figure role="img" aria-label="{html.escape(alt)}">{drawing}'
        f"<figcaption>{html.escape(words)}</figcaption></figure>"
    )
