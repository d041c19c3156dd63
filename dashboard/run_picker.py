"""The choice among past runs, the newest first, and what the chosen one was measured on."""

from __future__ import annotations

import re
from collections.abc import Sequence

import streamlit as st

from dashboard import note_store, run_admin, session, store
from profiling.charts.formatting import count, day_and_time, plain, shortened
from profiling.run_names import MAX_NOTE
from profiling.runs import Run

# As `new_run_id` makes them.
_OWN_NAME = re.compile(r"\d{8}-\d{6}-([0-9a-f]{4})")

# Of one condition.
MOST_LETTERS = 80
# Of a name before what else a choice tells; the whole of it stands where the run is named.
NAME_LETTERS = 40
# Of folders that hold no readable run; the others are counted.
MOST_FOLDERS = 5


def show(runs: Sequence[Run], shown: Run) -> None:
    """Draws the choice with `shown` as chosen."""
    by_id = {run.run_id: run for run in runs} | {shown.run_id: shown}
    names = note_store.names_of_runs(by_id)
    st.session_state[session.RUN_CHOICE] = shown.run_id
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="run_picker"):
        st.selectbox(
            "Run",
            list(by_id),
            format_func=lambda run_id: label(by_id[run_id], names.get(run_id)) if run_id in by_id else str(run_id),
            key=session.RUN_CHOICE,
            on_change=_picked,
            label_visibility="collapsed",
        )
        run_admin.show(shown)
    run_admin.show_answer()
    show_note(shown)
    st.caption(plain(conditions(shown)))


def show_note(run: Run) -> None:
    """Draws the note that is kept with a run; nothing where there is none."""
    note = note_store.notes_of(run.run_id).note
    if note:
        st.markdown("  \n".join(plain(line, MAX_NOTE) for line in note.splitlines()))


def show_unreadable(folders: Sequence[tuple[str, str]]) -> None:
    """Names the folders of runs that cannot be read, each with its reason, in a quiet line; nothing where all can."""
    if folders:
        st.caption(unreadable(folders))


def unreadable(folders: Sequence[tuple[str, str]]) -> str:
    """The same in markdown."""
    hold = "holds" if len(folders) == 1 else "hold"
    named = "; ".join(f"{plain(name, MOST_LETTERS)} ({plain(reason)})" for name, reason in folders[:MOST_FOLDERS])
    others = f"; and {len(folders) - MOST_FOLDERS:,} more" if len(folders) > MOST_FOLDERS else ""
    return f"{count(len(folders), 'folder')} among the results {hold} a run that cannot be read: {named}{others}."


def label(run: Run, name: str | None = None) -> str:
    """A run in one line that a phone has room for: when, in which state, how many points, and which it is.

    A folder that a sweep has named itself begins with the time again: the end of its id tells it from others. What a
    person has called it stands before all.
    """
    made_up = _OWN_NAME.fullmatch(run.run_id)
    end = made_up[1] if made_up else run.run_id
    parts = [shortened(name, NAME_LETTERS)] if name else []
    return " · ".join([*parts, day_and_time(run.started_at), run.state, count(run.grid.num_points, "point"), end])


def conditions(run: Run) -> str:
    """What a run was measured on, in one line."""
    environment = run.environment
    parts = [
        f"run {run.run_id}",
        str(environment.get("device_name") or run.device),
        count(run.threads, "thread"),
        f"torch {environment.get('torch_version', '?')}",
        count(run.settings.replicates, "replicate"),
        f"{run.settings.time_budget_s:g} s per contender",
        f"heap {run.settings.heap}",
    ]
    return " · ".join(shortened(part, MOST_LETTERS) for part in parts)


def _picked() -> None:
    store.pick(st.session_state[session.RUN_CHOICE])
