"""Where a call's time goes: bars by role, the contenders side by side. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from profiling.charts.formatting import chart_text
from profiling.charts.frame import frame, legend_height
from profiling.charts.names import names_of
from profiling.charts.palette import style_of
from profiling.operators.comparison import difference_words
from profiling.operators.kinds import short
from profiling.operators.result import ContenderProfile, OperatorProfile, RoleTime
from profiling.operators.roles import ROLES, label_of
from profiling.units import format_time
from profiling.wording import rounded_percent

TITLE_HEIGHT = 40
AXIS_HEIGHT = 60
# Pixels of one bar, and of the room between two roles.
BAR_HEIGHT, GAP_HEIGHT = 15, 8
# Of the longest bar: what the axis reaches to, so that the share beside it has room on a phone.
ROOM_FOR_SHARES = 1.25
# Never colour alone: each contender has a hatching of its own.
PATTERNS = ("", "/", "x", ".", "\\", "+", "|", "-")
# Operators named where one points at a bar.
MOST_NAMED = 5


def operator_bars(profile: OperatorProfile) -> go.Figure:
    """Bars of the time per call by role, one colour and hatching a contender; those not profiled have none."""
    measured = [each for each in profile.contenders if each.is_measured]
    names = names_of(each.contender for each in measured)
    labels = _labels(measured)
    figure = go.Figure()
    for position, each in enumerate(measured):
        figure.add_trace(_bars(each, names[each.contender], position))
    header = TITLE_HEIGHT + legend_height(figure)
    height = header + AXIS_HEIGHT + len(labels) * (BAR_HEIGHT * len(measured) + GAP_HEIGHT)
    frame(figure, profile.workload.label, height, header=header, legend_at=TITLE_HEIGHT)
    figure.update_layout(barmode="group", bargap=0.2, legend={"traceorder": "normal"})
    longest = max((role.self_ms for each in measured for role in each.roles()), default=1.0)
    figure.update_xaxes(title="ms a call, as the profiler sees it", range=[0, ROOM_FOR_SHARES * longest])
    # The first role on top, and within a role the first contender.
    figure.update_yaxes(categoryorder="array", categoryarray=labels, autorange="reversed")
    return figure


def operator_bars_alt(profile: OperatorProfile) -> str:
    """What the chart shows, for someone who does not see it."""
    measured = [each for each in profile.contenders if each.is_measured]
    if not measured:
        return "Bar chart without bars: no contender was profiled."
    names = names_of(each.contender for each in measured)
    told = [f"{names[each.contender]}: {_largest(each)}" for each in measured]
    words = difference_words(*pair, names) if (pair := profile.pair()) else []
    return f"Bar chart of the time of a call by role. {'; '.join(told)}. {'. '.join(words)}".strip()


def _bars(profile: ContenderProfile, name: str, position: int) -> go.Bar:
    roles = profile.roles()
    style = style_of(profile.contender, position)
    return go.Bar(
        name=chart_text(name),
        orientation="h",
        y=[role.label for role in roles],
        x=[role.self_ms for role in roles],
        text=[rounded_percent(role.share) for role in roles],
        textposition="outside",  # a light hatching hides what stands on it
        cliponaxis=False,
        marker={"color": style.color, "pattern": {"shape": PATTERNS[position % len(PATTERNS)], "size": 5}},
        hovertext=[_hover(role, name, profile.num_calls) for role in roles],
        hoverinfo="text",
        showlegend=True,
    )


def _labels(measured: Sequence[ContenderProfile]) -> list[str]:
    found = {role.label for each in measured for role in each.roles()}
    ordered = [label_of(role, is_backward) for is_backward in (False, True) for role in ROLES]
    return [label for label in ordered if label in found]


def _hover(role: RoleTime, name: str, num_calls: int) -> str:
    lines = [
        f"<b>{chart_text(name)}</b>",
        f"{role.label}: {format_time(role.self_ms / 1e3)}, {rounded_percent(role.share)} of the call",
        *(() if role.device_ms is None else (f"on the device {format_time(role.device_ms / 1e3)}",)),
    ]
    for each in role.operators[:MOST_NAMED]:
        told = f"{each.num_calls / num_calls:g} {short(each.name)}, {format_time(each.self_ns / num_calls / 1e9)}"
        lines.append(chart_text(told))
    left = len(role.operators) - MOST_NAMED
    return "<br>".join([*lines, *((f"and {left} more",) if left > 0 else ())])


def _largest(profile: ContenderProfile) -> str:
    role = max(profile.roles(), key=lambda role: role.self_ms)
    most = f"most of it in {role.label} ({rounded_percent(role.share, 0)})"
    return f"{format_time((profile.total_ms or 0.0) / 1e3)} a call, {most}"
