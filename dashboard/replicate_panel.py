"""More replicates for a run whose verdicts are provisional: what they would take, and the button that adds them."""

from __future__ import annotations

import dataclasses
import functools

import pandas as pd
import streamlit as st

from dashboard import refusal, services, store
from dashboard.jobs import JobError
from profiling.charts.claim_text import PROVISIONAL
from profiling.charts.formatting import count, duration
from profiling.estimate import estimate
from profiling.runs import RESULTS_DIR, Run
from profiling.settings import MIN_REPLICATES_FOR_VERDICT, SweepSettings
from profiling.workload import Grid

EXAMPLE = RESULTS_DIR / "example"


def show(run: Run, *, is_busy: bool) -> None:
    """Draws the button, for a run of which `lacks_replicates` is so."""
    reason = refusal_of(run, is_busy=is_busy)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Add replicates (to {MIN_REPLICATES_FOR_VERDICT})",
            key="add_replicates",
            disabled=bool(reason),
            help=reason or "Passes over the grid again in fresh processes, into this run, until a claim is possible.",
            on_click=_add,
            args=(run,),
        )
        st.caption(
            f"≈ {duration(added_seconds(run))} more: a verdict on speed needs "
            f"{count(MIN_REPLICATES_FOR_VERDICT, 'replicate')}, this run has {run.settings.replicates}."
            + (f" {reason}" if reason else "")
        )


def lacks_replicates(run: Run, table: pd.DataFrame) -> bool:
    """Whether a run has ended, and more replicates would let its provisional rows be judged."""
    is_over = run.state in ("finished", "stopped")
    is_provisional = bool(table["speed_verdict"].eq(PROVISIONAL).fillna(False).any())
    return is_over and is_provisional and run.settings.replicates < MIN_REPLICATES_FOR_VERDICT


def refusal_of(run: Run, *, is_busy: bool) -> str:
    """Why replicates cannot be added here and now; empty where they can."""
    if is_busy:
        return "A sweep is being measured: a second one would disturb it."
    if store.folder_of(run).resolve() == EXAMPLE.resolve():
        return "The example comes with the program and stays as it is: press Run sweep for a run of your own."
    return ""


def added_seconds(run: Run) -> float:
    """A guess at how long the passes take that are still to come, those that a stopped run lacks included."""
    settings = dataclasses.replace(run.settings, replicates=MIN_REPLICATES_FOR_VERDICT)
    whole = _seconds(run.grid, settings, run.device, run.threads)
    num_points = run.grid.num_points
    return whole * max(0, 1 - run.progress.done / (num_points * MIN_REPLICATES_FOR_VERDICT))


@functools.lru_cache(maxsize=8)
def _seconds(grid: Grid, settings: SweepSettings, device: str, threads: int) -> float:
    """Kept, for a grid may hold thousands of points, and the page is drawn anew at every click."""
    return estimate(grid, settings, device=device, threads=threads).seconds


def _add(run: Run) -> None:
    refusal.forget()
    try:
        services.jobs().add_replicates(run, MIN_REPLICATES_FOR_VERDICT)
    except JobError as error:
        refusal.remember(error, run.device)
    else:
        store.pick(run.run_id)
