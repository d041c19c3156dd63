"""Operators: where a call's time goes, two contenders side by side, profiled in the background when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import (
    layer_notices,
    operator_controls,
    operator_link,
    operator_panel,
    sample_panel,
    services,
    session,
    store,
)
from dashboard.jobs import sweep_on
from dashboard.layers import stamp
from dashboard.operator_controls import OperatorWish, Start
from dashboard.profiles import Question
from dashboard.report_text import code
from profiling.charts.formatting import clock, count, duration, plain
from profiling.charts.names import names_of
from profiling.layers import is_layer
from profiling.operators.profiler import DEFAULT_CALLS
from profiling.run_list import list_runs
from profiling.runs import Run, RunError, results_dir

TICK_S = 1.0
# Nothing is made: how often the page looks whether a sweep has begun or ended, or a layer's file was edited.
IDLE_TICK_S = 3.0


def show() -> None:
    """Draws the view from top to bottom, left to right."""
    choice = store.choose(list_runs(results_dir()).runs, services.jobs().last)
    run = choice.run
    machine = services.live_checks().machine
    start = operator_controls.start_of(run, _axes_to_begin_with(run), services.layers(), machine)
    st.title("Operators", anchor=False)
    left, right = st.columns([1.15, 3.2], gap="medium")
    with left:
        notices = st.container()
        wish = operator_controls.show(start)
        with notices:
            layer_notices.show()
            if choice.complaint:
                st.warning(plain(choice.complaint))
        button = st.container()
        _show_conditions(run, start)
        if run is not None and wish.workload is not None:
            operator_link.show_back(run, wish.workload)
    question = _question(wish)
    with button:
        _show_button(wish, question)
    with right:
        _show_answer(wish, question)


def _axes_to_begin_with(run: Run | None) -> Mapping[str, Any]:
    """The point of the run whose samples were looked at last, else the slowest one."""
    if run is None:
        return {}
    run_id: str | None
    axes: Mapping[str, Any]
    run_id, axes = st.session_state.get(session.CHOSEN_POINT, (None, {}))
    if run_id == run.run_id:
        return axes
    try:
        return sample_panel.default_point(run, store.table_of(run))
    except RunError:  # it is told where the run is shown; its first point is as good to begin with
        return {}


def _question(wish: OperatorWish) -> Question | None:
    if wish.workload is None:
        return None
    return Question(
        arguments=wish.arguments,
        contenders=wish.contenders,
        device=wish.workload.device,
        stamp=tuple(stamp(name) for name in wish.contenders),
    )


def _show_conditions(run: Run | None, start: Start) -> None:
    """What is the same as in the run, and no choice here."""
    parts = [f"On {start.workload.device}", *([] if start.threads is None else [count(start.threads, "thread")])]
    parts += [f"heap {start.heap}", f"seed {start.workload.seed}"]
    whose = "" if run is None else f", as in run {run.run_id}"
    st.caption(plain(", ".join(parts) + whose) + ".")
    if start.left_out:
        named = ", ".join(code(name) for name in start.left_out)
        st.caption(f"Not offered, since this server has not registered it: {named}.")


def _show_button(wish: OperatorWish, question: Question | None) -> None:
    if wish.error:
        st.error(f"{plain(wish.error)}.")
    st.button(
        "Profile",
        type="primary",
        width="stretch",
        shortcut="Ctrl+Enter",
        key="profile",
        disabled=question is None or _is_busy(question),
        on_click=operator_panel.start,
        args=(question,),
    )


def _show_answer(wish: OperatorWish, question: Question | None) -> None:
    """What is being made in a fragment that ticks, and below it what is known."""
    is_making = services.profiles().running is not None
    st.fragment(_watch, run_every=TICK_S if is_making else IDLE_TICK_S)(wish, _seen(wish, question))
    refused = st.session_state.get(session.PROFILE_ERROR)
    if refused:
        st.error(plain(refused))
    if question is None:
        return
    profiles = services.profiles()
    answer = profiles.answer_to(question)
    if answer is not None:
        operator_panel.show(question, answer, is_busy=_is_busy(question))
    elif profiles.was_edited(question):
        st.info("The layer's file was edited since it was profiled: *Profile* runs it as it is now.")
    elif not is_making:
        names = " and ".join(names_of(wish.contenders).values())
        st.info(
            f"*Profile* runs {plain(names)} under torch's profiler, {DEFAULT_CALLS} calls each in turn, and tells "
            "where the time of a call goes, from the projections to the overhead."
        )


def _watch(wish: OperatorWish, drawn: object) -> None:
    question = _question(wish)
    if _seen(wish, question) != drawn:
        st.rerun()  # starts or stops the ticking, and draws what has come
    running = services.profiles().running
    if running is not None:
        names = " and ".join(names_of(running.question.contenders).values())
        what = "Tracing" if running.is_trace else "Profiling"
        said = f" {plain(running.aside)}." if running.aside else ""
        with st.container(horizontal=True, vertical_alignment="center"):
            st.info(f"{what} {plain(names)}, {duration(running.seconds)} …{said}")
            st.button("Stop", key="stop_profile", disabled=running.is_stopped, on_click=services.profiles().stop)
        return
    holder = None if question is None else sweep_on(question.device)
    if holder is not None:
        since = clock(holder.started_at)
        st.info(
            f"{plain(holder.device)} is busy since {since} with sweep {plain(str(holder.run_name))}, which a profile "
            "would disturb: you can profile when it has ended."
        )


def _is_busy(question: Question) -> bool:
    return services.profiles().running is not None or sweep_on(question.device) is not None


def _seen(wish: OperatorWish, question: Question | None) -> object:
    """What the whole view depends on: drawn anew when, and only when, it changes."""
    profiles = services.profiles()
    running = profiles.running
    if question is None:
        return running
    holder = sweep_on(question.device)
    files = tuple(stamp(name) for name in wish.contenders if is_layer(name))
    return running, holder, files, profiles.answer_to(question), profiles.trace_of(question)
