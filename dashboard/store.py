"""What the page reads: the runs in the results folder, the one to show, and its table, read again only when it grew."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import session
from dashboard.jobs import Job, sweep_on
from dashboard.newest import Newest, file_stamp
from dashboard.sample_store import SampleFile
from profiling.device_lock import Owner
from profiling.runs import MEASUREMENTS_FILE, Run, RunError, find_run_folder, read_run, results_dir
from profiling.settings import CLONE
from profiling.table import load_measurements, load_table

# How many runs may be looked at by turns, in several tabs, without being read again.
TABLES_KEPT = 8
MEASUREMENTS_KEPT = 4
# Of rows: reading so many is noticed.
BIG_BYTES = 4 * 2**20

# Who holds the device for a sweep, and when the results last changed.
Traces = tuple[Owner | None, int]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The run to show, or None where there is none, and a sentence where the URL asked for another."""

    run: Run | None
    complaint: str = ""


def choose(runs: Sequence[Run], job: Job | None) -> Choice:
    """The run that the URL names, then the one last picked in this session, then the newest.

    Args:
        runs: all runs, the newest first.
        job: the last sweep of this server: its run may be named before its folder is there.
    """
    wanted = st.query_params.get(session.RUN) or st.session_state.get(session.RUN)
    newest = runs[0] if runs else None
    if not wanted:
        return Choice(newest)
    try:
        folder = find_run_folder(wanted, results_dir())
        run = dataclasses.replace(read_run(folder), run_id=folder.name)
    except RunError as error:
        if job is not None and job.run_id == wanted:
            if not job.is_alive:
                pick(None)
            return Choice(newest)
        pick(None)
        return Choice(newest, f"The link names a run that cannot be shown: {error}. This is the newest one instead.")
    pick(run.run_id)
    return Choice(run)


def pick(run_id: str | None) -> None:
    """Shows that run from now on, here and in the URL; None follows the newest."""
    st.session_state[session.RUN] = run_id
    if run_id is None:
        st.query_params.pop(session.RUN, None)
    elif st.query_params.get(session.RUN) != run_id:
        st.query_params[session.RUN] = run_id


def table_of(run: Run) -> pd.DataFrame:
    """The run's table as `load_run` gives it; whoever adds columns to it has them alone."""
    return _read(run)[0].copy(deep=False)


def problems_of(run: Run) -> list[str]:
    """What of the run's files could not be read, in sentences: its table is what is left."""
    return _read(run)[1]


def takes_a_while(run: Run) -> bool:
    """Whether the run is a big one that has to be read first; not one that has grown since it was read."""
    return size_of(run) >= BIG_BYTES and str(folder_of(run)) not in _tables()


def _read(run: Run) -> tuple[pd.DataFrame, list[str]]:
    folder = folder_of(run)
    # All of `run.json` would not do: it changes with every workload that is begun.
    stamp = (file_stamp(folder / MEASUREMENTS_FILE), run.state, run.settings, run.environment)
    return _tables().of(str(folder), stamp, lambda: load_table(folder))


def replicates_of(run: Run, point: int) -> pd.DataFrame:
    """The rows of a point as measured, one per replicate and contender."""
    rows = measurements_of(run)
    return rows[rows["point"] == point]


def measurements_of(run: Run) -> pd.DataFrame:
    """The run's rows as measured, one per replicate, point and contender."""
    folder = folder_of(run)
    return _measurements().of(str(folder), file_stamp(folder / MEASUREMENTS_FILE), lambda: load_measurements(folder))


def samples_of(run: Run, point: int) -> pd.DataFrame:
    """The raw samples of a point: replicate, contender, round, `latency_ms`; of what the run measured alone."""
    samples = _sample_file(str(folder_of(run))).of_point(point)
    known = {*run.settings.contenders, *(f"{CLONE}{name}" for name in run.settings.references)}
    return samples[samples["contender"].isin(known)].reset_index(drop=True)


def folder_of(run: Run) -> Path:
    """Where the run lies."""
    return results_dir() / run.run_id


def traces(device: str) -> Traces:
    """What changes when a sweep begins or ends, or a run is named or deleted: who holds the device, and the folders."""
    try:
        with os.scandir(results_dir()) as entries:
            changed = max((entry.stat().st_mtime_ns for entry in entries), default=0)
        changed = max(changed, results_dir().stat().st_mtime_ns)  # a folder that is gone has no time of its own
    except OSError:
        changed = 0
    return sweep_on(device), changed


def size_of(run: Run) -> int:
    """How many bytes of measurements there are: it changes when, and only when, rows come."""
    try:
        return (folder_of(run) / MEASUREMENTS_FILE).stat().st_size
    except OSError:
        return 0


# Of a sweep that goes on every look is at a longer file: what was made of a shorter one would only take memory.
@st.cache_resource(show_spinner=False)
def _tables() -> Newest[tuple[pd.DataFrame, list[str]]]:
    return Newest(TABLES_KEPT)


@st.cache_resource(show_spinner=False)
def _measurements() -> Newest[pd.DataFrame]:
    return Newest(MEASUREMENTS_KEPT)


@st.cache_resource(show_spinner=False, max_entries=8)
def _sample_file(folder: str) -> SampleFile:
    return SampleFile(Path(folder))
