"""The speed-up map: a heat map a contender, one column for each x value, one row for every other combination."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from profiling.charts import dense_map
from profiling.charts.axes import CONTENDER, SIZES, label
from profiling.charts.claim_text import PROVISIONAL, verdict_lines
from profiling.charts.formatting import axis_label, axis_value, chart_lines, chart_text, ratio
from profiling.charts.lines import select
from profiling.charts.map_colors import Claim, bound_of, claim_of, finish, look_of
from profiling.charts.map_targets import HOVER_DISTANCE, targets
from profiling.charts.metrics import NOT_COMPARABLE
from profiling.charts.names import names_of
from profiling.settings import reference_of

ROW_HEIGHT = 34
# Under each map the ticks and the axis's title, and the title of the next map.
AXES_HEIGHT = 100
TEXT_SIZE = 10
UNRELIABLE_CELL = "#9a9a9a"
# The columns that a cell is made of.
READ = (
    *("status", "status_reason", "reference", "speedup", "speedup_low", "speedup_high", "check_verdict"),
    *("speed_verdict", "speed_verdict_reason", "noise_floor", "num_replicates", "point"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of a map: its hover, text and number; where it has a speed-up that counts, as log2, and its claim."""

    hover: str
    text: str = ""
    point: int | None = None
    value: float | None = None
    claim: Claim | None = None


def speedup_map(table: pd.DataFrame, x: str, axes: Mapping[str, Sequence[Any]]) -> go.Figure:
    """Draws `speedup` as colour, log2(ratio), the same distance for 2× and 0.5×; cells without it say why."""
    compared = table[table["reference"].notna()]
    references = {**{name: reference_of(name) for name in axes[CONTENDER]}, **_references_in(compared)}
    contenders = [name for name in axes[CONTENDER] if references[name]]
    down = [axis for axis in axes if axis not in (x, CONTENDER)]
    columns = list(axes.get(x, ())) or sorted(table[x].dropna().unique())
    across = [axis_value(x, value) for value in columns]
    if dense_map.is_needed(axes, x, len(contenders)):
        names = {name: f"{names_of(contenders)[name]} over {references[name]}" for name in contenders}
        return dense_map.draw(compared, x, {**axes, x: columns}, down, names)
    combinations = [dict(zip(down, c, strict=True)) for c in itertools.product(*(axes[axis] for axis in down))]
    down_names = [label(where) or _fixed_sizes(compared, x) for where in combinations]
    names = names_of(contenders)
    num_maps = max(1, len(contenders))
    room = num_maps * (len(combinations) * ROW_HEIGHT + AXES_HEIGHT)
    figure = make_subplots(
        rows=num_maps,
        cols=1,
        vertical_spacing=AXES_HEIGHT / room if num_maps > 1 else 0,
        subplot_titles=[f"{chart_text(names[name])} over {chart_text(references[name])}" for name in contenders],
    )
    for position, name in enumerate(contenders):
        found = _rows_by_place(select(compared, {CONTENDER: name}), [*down, x])
        cells = [[_cell(found.get((*where.values(), value))) for value in columns] for where in combinations]
        there = {cell.claim for row in cells for cell in row}
        for claim in Claim:
            if claim is Claim.CLAIMED or claim in there:  # the first holds the place of cells that are still to come
                figure.add_trace(_heatmap(cells, claim, across, down_names), position + 1, 1)
        figure.add_trace(_unreliable(cells, across, down_names), position + 1, 1)
        figure.add_trace(_targets(cells, across, down_names), position + 1, 1)
    _lay_out(figure, across, down_names)
    # Under the last map alone: between two it would meet the title of the next.
    figure.update_xaxes(title={"text": axis_label(x), "standoff": 6}, row=num_maps, col=1)
    height = num_maps * (len(down_names) * ROW_HEIGHT + AXES_HEIGHT) + 20
    finish(figure, bound_of(compared), height, has_uncounted=False)
    return figure


def _references_in(compared: pd.DataFrame) -> dict[str, str]:
    """What each contender was compared with in this run, where it has rows."""
    return dict(zip(compared["contender"].astype(str), compared["reference"].astype(str), strict=True))


def _fixed_sizes(compared: pd.DataFrame, x: str) -> str:
    """What all points of a map with one row share, one below the other, which a narrow screen has room for."""
    sizes = [size for size in SIZES if size != x and not compared.empty]
    return "<br>".join(label({size: compared[size].iloc[0]}) for size in sizes) or " "


