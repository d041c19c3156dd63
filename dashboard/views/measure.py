"""Measure: choose what to sweep, run it, watch it, and read the result beside the live consistency check."""

from __future__ import annotations

import dataclasses
import time

import pandas as pd
import streamlit as st

from dashboard import (
    check_panel,
    controls,
    layer_notices,
    progress_panel,
    result_panel,
    run_picker,
    services,
    start_panel,
    store,
)
from dashboard.live_checks import Machine
from profiling.charts.formatting import count, plain
from profiling.charts.frame import CHART_CONFIG, reading_chart
from profiling.run_list import list_runs
from profiling.runs import Run, RunError, results_dir

# Between a phone and a wide screen three columns are too many: the check goes below. On a phone the columns stand below
# each other, and what was measured comes first. And while the page redraws itself, Streamlit shows a Stop of its own,
# which stops no sweep.
STYLE = """
<style>
[data-testid="stStatusWidget"] button { display: none; }
@media (max-width: 640px) {
  .st-key-layout > div > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:nth-child(2) { order: -1; }
}
@media (min-width: 641px) and (max-width: 1180px) {
  .st-key-layout > div > [data-testid="stHorizontalBlock"] { flex-wrap: wrap; }
  .st-key-layout > div > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:nth-child(1) { flex: 1 1 260px; }
  .st-key-layout > div > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:nth-child(2) { flex: 2 1 380px; }
  .st-key-layout > div > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:nth-child(3) { flex: 1 1 100%; }
}
</style>
"""


def show() -> None:
    """Draws the view from top to bottom, left to right."""
    began = time.monotonic()
    listing = list_runs(results_dir())
    runs = listing.runs
    watched = progress_panel.look(runs)
    running = watched.run if watched and watched.run and watched.run.state == "running" else None
    checks = services.live_checks()
    choice = store.choose(runs, services.jobs().last)

    _show_title(checks.machine, checks.machine_error)
    st.html(STYLE)
    with st.container(key="layout"):
        left, middle, right = st.columns([1.15, 3, 1.15], gap="medium")
    with left:
        notices = st.container()
        wish = controls.show(checks.machine.devices if checks.machine else (), services.layers())
        with notices:
            layer_notices.show()
        start_panel.show(wish, checks.machine, is_busy=watched is not None)
    with middle:
        # Containers, so that each part stays in its place whatever stands above it.
        complaint, picker, progress, result, passed_over = (st.container() for _ in range(5))
    run, problems = choice.run, []
    table = None
    if run is not None:
        try:
            with result:
                table, problems = _read(run)
        except RunError as error:
            run, choice = None, dataclasses.replace(choice, complaint=f"The run cannot be shown: {error}.")
    if choice.complaint:
        complaint.warning(plain(choice.complaint))
    with progress:
        progress_panel.show(run, watched)
    if run is None or table is None:
        result.info("Nothing measured yet. *Run sweep* takes about as long as the estimate beside the button says.")
    else:
        with picker:
            run_picker.show(runs, run)
        with result:
            result_panel.show(run, table, problems, is_busy=watched is not None)
    with passed_over:
        run_picker.show_unreadable(listing.unreadable)
    with right:
        check_panel.show(wish, running, _rows_of(running))
    progress_panel.note_drawn(time.monotonic() - began)


def _read(run: Run) -> tuple[pd.DataFrame, list[str]]:
    """The run's table and what of its files could not be read; says that it reads where that takes a while.

    It says so by a chart, since the browser fetches what draws charts with the first of them: meanwhile, and not after.
    """
    place = st.empty()
    if store.takes_a_while(run):
        place.plotly_chart(reading_chart(), key="chart_reading", config=CHART_CONFIG, alt="The run is being read.")
    table, problems = store.table_of(run), store.problems_of(run)
    place.empty()
    return table, problems


def _rows_of(running: Run | None) -> pd.DataFrame | None:
    """The rows of the run that is being measured; None where there is none, or its file has been damaged meanwhile."""
    try:
        return None if running is None else store.table_of(running)
    except RunError:
        return None


def _show_title(machine: Machine | None, error: str) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
        st.title("mha-bench", anchor=False, width="content")
        if machine is not None:
            text = f"{machine.device}: {machine.description}, {count(machine.threads, 'thread')}"
        else:
            text = f"no device: {error}" if error else "looking for devices …"
        st.caption(plain(text), width="content")
