"""A search as it goes: what is known, what is in flight, how long it has run; its button, its Stop, and why not now."""

from __future__ import annotations

import streamlit as st

from dashboard import services, session
from dashboard.jobs import JobError, sweep_on
from dashboard.searches import CROSSOVER, Search, SearchQuestion
from profiling.charts.formatting import clock, duration, plain
from profiling.laws.crossover_list import list_records, running_search, steps_of
from profiling.laws.crossover_record import Record
from profiling.runs import RunError, read_run

TICK_S = 1.0
# Nothing is searched: how often the page looks whether something has begun or ended.
IDLE_TICK_S = 3.0


def show_button(label: str, question: SearchQuestion | None, device: str, *, help_text: str, key: str) -> None:
    """Draws the button that begins a search, off where there is no question or the device is not free."""
    busy = busy_reason(device)
    st.button(
        label,
        key=key,
        disabled=question is None or bool(busy),
        help=help_text,
        on_click=_start,
        args=(question,),
    )
    kind, refused, was_busy = st.session_state.get(session.SEARCH_ERROR, ("", "", False))
    if question is not None and kind == question.kind and (busy or not was_busy):  # no longer than its reason holds
        st.error(plain(refused))


def show(kind: str, device: str) -> None:
    """Draws how the search of that kind goes, in a fragment that ticks; or why none can begin now.

    Only the first kind ticks while nothing is searched: one is enough to see what begins.
    """
    running = services.searches().running
    is_ours = running is not None and running.question.kind == kind
    if is_ours or kind == CROSSOVER:
        st.fragment(_watch, run_every=TICK_S if is_ours else IDLE_TICK_S)(kind, device, _seen(device))
    elif busy := busy_reason(device):
        st.caption(plain(busy))


def busy_reason(device: str) -> str:
    """Why nothing can be searched on a device now, a sentence; empty where it can."""
    running = services.slot().running
    if running is not None:
        return f"{running.what[:1].upper()}{running.what[1:]}: one at a time, since they would disturb each other."
    holder = sweep_on(device)
    if holder is None:
        return ""
    return (
        f"{holder.device} is busy since {clock(holder.started_at)} with sweep {holder.run_name}, which a search would "
        "disturb: it can begin when that has ended."
    )


def record_in_flight(question: SearchQuestion) -> Record | None:
    """What the search for this question that goes on has recorded by now; None where none does."""
    running = services.searches().running
    return running_search(list_records(), running.pid) if running and running.question == question else None


def is_going(question: SearchQuestion) -> bool:
    """Whether this very question is being searched now, with a record or before there is one."""
    running = services.searches().running
    return running is not None and running.question == question


def _watch(kind: str, device: str, drawn: object) -> None:
    if _seen(device) != drawn:
        st.rerun()  # starts or stops the ticking, and draws what has come
    running = services.searches().running
    if running is None or running.question.kind != kind:
        busy = busy_reason(device)
        if busy:
            st.caption(plain(busy))
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        told = " · ".join(
            plain(part) for part in ["Searching", f"{duration(running.seconds)} elapsed", *_parts(running)]
        )
        st.info(f"{told} …")
        st.button(
            "Stopping …" if running.is_stopped else "Stop",
            key="stop_search",
            disabled=running.is_stopped,
            on_click=services.searches().stop,
            help="Tells what is known by then.",
        )


def _parts(running: Search) -> list[str]:
    """What is in flight, and what the search has said last."""
    parts = []
    record = running_search(list_records(), running.pid) if running.question.kind == CROSSOVER else None
    if record is not None:
        steps = steps_of(record)
        try:
            progress = read_run(steps[-1]).progress if steps else None
        except RunError:  # it has just begun
            progress = None
        if progress is not None:
            parts.append(f"step {len(steps)}, {progress.done} of {progress.total} measured")
            parts += [progress.label] if progress.label else []
    return [*parts, *([running.aside] if running.aside else [])]


def _seen(device: str) -> object:
    """What the panels depend on: drawn anew when, and only when, it changes."""
    running = services.searches().running
    if running is None:
        return services.slot().running, sweep_on(device)
    record = running_search(list_records(), running.pid)
    return running, running.is_stopped, record.updated_at if record else ""


def _start(question: SearchQuestion) -> None:
    st.session_state.pop(session.SEARCH_ERROR, None)
    try:
        services.searches().start(question)
    except JobError as error:
        was_busy = bool(busy_reason(question.device))
        st.session_state[session.SEARCH_ERROR] = (question.kind, str(error), was_busy)
