"""A run as it goes: how far, what is in flight, how long still; stop and resume."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import streamlit as st

from dashboard import services, session, store
from dashboard.formatting import clock, count, duration, local_time, plain
from dashboard.jobs import Job, JobError
from profiling.runs import Run, RunError, read_run, results_dir

TICK_S = 1.5
# Drawing takes time from what is being measured, so rows that come faster wait for each other.
REDRAW_S = 3.0


def is_followed(run: Run | None) -> bool:
    """Whether there is something to watch: this run, or a sweep of ours that has no folder yet."""
    return (run is not None and run.state == "running") or services.jobs().alive() is not None


def show(run: Run | None, running: Run | None) -> None:
    """Draws the progress of `running`, and what became of `run`; a fragment that ticks only while one is alive."""
    ticking, ended, refused = (st.container() for _ in range(3))
    starting = services.jobs().alive()
    watched = running.run_id if running else starting.run_id if starting else None
    if watched is not None:
        remember_drawn(watched)
        with ticking:
            st.fragment(_watch, run_every=TICK_S)(watched, run.run_id if run else None)
    if run is not None and run.state != "running":
        with ended:
            _show_end(run, is_free=watched is None)
    with refused:
        _show_refusal(services.jobs().last, run)


def remember_drawn(run_id: str) -> None:
    """Notes what of the run is on the page, so that the next tick knows whether more has come."""
    st.session_state[session.DRAWN_ROWS] = (run_id, _signature(run_id), time.monotonic())


def _watch(run_id: str, shown_id: str | None) -> None:
    run = _read(run_id)
    _redraw_if_due(run_id, run)
    if run is None:
        st.progress(0.0, text="Starting: the measuring process loads torch …")
        return
    progress = run.progress
    parts = [f"**Point {_point(run)} of {run.grid.num_points}**"]
    if run.settings.replicates > 1:
        parts.append(f"replicate {progress.replicate} of {run.settings.replicates}")
    parts += [plain(progress.label)] if progress.label else []
    parts += [f"{duration(_elapsed(run))} elapsed"]
    parts += [f"≈ {duration(progress.seconds_left)} left"] if progress.seconds_left is not None else []
    parts += [f"updated {clock(run.updated_at)}"]
    st.progress(progress.done / progress.total if progress.total else 0.0, text=" · ".join(parts))
    with st.container(horizontal=True, vertical_alignment="center"):
        job = services.jobs().of(run_id)
        is_stopping = job is not None and job.stop_requested
        st.button(
            "Stopping …" if is_stopping else "Stop",
            key="stop",
            disabled=is_stopping,
            on_click=services.jobs().stop,
            args=(run,),
            help="Keeps what is measured; the run can be resumed.",
        )
        if shown_id != run_id:
            st.caption(f"Busy since {clock(run.started_at)}, {progress.done}/{progress.total}: run {run_id}")
            st.button("Show it", key="follow", on_click=store.pick, args=(run_id,))
        else:
            st.toggle("Freeze charts", key=session.FREEZE, help="Keeps the charts as they are while rows come.")


def _redraw_if_due(run_id: str, run: Run | None) -> None:
    """Runs the whole page again where it shows less than there is: rows, or the end."""
    drawn_id, drawn, drawn_at = st.session_state.get(session.DRAWN_ROWS, (None, None, 0.0))
    now = _signature(run_id)
    if drawn_id != run_id or now == drawn:
        return
    only_rows_came = drawn is not None and now[1] == drawn[1]
    if only_rows_came and (st.session_state.get(session.FREEZE) or time.monotonic() - drawn_at < REDRAW_S):
        return
    st.rerun()


def _signature(run_id: str) -> tuple[int, str]:
    run = _read(run_id)
    if run is None:
        job = services.jobs().of(run_id)
        return 0, "starting" if job is not None and job.is_alive else "gone"
    return store.size_of(run), run.state


def _read(run_id: str) -> Run | None:
    try:
        return read_run(results_dir() / run_id)
    except RunError:
        return None


def _point(run: Run) -> int:
    """Which point of the grid is being measured in this replicate, from 1."""
    before = (run.progress.replicate - 1) * run.grid.num_points
    return min(max(1, run.progress.done - before + 1), run.grid.num_points)


def _elapsed(run: Run) -> float | None:
    started = local_time(run.started_at)
    return None if started is None else (datetime.now(UTC) - started).total_seconds()


def _show_end(run: Run, *, is_free: bool) -> None:
    """Says how a run ended that did not finish, and offers to go on with it."""
    if run.state == "finished":
        return
    done = f"{run.progress.done} of {count(run.progress.total, 'point')}"
    passes = f", {run.settings.replicates} replicates together" if run.settings.replicates > 1 else ""
    job = services.jobs().of(run.run_id)
    is_wanted = job is not None and job.stop_requested  # by whoever reads this: no news
    reason = f": {plain(run.state_reason)}" if run.state_reason and not is_wanted else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{run.state.capitalize()}** after {done}{passes}{reason}")
        st.button("Resume", key="resume", disabled=not is_free, on_click=_resume, args=(run,))


def _resume(run: Run) -> None:
    st.session_state[session.START_ERROR] = ""
    try:
        services.jobs().resume(run)
    except JobError as error:
        st.session_state[session.START_ERROR] = str(error)


def _show_refusal(job: Job | None, run: Run | None) -> None:
    """What a sweep of this server said when it ended badly, where the run's own state does not say it."""
    if job is not None and job.error and (run is None or run.state != "finished" or run.run_id != job.run_id):
        st.error(plain(job.error))
