"""A run's result: the headline, the charts, the table, and the report to take away."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import limits_panel, replicate_panel, report_downloads, sample_panel, session
from dashboard.report_text import code
from dashboard.result_facts import Facts, facts_of
from dashboard.result_table import show_table
from dashboard.view_choice import choose_view
from profiling.charts import dense_map, density, takeaway
from profiling.charts.axes import View, panel_values, values_of
from profiling.charts.claim_text import DENSE_MAP_CAPTION, MAP_CAPTION
from profiling.charts.formatting import axis_label, axis_value, count, error, plain, ratio
from profiling.charts.frame import CHART_CONFIG
from profiling.charts.headline_text import claim_help, headline_caption
from profiling.charts.lines import line_chart
from profiling.charts.metrics import ERROR_VIEWS, LATENCY_VIEWS, MEMORY_VIEWS, Metric
from profiling.charts.names import file_of, name_of
from profiling.charts.speedup_map import speedup_map
from profiling.charts.summary import Headline
from profiling.runs import Run

# The tabs with lines: the key of what they show, and the choices.
LINE_TABS = {
    "Latency": (session.LATENCY_AS, LATENCY_VIEWS),
    "Memory": (session.MEMORY_AS, MEMORY_VIEWS),
    "Max error": (session.ERROR_AS, ERROR_VIEWS),
}
MAP_TAB = "Speed-up map"
LIMITS_TAB = "Limits"
SAMPLES_TAB = "Samples"
TABS = (*LINE_TABS, MAP_TAB, LIMITS_TAB, SAMPLES_TAB, "Table")
HEADLINES_A_ROW = 2
# What is beyond stands in the CSV.
MOST_REASONS = 30


def show(run: Run, table: pd.DataFrame, problems: Sequence[str] = (), *, is_busy: bool) -> None:
    """Draws the run from top to bottom; a run without rows yet says so, and has its charts empty in their places.

    Args:
        run: which run.
        table: its rows as `load_run` gives them.
        problems: what of its files could not be read, in sentences; the table is what is left.
        is_busy: whether a sweep is alive, so that none can be started.
    """
    if problems:
        st.warning(" ".join(f"{plain(each)}." for each in problems))
    if table.empty:
        st.info(
            "No rows yet: the first point is being measured." if run.state == "running" else "This run has no rows."
        )
    facts = facts_of(run, table)
    found = facts.headlines
    for first in range(0, len(found), HEADLINES_A_ROW):
        row = found[first : first + HEADLINES_A_ROW]
        for place, headline in zip(st.columns(min(len(found), HEADLINES_A_ROW), gap="small"), row, strict=False):
            with place:
                _show_headline(headline)
    more = st.container()
    _show_tabs(run, table, facts)
    if facts.lacks_replicates:  # after the chart: what more replicates of a big grid would take is not told at once
        with more:
            replicate_panel.show(run, is_busy=is_busy)
    _show_unmeasured(facts)
    _show_warnings(facts)
    report_downloads.show(run, table)


def _show_headline(headline: Headline) -> None:
    with st.container(border=True, gap="xsmall", key=f"headline_{headline.contender}"):
        st.markdown(
            f"**{plain(name_of(headline.contender))}**{_from_file(headline)} next to {plain(headline.reference)}"
        )
        numbers = st.container(horizontal=True, gap="small")
        numbers.metric(
            "speed-up",
            ratio(headline.speedup),
            help="Geometric mean over the shapes that both completed and whose check does not fail. Above 1 is faster.",
        )
        numbers.metric(
            "memory", ratio(headline.memory_ratio), help="Geometric mean of the ratio to the reference's peak."
        )
        numbers.metric(
            "max error", error(headline.max_abs_error), help="Largest difference from the reference's output."
        )
        st.caption(headline_caption(headline), help=claim_help(headline) or None)


def _from_file(headline: Headline) -> str:
    file = file_of(headline.contender)
    return f" from {code(file)}" if file else ""


def _show_tabs(run: Run, table: pd.DataFrame, facts: Facts) -> None:
    """Every choice is drawn each time, though its tab be closed: what is not drawn falls out of the URL."""
    tabs = dict(zip(TABS, st.tabs(TABS, key=session.TAB, bind="query-params"), strict=True))
    chosen = next((name for name in TABS if tabs[name].open), TABS[0])
    metrics = {name: _choose_metric(tabs[name], key, views) for name, (key, views) in LINE_TABS.items()}
    point = sample_panel.choose_point(run, table, tabs[SAMPLES_TAB])
    place = tabs[chosen].container()
    view = _choose_view(run, tabs, chosen)
    with place:
        if chosen in metrics:
            _show_chart(run, table, facts, metrics[chosen], view, chosen)
        elif chosen == MAP_TAB:
            _show_map(run, table, facts, view)
        elif chosen == LIMITS_TAB:
            limits_panel.show(run, table)
        elif chosen == SAMPLES_TAB:
            sample_panel.show(run, table, point)
        else:
            show_table(table)


def _choose_metric(tab: Any, key: str, metrics: Mapping[str, Metric]) -> Metric:
    options = list(metrics)
    chosen = tab.segmented_control(
        "Show", options, default=options[0], key=key, bind="query-params", label_visibility="collapsed"
    )
    return metrics.get(chosen or options[0], metrics[options[0]])


def _choose_view(run: Run, tabs: Mapping[str, Any], chosen: str) -> View:
    home = chosen if chosen in LINE_TABS else TABS[0]
    row = tabs[home].container(horizontal=True, vertical_alignment="bottom", gap="small", key="view_choice")
    return choose_view(run, x_place=tabs[MAP_TAB] if chosen == MAP_TAB else row, place=row)


def _show_chart(run: Run, table: pd.DataFrame, facts: Facts, metric: Metric, view: View, name: str) -> None:
    panels, axes = panel_values(run, view), values_of(run)
    figure = line_chart(table, metric, view, axes, panels)
    key = f"chart_{name}"
    st.plotly_chart(
        figure,
        key=key,
        config=CHART_CONFIG,
        alt=takeaway.of_lines(facts.headlines, metric, name),
        on_select=functools.partial(sample_panel.open_clicked, run, key, SAMPLES_TAB),
        selection_mode="points",
    )
    drawn = density.plan(view, axes, panels)
    told = [*drawn.left_out, *([_held(view)] if view.held else [])]
    told += [facts.caption] if metric.compares and not drawn.is_dense else []
    if metric.compares and facts.has_failing:
        told.append("Grey marks do not count: at that shape the layer does not pass the check.")
    told.append(f"A click on a {'line' if drawn.is_dense else 'mark'} opens the samples of its point.")
    st.caption(" ".join(filter(None, told)))


def _held(view: View) -> str:
    """Which part of the run a chart is of, where it is of one."""
    where = " · ".join(f"{axis_label(axis)} {axis_value(axis, value)}" for axis, value in view.held.items())
    return f"At {plain(where)} alone; the other points are a choice away."


def _show_map(run: Run, table: pd.DataFrame, facts: Facts, view: View) -> None:
    axes, num_maps = values_of(run), len(facts.headlines)
    figure, key = speedup_map(table, view.x, axes), "chart_map"
    st.plotly_chart(
        figure,
        key=key,
        config=CHART_CONFIG,
        alt=takeaway.of_map(facts.headlines),
        on_select=functools.partial(sample_panel.open_clicked, run, key, SAMPLES_TAB),
        selection_mode="points",
    )
    is_dense = dense_map.is_needed(axes, view.x, num_maps)
    told = [dense_map.left_out(axes, view.x, num_maps), DENSE_MAP_CAPTION] if is_dense else [MAP_CAPTION]
    if not is_dense or dense_map.is_clickable(axes, view.x, num_maps):
        told.append("A click on a cell opens the samples of its point.")
    st.caption(" ".join(filter(None, told)))


def _show_unmeasured(facts: Facts) -> None:
    lost = facts.unmeasured
    if not lost:
        return
    total = sum(number for _, _, number in lost)
    with st.expander(f"{count(total, 'row')} without numbers", icon="⚠️"):
        for status, reason, number in lost[:MOST_REASONS]:
            told = plain(reason) or "no reason was given"
            st.markdown(f"**{plain(status)}**, {count(number, 'row')}: {told}")
        _tell_of_others(len(lost))


def _show_warnings(facts: Facts) -> None:
    """What may disturb the numbers, closed where numbers are to be had: they stand, with this beside them."""
    found = facts.warned
    if not found:
        return
    with st.expander(f"{count(facts.num_warned, 'row')} with warnings", icon="ℹ️"):
        for text, number in found[:MOST_REASONS]:
            st.markdown(f"{count(number, 'row')}: {plain(text)}")
        _tell_of_others(len(found))


def _tell_of_others(number: int) -> None:
    if number > MOST_REASONS:
        st.caption(f"{number - MOST_REASONS:,} more, each of fewer rows: they stand in the CSV.")
