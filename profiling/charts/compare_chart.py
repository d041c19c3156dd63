"""The chart of a comparison: what changed at each shape, by contender, beside what is noise. Pure: rows to figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from profiling.charts import claim_marks
from profiling.charts.claim_text import CLAIMS
from profiling.charts.compare_text import hover
from profiling.charts.compared_rows import WORK, Drawn
from profiling.charts.formatting import chart_text
from profiling.charts.frame import frame, legend_height
from profiling.charts.names import names_of
from profiling.charts.palette import FAILED, MUTED, UNRELIABLE, style_of
from profiling.wording import workload_words

TITLE_HEIGHT = 30
AXIS_HEIGHT = 50
SHAPE_HEIGHT = 18
MARK_HEIGHT = 13
# How much of a shape's height its marks take, and its band of noise.
SPREAD = 0.62
BAND = 0.86
# Above the first shape and below the last: a ring around a mark needs more than the mark.
ROOM = 0.7
# An interval of few replicates may reach to millions of per cent: the axis ends at so many times the largest change,
# or the largest noise, and the bar goes on beyond.
REACH = 3.0
LEAST_REACH = 5.0
EDGE = 1.15

NOT_MEASURED = "not measured on both sides"
REGRESSION = "regression"
READ = (
    *WORK,
    *("contender", "measure", "change_percent", "change_low_percent", "change_high_percent", "noise_percent"),
    *("num_replicates", "verdict", "reason", "is_regression", "regression", "latency_base_ms", "latency_new_ms"),
    *("point_base", "point_new"),
)


@dataclasses.dataclass(frozen=True)
class Mark:
    """One row of a comparison in its place: the line of its shape, from the top, and its cells."""

    y: float
    row: Mapping[str, Any]


def compare_chart(drawn: Drawn, called: Mapping[str, str] | None = None) -> go.Figure:
    """Draws the change of time in per cent with its interval, a line a shape, above 0 to the right: slower.

    Full marks claim a difference, hollow ones none; grey ones do not count, since a check fails.

    Args:
        drawn: as `profiling.charts.compared_rows.choose_rows` gives it.
        called: contender → its name, as where else it is told of; as short as those that are drawn allow where None.
    """
    cells = drawn.rows[list(READ)].astype(object)
    rows = [
        {str(name): cell for name, cell in row.items()}
        for row in cells.where(drawn.rows[list(READ)].notna(), None).to_dict("records")
    ]
    names = names_of(row["contender"] for row in rows)
    names = {contender: (called or names)[contender] for contender in names}
    lines = list(dict.fromkeys(_shape(row) for row in rows))
    marks = {contender: _marks(rows, lines, contender, list(names)) for contender in names}
    figure = go.Figure()
    _add_noise(figure, rows, lines)
    for position, (contender, own) in enumerate(marks.items()):
        _add_contender(figure, own, contender, names[contender], position)
    every = [mark for own in marks.values() for mark in own]
    _add_signs(figure, [mark for mark in every if mark.row["is_regression"]], REGRESSION, "circle-open", 17, names)
    lost = [mark for mark in every if mark.row["change_percent"] is None]
    _add_signs(figure, lost, NOT_MEASURED, "x-thin-open", 9, names)
    _finish(figure, rows, lines, len(names))
    return figure


def _shape(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in WORK)


def _marks(
    rows: Sequence[Mapping[str, Any]], lines: Sequence[tuple[Any, ...]], contender: str, contenders: Sequence[str]
) -> list[Mark]:
    """Those of a contender: within the height of a shape each has a place of its own."""
    places = {shape: place for place, shape in enumerate(lines)}
    step = SPREAD / max(1, len(contenders) - 1)
    beside = (contenders.index(contender) * step - SPREAD / 2) if len(contenders) > 1 else 0.0
    return [Mark(places[_shape(row)] + beside, row) for row in rows if row["contender"] == contender]


def _add_noise(figure: go.Figure, rows: Sequence[Mapping[str, Any]], lines: Sequence[tuple[Any, ...]]) -> None:
    """The band of each shape within which a change is no claim: the widest of its contenders."""
    widest: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if row["noise_percent"] is not None:
            widest[_shape(row)] = max(widest.get(_shape(row), 0.0), row["noise_percent"])
    x: list[float | None] = []
    y: list[float | None] = []
    for place, shape in enumerate(lines):
        if shape not in widest:
            continue
        high = widest[shape]
        low = 100 * (1 / (1 + high / 100) - 1)
        top, bottom = place - BAND / 2, place + BAND / 2
        x += [low, high, high, low, low, None]
        y += [top, top, bottom, bottom, top, None]
    if x:
        figure.add_trace(
            go.Scatter(
                x=x,
                y=y,
                mode="lines",
                line={"width": 0},
                marker={"color": MUTED},
                fill="toself",
                fillcolor=claim_marks.NOISE_FILL,
                name="noise, no claim within",
                hoverinfo="skip",
                showlegend=True,
            )
        )


def _add_contender(figure: go.Figure, marks: Sequence[Mark], contender: str, name: str, position: int) -> None:
    measured = [mark for mark in marks if mark.row["change_percent"] is not None]
    style = style_of(contender, position)
    counts = [mark.row["verdict"] is not None for mark in measured]
    high = [_beyond(mark.row, "change_high_percent") for mark in measured]
    low = [_beyond(mark.row, "change_low_percent") for mark in measured]
    figure.add_trace(
        go.Scatter(
            x=[mark.row["change_percent"] for mark in measured],
            y=[mark.y for mark in measured],
            name=chart_text(name),
            mode="markers",
            marker={
                "symbol": [
                    claim_marks.mark(style.symbol, is_claimed=mark.row["verdict"] in CLAIMS) for mark in measured
                ],
                "size": 9,
                "color": [style.color if is_counted else UNRELIABLE for is_counted in counts],
            },
            error_x={
                **{"type": "data", "symmetric": False, "color": style.faint(0.7), "thickness": 1.5, "width": 3},
                "array": high,
                "arrayminus": [None if each is None else -each for each in low],
            },
            customdata=_points(measured),
            text=[hover(mark.row, name) for mark in measured],
            hovertemplate="%{text}<extra></extra>",
            showlegend=True,
        )
    )


def _points(marks: Sequence[Mark]) -> list[list[int]]:
    """What a click on a mark is about: the numbers of its point in BASE and in NEW; 0 where a report has none."""
    return [[int(mark.row["point_base"] or 0), int(mark.row["point_new"] or 0)] for mark in marks]


def _beyond(row: Mapping[str, Any], end: str) -> float | None:
    return None if row[end] is None else row[end] - row["change_percent"]


def _add_signs(
    figure: go.Figure, marks: Sequence[Mark], name: str, symbol: str, size: int, names: Mapping[str, str]
) -> None:
    """A ring around what counts as a regression, a cross on the zero line where there is no change to tell."""
    if marks:
        figure.add_trace(
            go.Scatter(
                x=[mark.row["change_percent"] or 0.0 for mark in marks],
                y=[mark.y for mark in marks],
                name=name,
                mode="markers",
                marker={"symbol": symbol, "size": size, "color": FAILED, "line": {"width": 2, "color": FAILED}},
                customdata=_points(marks),
                text=[hover(mark.row, names[mark.row["contender"]]) for mark in marks],
                hovertemplate="%{text}<extra></extra>",
                showlegend=True,
            )
        )


def _finish(
    figure: go.Figure, rows: Sequence[Mapping[str, Any]], lines: Sequence[tuple[Any, ...]], num_contenders: int
) -> None:
    reach = _reach(rows)
    shapes = {shape: workload_words(dict(zip(WORK, shape, strict=True))) for shape in lines}
    header = TITLE_HEIGHT + legend_height(figure)
    height = header + AXIS_HEIGHT + len(lines) * (SHAPE_HEIGHT + MARK_HEIGHT * max(1, num_contenders - 1))
    frame(figure, "Change of time from BASE to NEW, %", height, header=header, legend_at=TITLE_HEIGHT)
    figure.update_layout(legend_xref="container")  # names of shapes push the plot to the right
    figure.update_xaxes(
        range=[-min(reach, 100.0) * EDGE, reach * EDGE],
        title={"text": "← faster · slower →", "standoff": 4},
        zeroline=True,
        zerolinewidth=2,
        zerolinecolor=MUTED,
    )
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(lines))),
        ticktext=[chart_text(words) for words in shapes.values()],
        range=[len(lines) - 1 + ROOM, -ROOM],
        showgrid=False,
        zeroline=False,
        automargin=True,
        tickfont={"size": 11},
    )


def _reach(rows: Sequence[Mapping[str, Any]]) -> float:
    """How far the axis reaches: to all changes and noise, and the ends of the intervals that are not beyond measure."""
    sizes = [
        abs(float(row[name])) for row in rows for name in ("change_percent", "noise_percent") if row[name] is not None
    ]
    largest = max([LEAST_REACH, *sizes])
    ends = [
        abs(float(row[name]))
        for row in rows
        for name in ("change_low_percent", "change_high_percent")
        if row[name] is not None and abs(row[name]) <= REACH * largest
    ]
    return max([largest, *ends])
