"""The longest sequence of a contender that fits into memory: asked, searched in the background, told in words."""

from __future__ import annotations

import dataclasses

import pandas as pd
import streamlit as st

from dashboard import search_progress, search_words, services, session, snippets
from dashboard.contender_choice import choose_contender
from dashboard.layers import stamp
from dashboard.operator_controls import Start
from dashboard.searches import FITS, SearchAnswer, SearchQuestion
from profiling.charts.formatting import day_and_time, memory, plain
from profiling.charts.names import name_of
from profiling.laws.crossover_list import place_of
from profiling.laws.fit_words import pace_words
from profiling.laws.largest_fit import SHARE_OF_FREE
from profiling.laws.next_commands import fits_arguments, point_along
from profiling.memory_estimate import free_memory_mib
from profiling.workload import GridError

TITLE = "What is the longest sequence that fits?"


def show(table: pd.DataFrame, start: Start) -> None:
    """Draws the question, how its search goes, and what it came to since this server was started.

    Args:
        table: the rows of a run, whose other sizes stay the same.
        start: whom to choose from, and what else the run has.
    """
    st.markdown(f"##### {TITLE}")
    point = point_along(table, "seq_len")
    contender = choose_contender(st, "Contender", session.FITS_ONE, start.contenders, start.pair[0])
    question = None
    try:
        if point is None:
            raise GridError("nothing of this run is measured yet")
        place = place_of(contender)
        at = dataclasses.replace(point, device=start.workload.device)
        question = SearchQuestion(
            arguments=tuple(fits_arguments(place, at)),
            contenders=(name_of(place),),
            device=at.device,
            stamp=(stamp(place),),
        )
        st.caption(_expected(at.device, place))
    except GridError as error:
        st.error(f"{plain(str(error))}.")
    search_progress.show_button(
        "Try lengths",
        question,
        start.workload.device,
        help_text="Each length in a process of its own that is refused more memory than it may take.",
        key="find_fit",
    )
    search_progress.show(FITS, start.workload.device)
    if question is None:
        return
    answer = services.searches().answer_to(question)
    if answer is not None:
        _show_answer(answer, question)
    st.caption("The same at the command line:")
    st.code(snippets.command(question.arguments), language="bash", wrap_lines=True)


def _expected(device: str, contender: str) -> str:
    """What it will take, as far as it can be told before."""
    free = free_memory_mib(device)
    room = "what is free" if free is None else f"the {memory(free)} that are free"
    pace = pace_words(contender)
    return (
        f"Upwards from a safe length, until a call no longer fits into {SHARE_OF_FREE:.0%} of {plain(room)}: some "
        "minutes, half an hour at most."
    ).replace("%", " %") + (f" {plain(pace[:1].upper() + pace[1:])}." if pace else "")


def _show_answer(answer: SearchAnswer, question: SearchQuestion) -> None:
    if answer.error:
        if not search_progress.is_going(question):
            st.error(f"Not found: {plain(answer.error)}.")
        return
    search_words.show(answer.words, {question.arguments[1]: question.contenders[0]})
    st.caption(f"Tried {plain(day_and_time(answer.at))} on {plain(question.device)}; kept until this server ends.")
