"""Follows runs that are compared while they are measured: how far they are, and the page anew as rows come."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping

import streamlit as st

from dashboard.compare_store import Comparing
from dashboard.compare_wish import Wish
from dashboard.progress_panel import IDLE_TICK_S, TICK_S
from profiling.charts.formatting import count, plain
from profiling.compare.comparing import Comparison
from profiling.runs import Run, RunError, read_run, results_dir


def show(wish: Wish, asked: Comparing, found: Comparison | None) -> None:
    """Draws how far the compared runs are, in a fragment that looks again by itself, seldom where none is measured.

    Args:
        wish: what is to be compared.
        asked: the last comparison of it that was asked for.
        found: the comparison that is drawn, which may be of fewer rows than there are by now; None where none is.
    """
    is_running = any(run.state == "running" for _, run in wish.runs)
    compared = {} if found is None else compared_points(found)
    look = st.fragment(_look, run_every=TICK_S if is_running else IDLE_TICK_S)
    look(wish, asked, compared, _folders(), time.monotonic())


def compared_points(found: Comparison) -> dict[str, int]:
    """Folder → how many points a run had, of those that were being measured when they were compared."""
    each = (side for both in (found.base, found.new) for side in both.each)
    return {
        side.path.name: side.run.progress.done for side in each if side.run is not None and side.run.state == "running"
    }


def sentence(side: str, run: Run, compared: int | None) -> str | None:
    """How far a run is that is being measured, or was when it was compared; None of any other.

    Args:
        side: what it is called.
        run: as it is now.
        compared: how many points it had when it was compared; None where it was over by then, or is not compared.
    """
    behind = "" if compared in (None, run.progress.done) else f"; all else here is of its first {compared:,}"
    if run.state != "running":
        return None if compared is None else f"{side} is {run.state} by now{behind}"
    passes = f", {run.settings.replicates:,} replicates together" if run.settings.replicates > 1 else ""
    return (
        f"{side} is still being measured: {run.progress.done:,} of {count(run.progress.total, 'point')}{passes}{behind}"
    )


def _look(wish: Wish, asked: Comparing, compared: Mapping[str, int], folders: int, drawn_at: float) -> None:
    """Says how far the runs are; draws the whole page again where it shows less than there is."""
    now = [(side, found) for side, run in wish.runs if (found := _read(run)) is not None]
    told = [said for side, run in now if (said := sentence(side, run, compared.get(run.run_id)))]
    if told:
        st.info("  \n".join(f"{plain(each)}." for each in told))
    if time.monotonic() - drawn_at < TICK_S / 2:  # it was drawn just now
        return
    if len(now) < len(wish.runs) or _folders() != folders:
        st.rerun()
    elif asked.future.done():  # until then whoever waits for it draws anew
        question = wish.later({run.run_id: run for _, run in now}).question(anyway=asked.question.anyway)
        if question != asked.question and (asked.is_due or not asked.question.has_grown_to(question)):
            st.rerun()


def _read(run: Run) -> Run | None:
    try:
        # A folder that was copied or renamed holds the id that it was measured under.
        return dataclasses.replace(read_run(results_dir() / run.run_id), run_id=run.run_id)
    except RunError:
        return None


def _folders() -> int:
    """What changes when a run comes or goes."""
    try:
        return os.stat(results_dir()).st_mtime_ns
    except OSError:
        return 0
