"""A run as it goes: how far, what is in flight, how long still; stop and resume."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st

from dashboard import refusal, services, session, store
from dashboard.jobs import Job, JobError
from profiling.charts.formatting import clock, count, duration, local_time, plain
from profiling.runs import Run, RunError, read_run, results_dir

TICK_S = 1.5
# Nothing is measured: how often an idle page looks whether that is still so.
IDLE_TICK_S = 5.0
# Drawing takes time from what is being measured, so rows that come faster wait for each other.
REDRAW_S = 3.0
# And no sooner than after so many times what drawing takes: a big run leaves the page time to tick.
PAUSE_SHARE = 6.0

# How much of a run there is: bytes of rows, its state, and whether its process is there, which ends a little later.
Seen = tuple[int, str, bool]


@dataclasses.dataclass(frozen=True)
class Watched:
    """A sweep that is alive, as it was when this page began to be drawn.

    Attributes:
        run_id: its name.
        run: what its folder says; None before there is one.
        seen: how much of it this page shows, to be compared with how much there is.
    """

    run_id: str
    run: Run | None
    seen: Seen


def look(runs: Sequence[Run]) -> Watched | None:
    """The sweep that is alive: one of ours, or one that was started elsewhere. Before anything else is read."""
    job = services.jobs().alive()
    running = next((run for run in runs if run.state == "running"), None)
    if running is not None:
        run_id = running.run_id
    elif job is not None:
        run_id = job.run_id
    else:
        return None
    run = running or _read(run_id)
    return Watched(run_id, run, _seen(run, is_alive=job is not None and job.run_id == run_id))


def show(run: Run | None, watched: Watched | None) -> None:
    """Draws the progress of `watched`, and how `run` ended; a fragment that ticks slowly while no sweep is alive."""
    ticking, ended, refused = (st.container() for _ in range(3))
    if watched is not None:
        st.session_state[session.DRAWN] = (watched.run_id, watched.seen, time.monotonic())
        with ticking:
            st.fragment(_watch, run_every=TICK_S)(watched.run_id, run.run_id if run else None)
    else:
        checks = services.live_checks()
        machine = checks.machine
        device = machine.device if machine else "cpu"
        with ticking:
            is_looking = machine is None and not checks.machine_error
            every_s = TICK_S if is_looking else IDLE_TICK_S  # what torch finds here is known in a moment
            st.fragment(_look_out, run_every=every_s)(device, store.traces(device), is_looking)
    if run is not None and run.state not in ("running", "finished"):
        with ended:
            _show_end(run, is_free=watched is None)
    with refused:
        _show_refusal(services.jobs().last, run)


def _look_out(device: str, drawn: store.Traces, was_looking: bool) -> None:
    """Draws nothing; runs the whole page again once a sweep has begun or ended elsewhere, or the device is known."""
    checks = services.live_checks() if was_looking else None
    is_known = checks is not None and bool(checks.machine or checks.machine_error)
    if is_known or store.traces(device) != drawn:
        st.rerun()


def note_drawn(seconds: float) -> None:
    """Notes how long the whole page took to draw: the longer, the seldomer it is drawn while rows come."""
    st.session_state[session.DRAWING_S] = seconds


def _watch(run_id: str, shown_id: str | None) -> None:
    run = _read(run_id)
    _redraw_if_due(run_id, run)
    if run is None:
        st.progress(0.0, text="Starting: the measuring process loads torch …")
        return
    if run.state != "running":
        st.progress(1.0, text="Finishing …")
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
            on_click=_stop,
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
    drawn_id, drawn, drawn_at = st.session_state.get(session.DRAWN, (None, None, 0.0))
    job = services.jobs().of(run_id)
    now = _seen(run, is_alive=job is not None and job.is_alive)
    if drawn_id != run_id or now == drawn:
        return
    only_rows_came = drawn is not None and now[1:] == drawn[1:]
    pause_s = max(REDRAW_S, PAUSE_SHARE * st.session_state.get(session.DRAWING_S, 0.0))
    if only_rows_came and (st.session_state.get(session.FREEZE) or time.monotonic() - drawn_at < pause_s):
        return
    st.rerun()


def _seen(run: Run | None, *, is_alive: bool) -> Seen:
    return (0, "", is_alive) if run is None else (store.size_of(run), run.state, is_alive)


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
    done = f"{run.progress.done} of {count(run.progress.total, 'point')}"
    passes = f", {run.settings.replicates} replicates together" if run.settings.replicates > 1 else ""
    job = services.jobs().of(run.run_id)
    is_wanted = job is not None and job.stop_requested  # by whoever reads this: no news
    reason = f": {plain(run.state_reason)}" if run.state_reason and not is_wanted else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{run.state.capitalize()}** after {done}{passes}{reason}")
        st.button("Resume", key="resume", disabled=not is_free, on_click=_resume, args=(run,))


def _stop(run: Run) -> None:
    refusal.forget()
    try:
        services.jobs().stop(run)
    except JobError as error:
        refusal.remember(error, run.device)


def _resume(run: Run) -> None:
    refusal.forget()
    try:
        services.jobs().resume(run)
    except JobError as error:
        refusal.remember(error, run.device)


def _show_refusal(job: Job | None, run: Run | None) -> None:
    """What a sweep of this server said when it ended badly, unless the run that is shown has got beyond it since."""
    if job is None or not job.error:
        return
    is_over = run is not None and run.run_id == job.run_id and run.state == "finished"
    if run is None or not is_over or run.settings.replicates < job.replicates:
        st.error(plain(job.error))
