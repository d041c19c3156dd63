"""A profile of two contenders' operators: where they differ, bars, tables, what it adds up to, and its trace."""

from __future__ import annotations

import dataclasses

import pandas as pd
import streamlit as st

from dashboard import operator_tables, services, session, snippets
from dashboard.jobs import JobError
from dashboard.profiles import Answer, Question, Trace
from profiling.charts.formatting import memory, plain
from profiling.charts.frame import CHART_CONFIG
from profiling.charts.names import names_of
from profiling.charts.operator_bars import operator_bars, operator_bars_alt
from profiling.costs import MIB
from profiling.operators.comparison import difference_words
from profiling.operators.profiler import DEFAULT_MAX_TRACE_MIB, MAX_TRACE_CALLS
from profiling.operators.report_text import CAUTION, notes
from profiling.operators.result import OperatorProfile

# Pixels of a letter in a table, on average.
LETTER_WIDTH = 6.9
# What a person can do with a trace.
VIEWERS = "opens in Perfetto (ui.perfetto.dev) and at chrome://tracing"


def show(question: Question, answer: Answer, *, is_busy: bool) -> None:
    """Draws what a question came to; `is_busy` tells that nothing can be made now."""
    if answer.profile is None:
        st.error(f"Not profiled: {plain(answer.error)}")
        return
    profile = in_order(answer.profile, question.contenders)
    names = names_of(each.contender for each in profile.contenders)
    for each in profile.lost:
        reason = each.status_reason or "nothing was recorded"
        st.error(f"{plain(names[each.contender])} could not be profiled: {plain(each.status)}, {plain(reason)}")
    if len(profile.lost) == len(profile.contenders):
        return
    st.markdown("##### Where the time goes")
    pair = profile.pair()
    if pair is not None:
        st.markdown("\n".join(f"- {plain(words)}." for words in difference_words(*pair, names)))
    st.plotly_chart(
        operator_bars(profile), key="chart_operators", config=CHART_CONFIG, alt=plain(operator_bars_alt(profile))
    )
    _show_sum(profile)
    _show_table(operator_tables.by_role(profile), "operators_by_role", "Time of a call by role.")
    told = [note for each in profile.contenders if each.is_measured for note in notes(each, names[each.contender])]
    for note in told:
        st.markdown(f"{'⚠️' if note.startswith('warning: ') else 'ℹ️'} {plain(note.removeprefix('warning: '))}.")
    st.caption(f"{CAUTION} Profiled on {plain(profile.device_name)} with torch {plain(profile.torch_version)}.")
    by_name = operator_tables.by_name(profile)
    with st.expander(f"Each operator by name ({len(by_name)})"):
        _show_table(by_name, "operators_by_name", "Calls and time of each operator.")
    st.markdown("##### Take it away")
    st.caption("The same at the command line:")
    st.code(snippets.command(question.arguments), language="bash", wrap_lines=True)
    _show_trace(question, profile, is_busy=is_busy)


def in_order(profile: OperatorProfile, contenders: tuple[str, ...]) -> OperatorProfile:
    """The profile with its contenders in that order, whatever the command line has them in."""
    ordered = sorted(
        profile.contenders,
        key=lambda each: contenders.index(each.contender) if each.contender in contenders else len(contenders),
    )
    return dataclasses.replace(profile, contenders=tuple(ordered))


def _show_sum(profile: OperatorProfile) -> None:
    """Says that nothing is missing and nothing counted twice, or that something is."""
    for words in profile.mismatches:
        st.warning(f"{plain(words[:1].upper() + words[1:])}: take the shares with care.")
    if not profile.mismatches:
        told = "; ".join(operator_tables.sums(profile))
        st.markdown(f"✓ The roles add up to the profiled total: {plain(told)} a call.")


def _show_table(table: pd.DataFrame, key: str, alt: str) -> None:
    numbers = [name for name in table.columns if name not in ("role", "operator")]
    st.dataframe(
        table,
        hide_index=True,
        height="content",
        key=key,
        alt=alt,
        column_config={
            "role": st.column_config.TextColumn(width=int(LETTER_WIDTH * table["role"].str.len().max())),
            **{name: st.column_config.TextColumn(alignment="right") for name in numbers},
        },
    )


def _show_trace(question: Question, profile: OperatorProfile, *, is_busy: bool) -> None:
    trace = services.profiles().trace_of(question)
    if trace is not None and trace.text:
        _offer(trace)
        return
    if trace is not None:
        st.error(f"No trace: {plain(trace.error)}")
    size = profile.trace_bytes
    is_too_large = size is None or size > DEFAULT_MAX_TRACE_MIB * MIB
    expected = f"about {memory(size / MIB)}" if size is not None else profile.no_trace_reason or "its size is not known"
    limit = f", of which the page takes {memory(DEFAULT_MAX_TRACE_MIB)} at most" if size is not None else ""
    st.button(
        "Make a trace",
        key="make_trace",
        disabled=is_busy or is_too_large,
        on_click=start,
        args=(question,),
        kwargs={"is_trace": True},
        help="Profiles a few calls anew, in the background; the download comes then.",
    )
    st.caption(
        f"Every operator of {MAX_TRACE_CALLS} calls of each on a line of time: {plain(expected)}"
        f"{limit if is_too_large else ''}. It {VIEWERS}."
    )


def _offer(trace: Trace) -> None:
    st.download_button(
        f"Download trace ({memory(len(trace.text) / MIB)})",
        data=lambda: trace.text,
        file_name="mha-bench-trace.json",
        mime="application/json",
        on_click="ignore",
        key="download_trace",
    )
    st.caption(f"Every operator of {MAX_TRACE_CALLS} calls of each on a line of time. It {VIEWERS}.")


def start(question: Question, *, is_trace: bool = False) -> None:
    """Has it profiled, or traced; why that is not begun is kept for the page to tell."""
    st.session_state.pop(session.PROFILE_ERROR, None)
    try:
        services.profiles().start(question, is_trace=is_trace)
    except JobError as error:
        st.session_state[session.PROFILE_ERROR] = str(error)
