"""The samples of one point: which point, its raw times in order, their spread and ratios, and what they come to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import operator_link, repeat_panel, sample_charts, sample_ratios, sample_text, session, store
from dashboard.sample_charts import MOST_POSITIONS, looks_of
from profiling.charts.axes import values_of
from profiling.charts.formatting import axis_label, axis_value, plain
from profiling.charts.frame import CHART_CONFIG
from profiling.charts.names import names_of
from profiling.runs import Run, RunError

Point = Mapping[str, Any]


def choose_point(run: Run, table: pd.DataFrame, place: Any) -> Point:
    """Draws a choice for each swept axis, and returns the value of each; cheap, and drawn though the tab be closed."""
    values = {axis: values_of(run)[axis] for axis in run.grid.swept_axes()}
    first = default_point(run, table)
    row = place.container(horizontal=True, vertical_alignment="bottom", gap="small", key="sample_choice")
    chosen = {axis: _choose(row, axis, values[axis], first.get(axis)) for axis in values}
    st.session_state[session.CHOSEN_POINT] = (run.run_id, chosen)  # the operators' view begins with it
    return chosen


def default_point(run: Run, table: pd.DataFrame) -> Point:
    """The values of the swept axes at the point measured last while a run goes on, else at the slowest one."""
    measured = table[table["latency_median_ms"].notna()]
    if measured.empty:
        return {}
    order = measured["point"] if run.state == "running" else measured["latency_median_ms"]
    row = measured.loc[order == order.max()].iloc[0]
    return {axis: row[axis] for axis in run.grid.swept_axes()}


def _choose(place: Any, axis: str, values: tuple[Any, ...], default: Any) -> Any:
    options = {axis_value(axis, value): value for value in values}
    names = list(options)
    first = axis_value(axis, default)
    chosen = place.selectbox(
        axis_label(axis),
        names,
        index=names.index(first) if first in options else 0,
        key=session.sample(axis),
        bind="query-params",
        width=150,
    )
    return options.get(chosen, default if default in values else values[0])


def open_clicked(run: Run, chart: str, tab: str) -> None:
    """Opens the samples of the point whose mark was clicked; called back when a chart's selection changes.

    Args:
        run: which run the chart shows.
        chart: the chart's key; its marks carry the number of their point.
        tab: the name of the tab that holds the samples.
    """
    selection = st.session_state.get(chart)
    marks = selection["selection"]["points"] if selection else []
    number = next((mark["customdata"] for mark in marks if "customdata" in mark), None)
    if not isinstance(number, int) or not 1 <= number <= run.grid.num_points:
        return
    workload = next(itertools.islice(run.grid.workloads(), number - 1, None))
    st.session_state[session.TAB] = tab
    for axis in run.grid.swept_axes():
        st.session_state[session.sample(axis)] = axis_value(axis, getattr(workload, axis))


def show(run: Run, table: pd.DataFrame, point: Point) -> None:
    """Draws everything that is known of a point."""
    rows = table
    for axis, value in point.items():
        rows = rows[rows[axis].eq(value).fillna(False)]
    if rows.empty:
        st.info("This point is not measured yet.")
        return
    number = int(rows["point"].iloc[0])
    try:
        # In this order: samples are written before the rows that are made of them.
        replicates = store.replicates_of(run, number)
        samples = store.samples_of(run, number)
    except RunError as error:
        st.error(f"The samples cannot be shown: {plain(str(error))}.")
        return
    references = dict(zip(rows["contender"], rows["reference"].where(rows["reference"].notna(), None), strict=True))
    placed = sample_ratios.laid_out(samples)
    ratios = sample_ratios.ratios_of(placed, references)
    medians = sample_ratios.within(ratios)
    lost = sample_text.missing(replicates, samples)
    if samples.empty:
        st.info("No raw samples of this point are kept in the run's folder.")
    else:
        if lost:
            st.warning(lost)
        _show_charts(run, rows, placed, ratios, medians)
    _show_words(rows, replicates, medians)
    repeat_panel.show(run, rows)
    operator_link.show(run, point)


def _show_charts(
    run: Run, rows: pd.DataFrame, placed: pd.DataFrame, ratios: pd.DataFrame, medians: list[sample_ratios.Within]
) -> None:
    looks = looks_of(run.settings.contenders, list(placed["contender"].unique()))
    drawn, step = sample_ratios.thinned(placed, MOST_POSITIONS)
    told = sample_text.takeaway(rows, placed)
    left, right = st.columns([1.6, 1], gap="small")
    with left:
        figure = sample_charts.times_chart(drawn, looks)
        st.plotly_chart(figure, key="chart_samples", config=CHART_CONFIG, alt=f"Time of each sample in order. {told}")
    with right:
        figure = sample_charts.spread_chart(placed, looks)
        st.plotly_chart(figure, key="chart_spread", config=CHART_CONFIG, alt=f"Spread of the samples. {told}")
    if not ratios.empty:
        few = sample_ratios.thinned(ratios, MOST_POSITIONS)[0]
        figure = sample_charts.ratios_chart(few, medians, looks)
        st.plotly_chart(figure, key="chart_ratios", config=CHART_CONFIG, alt=f"Speed-up of each round. {told}")
    st.caption(_caption(ratios, step))


def _caption(ratios: pd.DataFrame, step: int) -> str:
    told = ["From left to right as measured: the rounds of each replicate, a process of its own, one after the other."]
    low, high = sample_charts.shown_range(ratios)
    outside = int(((ratios["ratio"] < low) | (ratios["ratio"] > high)).sum())
    if outside:
        told.append(f"{outside:,} of {len(ratios):,} ratios lie outside of what is drawn: a double click shows them.")
    if step > 1:
        told.append(f"Every {step}th round is drawn; boxes, medians and intervals are of all.")
    return " ".join(told)


def _show_words(rows: pd.DataFrame, replicates: pd.DataFrame, medians: list[sample_ratios.Within]) -> None:
    names = names_of(rows["contender"])
    for row in rows[rows["reference"].notna()].to_dict("records"):
        own = replicates[replicates["contender"] == row["contender"]]
        st.markdown(f"**{plain(names[row['contender']])}** over {plain(str(row['reference']))}")
        st.markdown("\n".join(f"- {sentence}" for sentence in sample_text.speedup_sentences(row, own, medians)))
    for warning in sample_text.warnings_of(rows):
        st.markdown(f"⚠️ {warning}")
    conditions = sample_text.conditions(rows)
    st.dataframe(conditions, hide_index=True, key="sample_conditions", alt="What the samples were taken under.")
