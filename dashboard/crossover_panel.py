"""From which size on is one contender faster than another: asked, searched in the background, and told with a chart."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import search_progress, search_words, services, session, snippets
from dashboard.contender_choice import choose_contender
from dashboard.layers import stamp
from dashboard.operator_controls import Start
from dashboard.report_text import code
from dashboard.searches import CROSSOVER, SearchQuestion
from profiling.charts.crossover_chart import compared, crossover_alt, crossover_chart
from profiling.charts.formatting import count, day_and_time, duration, plain
from profiling.charts.frame import CHART_CONFIG
from profiling.charts.names import names_of
from profiling.estimate import excess
from profiling.laws.crossover_command import command_of
from profiling.laws.crossover_list import answer_to, list_records, place_of
from profiling.laws.crossover_question import BUDGET_S, CrossoverQuestion
from profiling.laws.crossover_record import FINISHED, RUNNING, Record
from profiling.laws.crossover_search import AXES, first_sizes
from profiling.laws.next_commands import point_along, span_along
from profiling.layers import find_layer, source_hash
from profiling.quoted import quoted
from profiling.runs import Run
from profiling.workload import MAX_SIZE, GridError

WIDTH = 150


def show(run: Run, table: pd.DataFrame, start: Start) -> None:
    """Draws the question, how its search goes, and the newest answer to it.

    Args:
        run: which run; what it did not vary stays the same in the search.
        table: its rows.
        start: whom to choose from, and what else the run has.
    """
    st.markdown("##### From which length on is it faster?")
    question, complaint = _ask(run, table, start)
    asked = None if question is None else _search_question(question)
    if question is not None and not complaint:
        st.caption(_expected(question))
    if complaint:
        st.error(f"{plain(complaint)}.")
    device = start.workload.device
    search_progress.show_button(
        "Find where it turns",
        None if complaint else asked,
        device,
        help_text="Measures both afresh, at both ends first and then where the sign changes, in the background.",
        key="find_crossover",
    )
    search_progress.show(CROSSOVER, device)
    if question is None or asked is None:
        return
    _show_commands(question, _show_answer(question, asked))


def _ask(run: Run, table: pd.DataFrame, start: Start) -> tuple[CrossoverQuestion | None, str]:
    """Draws the choices; the question that they make, and why it cannot be asked where it cannot."""
    row = st.container(horizontal=True, gap="small", vertical_alignment="bottom")
    one = choose_contender(row, "Contender", session.CROSSOVER_ONE, start.contenders, start.pair[0])
    other = choose_contender(row, "Next to", session.CROSSOVER_OTHER, start.contenders, start.pair[1])
    row = st.container(horizontal=True, gap="small", vertical_alignment="bottom")
    axis = row.selectbox("Along", AXES, key=session.CROSSOVER_AXIS, bind="query-params", width=WIDTH)
    axis = axis if axis in AXES else AXES[0]
    point = point_along(table, axis)
    if point is None:
        return None, "nothing of this run is measured yet"
    low, high = _ask_ends(row, axis, run.run_id, span_along(table, axis))
    try:
        if one == other:
            raise GridError(f"the two contenders must differ, and both are {quoted(one)}")
        question = CrossoverQuestion(
            first=place_of(one),
            second=place_of(other),
            axis=axis,
            low=low,
            high=high,
            workload=dataclasses.replace(point, device=start.workload.device),
            head_dim=run.grid.head_dim if axis == "num_heads" else None,
            reference=start.reference,
            heap=start.heap,
            time_budget_s=run.settings.time_budget_s,
            quiet_wait_s=run.settings.quiet_wait_s,
        )
    except GridError as error:
        return None, str(error)
    try:
        question.plan()
    except GridError as error:
        return question, str(error)
    return question, ""


def _ask_ends(place: Any, axis: str, run_id: str, span: tuple[int, int]) -> tuple[int, int]:
    """Draws between which sizes to search, in the address; at first, and beside another run, the run's own span."""
    ends = dict(zip(("From", "To"), span, strict=True))
    keys = {label: session.crossover_end(label, axis) for label in ends}
    runs: dict[str, str] = st.session_state.setdefault(session.CROSSOVER_RUNS, {})
    if runs.setdefault(axis, run_id) != run_id:  # set, not forgotten: the address still holds what was chosen there
        st.session_state.update({keys[label]: value for label, value in ends.items()})
        runs[axis] = run_id
    low, high = (
        place.number_input(label, 1, MAX_SIZE, value, key=keys[label], bind="query-params", width=WIDTH)
        for label, value in ends.items()
    )
    return low, high


