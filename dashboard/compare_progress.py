"""Follows runs that are compared while they are measured: how far they are, and the page anew as rows come."""

from __future__ import annotations

import dataclasses
import os
import time

import streamlit as st

from dashboard.compare_choice import Wish
from dashboard.compare_store import Comparing
from dashboard.progress_panel import IDLE_TICK_S, TICK_S
from profiling.charts.formatting import count, plain
from profiling.runs import Run, RunError, read_run, results_dir


def show(wish: Wish, asked: Comparing) -> None:
    """Draws how far the compared runs are, in a fragment that looks again by itself, seldom where none is measured.

    Args:
        wish: what is to be compared.
        asked: the last comparison of it that was asked for.
    """
    is_running = wish.new.state == "running" or (wish.baseline is None and wish.base.state == "running")
    st.fragment(_look, run_every=TICK_S if is_running else IDLE_TICK_S)(wish, asked, _folders(), time.monotonic())


def sentence(side: str, run: Run) -> str | None:
    """How far a run is that is being measured; None of any other."""
    if run.state != "running":
        return None
    passes = f", {run.settings.replicates:,} replicates together" if run.settings.replicates > 1 else ""
    return f"{side} is still being measured: {run.progress.done:,} of {count(run.progress.total, 'point')}{passes}"


def _look(wish: Wish, asked: Comparing, folders: int, drawn_at: float) -> None:
    """Says how far the runs are; draws the whole page again where it shows less than there is."""
    sides = {"new": wish.new} if wish.baseline else {"base": wish.base, "new": wish.new}
    runs = {side: found for side, run in sides.items() if (found := _read(run)) is not None}
    told = [said for side, run in runs.items() if (said := sentence(side.upper(), run))]
    if told:
        st.info("  \n".join(f"{plain(each)}." for each in told))
    if time.monotonic() - drawn_at < TICK_S / 2:  # it was drawn just now
        return
    if len(runs) < len(sides) or _folders() != folders:
        st.rerun()
    elif asked.future.done():  # until then whoever waits for it draws anew
        now = dataclasses.replace(wish, **runs).question(anyway=asked.question.anyway)
        if now != asked.question and (asked.is_due or not asked.question.has_grown_to(now)):
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