def _rows_by_place(rows: pd.DataFrame, axes: Sequence[str]) -> dict[tuple[Any, ...], dict[Any, Any]]:
    found: dict[tuple[Any, ...], dict[Any, Any]] = {}
    for row in rows[[*dict.fromkeys([*axes, *READ])]].astype(object).to_dict("records"):
        found.setdefault(tuple(row[axis] for axis in axes), row)
    return found


def _cell(row: Mapping[Any, Any] | None) -> Cell:
    if row is None:
        return Cell(hover="not measured yet")
    point = int(row["point"])
    if row["status"] != "ok":
        text = "OOM" if row["status"] == "oom" else chart_text(row["status"], 12)
        return Cell(
            text=text, hover=_lines(row["status_reason"]) if pd.notna(row["status_reason"]) else text, point=point
        )
    if pd.isna(row["speedup"]):
        return Cell(text="–", hover=f"no speed-up: {chart_text(row['reference'])} was not measured here", point=point)
    speedup = float(row["speedup"])
    if row["check_verdict"] not in ("pass", NOT_COMPARABLE):
        verdict = "was not made" if pd.isna(row["check_verdict"]) else f"says {chart_text(row['check_verdict'])}"
        hover = f"{ratio(speedup)}, which does not count: its check {verdict}"
        return Cell(text=f"({ratio(speedup)})", hover=hover, point=point)
    told = [f"{ratio(speedup)} over {chart_text(row['reference'])}"]
    told += ["not comparable: timed with its own weights"] if row["check_verdict"] == NOT_COMPARABLE else []
    return Cell(
        text=_text(row),
        hover="<br>".join([*told, *verdict_lines(row)]),
        point=point,
        value=math.log2(speedup),
        claim=claim_of(row["speed_verdict"]),
    )


def _lines(text: object) -> str:
    return "<br>".join(chart_lines(text))


def _text(row: Mapping[Any, Any]) -> str:
    """`1.32×`; with `?` where nothing can be claimed yet, `=` where it is the same, `≠` for another design."""
    verdict = PROVISIONAL if pd.isna(row["speed_verdict"]) else str(row["speed_verdict"])
    mark = {PROVISIONAL: "?", "same": "="}.get(verdict, "")
    return ("≠ " if row["check_verdict"] == NOT_COMPARABLE else "") + ratio(float(row["speedup"])) + mark


def _heatmap(cells: list[list[Cell]], claim: Claim, across: list[str], down: list[str]) -> go.Heatmap:
    """The cells of one kind, in their colours; the others are gaps."""
    return go.Heatmap(
        x=across,
        y=down,
        z=[[cell.value if cell.claim is claim else None for cell in row] for row in cells],
        text=[[cell.text if cell.claim is claim else "" for cell in row] for row in cells],
        texttemplate="%{text}",
        # Stated: left to itself the text of a whole map shrinks until its longest cell fits, on a phone to nothing.
        textfont={"size": TEXT_SIZE},
        hoverinfo="skip",
        xgap=2,
        ygap=2,
        **look_of(claim),
    )


def _unreliable(cells: list[list[Cell]], across: list[str], down: list[str]) -> go.Scatter:
    """The text of cells without a number that counts, in grey."""
    written = [
        (at_x, at_y, cell.text)
        for at_y, row in zip(down, cells, strict=True)
        for at_x, cell in zip(across, row, strict=True)
        if cell.claim is None and cell.text
    ]
    return go.Scatter(
        x=[at[0] for at in written],
        y=[at[1] for at in written],
        text=[at[2] for at in written],
        hoverinfo="skip",
        mode="text",
        textfont={"color": UNRELIABLE_CELL},
        showlegend=False,
    )


def _targets(cells: list[list[Cell]], across: list[str], down: list[str]) -> go.Scatter:
    flat = [cell for row in cells for cell in row]
    return targets(
        x=across * len(down),
        y=[name for name in down for _ in across],
        told=[cell.hover for cell in flat],
        points=[cell.point for cell in flat],
    )


def _lay_out(figure: go.Figure, across: list[str], down: list[str]) -> None:
    # Ranges and categories by hand: a map that is still empty has its cells where they will be.
    figure.update_xaxes(type="category", categoryarray=across, range=[-0.5, len(across) - 0.5], showgrid=False)
    figure.update_yaxes(
        type="category", categoryarray=down, range=[len(down) - 0.5, -0.5], showgrid=False, automargin=True
    )
    figure.update_annotations(font_size=13)
    figure.update_layout(hoverdistance=HOVER_DISTANCE)