def _search_question(question: CrossoverQuestion) -> SearchQuestion:
    pair = (question.first, question.second)
    names = names_of(pair)
    return SearchQuestion(
        arguments=question.arguments,
        contenders=tuple(names[name] for name in pair),
        device=question.workload.device,
        stamp=tuple(stamp(name) for name in pair),
    )


def _expected(question: CrossoverQuestion) -> str:
    """What it will take, as far as it can be told before."""
    plan, expected = question.plan(), question.first_look()
    sizes = ", ".join(f"{size:,}" for size in first_sizes(plan))
    reason = excess(expected)
    too_large = f" Of these sizes some are left out: {plain(reason)}." if reason else ""
    return (
        f"First {plain(sizes)}, each in {count(plan.replicates, 'replicate')}: ≈ **{duration(expected.seconds)}**. "
        f"Then up to ≈ {duration(question.further_size_s())} for each further size, of which none is begun after "
        f"{duration(BUDGET_S)}.{too_large}"
    )


def _show_answer(question: CrossoverQuestion, asked: SearchQuestion) -> Record | None:
    """The search that goes on, as far as it has come; else the newest answer on the disk. Returns what it shows."""
    running = search_progress.record_in_flight(asked)
    record = running if running is not None and running.is_told else answer_to(question, list_records())
    said = services.searches().answer_to(asked)
    if said is not None and said.error and not search_progress.is_going(asked):
        st.error(f"Not found: {plain(said.error)}.")
    if record is None:
        return None
    names = names_of((record.first, record.second))
    so_far = "so far " if record.state == RUNNING else ""
    search_words.show([f"{so_far}{record.words[0]}", *record.words[1:]], names)
    if compared(record.sizes):
        alt = plain(search_words.named(crossover_alt(record), names))
        st.plotly_chart(crossover_chart(record), key="chart_crossover", config=CHART_CONFIG, alt=alt)
    st.caption(_whence(record))
    return record


def _show_commands(question: CrossoverQuestion, shown: Record | None) -> None:
    """What the answer that is shown was asked by, and what the button would ask, where that is something else."""
    answered = None if shown is None else command_of(shown)
    commands = {"The same at the command line:": question.arguments}
    if shown is not None and answered != question.arguments:
        commands = {} if answered is None else {"This answer at the command line:": answered}
        commands["What is chosen now at the command line:"] = question.arguments
    for caption, arguments in commands.items():
        st.caption(caption)
        st.code(snippets.command(arguments), language="bash", wrap_lines=True)


def _whence(record: Record) -> str:
    """When, on what and into which folder it was measured; and what has changed since."""
    threads = record.fixed.get("threads")
    parts = [f"Measured {day_and_time(record.started_at)}", record.device_name]
    parts += [count(threads, "thread")] if isinstance(threads, int) else []
    parts += [f"torch {record.torch_version}"] if record.torch_version else []
    told = f"{plain(' · '.join(filter(None, parts)))}. Kept in the folder {code(record.folder.name)}, each step a run."
    if record.state not in (RUNNING, FINISHED) and record.state_reason:
        told += f" It was not brought to its end: {plain(record.state_reason)}."
    if _was_edited(record):
        told += " A layer's file was edited since: search again to have it as it is now."
    return told


def _was_edited(record: Record) -> bool:
    for name, before in record.sources.items():
        try:
            if source_hash(find_layer(record.places.get(name, name)).path) != before:
                return True
        except GridError:  # gone, which is told where it is asked for
            continue
    return False
