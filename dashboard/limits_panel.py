"""How near a run's contenders come to what the machine can do, and how their time and memory grow."""

from __future__ import annotations

import dataclasses

import pandas as pd
import streamlit as st

from dashboard import crossover_panel, fits_panel, services, store
from dashboard.operator_controls import start_of
from profiling.charts.formatting import axis_label, plain
from profiling.charts.frame import CHART_CONFIG
from profiling.charts.law_chart import law_alt, law_chart
from profiling.charts.names import names_of
from profiling.charts.roofline_chart import limit_sentences, roofline_alt, roofline_chart
from profiling.laws.growth import MEMORY, TIME, Law
from profiling.laws.law_words import fixed_words, law_words
from profiling.laws.telling import readable_rows, telling_laws
from profiling.limits import Limits, limits_of
from profiling.runs import Run

TITLES = {TIME: "time", MEMORY: "memory"}


@dataclasses.dataclass(frozen=True)
class Found:
    """What is told of a table, worked out once for the rows there are."""

    limits: Limits
    laws: list[Law]
    num_left_out: int


def show(run: Run, table: pd.DataFrame) -> None:
    """Draws the roofline and the laws, each with its sentences; and what goes on from there with fresh measurements."""
    found = _found_of(run, table)
    _show_limits(found)
    _show_laws(found.laws)
    start = start_of(run, {}, services.layers(), services.live_checks().machine)
    st.divider()
    crossover_panel.show(run, table, start)
    st.divider()
    fits_panel.show(table, start)


def _show_limits(found: Found) -> None:
    if not found.limits.limits:
        st.info(
            "No limit can be told: no row has both a measurement and a ceiling. What the machine can do is measured at "
            "the start and the end of a sweep."
        )
        return
    figure = roofline_chart(found.limits)
    st.plotly_chart(figure, key="chart_limits", config=CHART_CONFIG, alt=roofline_alt(found.limits))
    st.markdown("\n".join(f"- {plain(words)}" for words in limit_sentences(found.limits)))
    told = [f"{count} {plain(reason)} left out" for reason, count in found.limits.left_out.items()]
    if found.num_left_out:
        told.append("the largest batch and number of heads alone are drawn")
    if told:
        st.caption("; ".join(told).capitalize() + ".")


def _show_laws(laws: list[Law]) -> None:
    if not laws:
        st.caption("How time and memory grow can be told of a run that varies sequence length, batch size or heads.")
        return
    for axis in dict.fromkeys(law.axis for law in laws):
        here = [law for law in laws if law.axis == axis]
        if any(law.exponent is not None for law in here):
            _show_axis(axis, here)
        else:
            reasons = dict.fromkeys(law.refusal for law in here)
            st.caption(f"How they grow with {axis_label(axis)} is not told: {plain('; '.join(reasons))}.")


def _show_axis(axis: str, laws: list[Law]) -> None:
    st.markdown(f"**How they grow with {axis_label(axis)}**")
    for place, (quantity, title) in zip(st.columns(2, gap="small"), TITLES.items(), strict=True):
        drawn = [law for law in laws if law.quantity == quantity and law.sizes]
        if drawn:
            key = f"chart_law_{axis}_{title}"
            place.plotly_chart(law_chart(drawn), key=key, config=CHART_CONFIG, alt=law_alt(drawn))
    told = [law for law in laws if law.exponent is not None]
    names = names_of(law.contender for law in laws)
    st.markdown("\n".join(f"- {plain(law_words(law, names))}" for law in told))
    refused = [plain(law_words(law, names)) for law in laws if law.exponent is None]
    st.caption(" ".join(f"{words}." for words in [f"At {plain(fixed_words(laws[0].fixed))}", *refused]))


def _found_of(run: Run, table: pd.DataFrame) -> Found:
    return _found(
        str(store.folder_of(run)), store.size_of(run), len(table), int(table["num_samples"].sum()), table, run
    )


@st.cache_data(show_spinner=False, max_entries=8)
def _found(folder: str, size: int, num_rows: int, num_samples: int, _table: pd.DataFrame, _run: Run) -> Found:
    del folder, size, num_rows, num_samples
    rows = readable_rows(_table)
    laws = telling_laws(_table, store.measurements_of(_run))
    return Found(limits=limits_of(rows), laws=laws, num_left_out=len(_table) - len(rows))
