"""The names and notes that people have given runs, each file read again only when it changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import streamlit as st

from dashboard.newest import FileStamp, Newest, file_stamp
from profiling.run_list import MAX_REMEMBERED
from profiling.run_names import NOTES_FILE, Notes, read_notes
from profiling.runs import results_dir


def notes_of(run_id: str) -> Notes:
    """What a person says of a run."""
    return _of(run_id, _kept(), results_dir())


def names_of_runs(run_ids: Iterable[str]) -> dict[str, str]:
    """Run id → name, for those that have one: of all others not a byte is read."""
    kept, results = _kept(), results_dir()
    return {run_id: name for run_id in run_ids if (name := _of(run_id, kept, results).name)}


def stamp_of(run_id: str) -> FileStamp:
    """What changes when the name or the note of a run does."""
    return file_stamp(results_dir() / run_id / NOTES_FILE)


def _of(run_id: str, kept: Newest[Notes], results: Path) -> Notes:
    folder = results / run_id
    stamp = file_stamp(folder / NOTES_FILE)
    return Notes() if stamp is None else kept.of(str(folder), stamp, lambda: read_notes(folder))


@st.cache_resource(show_spinner=False)
def _kept() -> Newest[Notes]:
    return Newest(MAX_REMEMBERED)
