"""The choice among past runs, the newest first, and what the chosen one was measured on."""

from __future__ import annotations

import re
from collections.abc import Sequence

import streamlit as st

from dashboard import session, store
from profiling.charts.formatting import count, day_and_time, plain, shortened
from profiling.runs import Run

# As `new_run_id` makes them.
_OWN_NAME = re.compile(r"\d{8}-\d{6}-([0-9a-f]{4})")

# Of one condition.
MOST_LETTERS = 80
# Of folders that hold no readable run; the others are counted.
MOST_FOLDERS = 5


def show(runs: Sequence[Run], shown: Run) -> None:
    """Draws the choice with `shown` as chosen."""
    by_id = {run.run_id: run for run in runs} | {shown.run_id: shown}
    st.session_state[session.RUN_CHOICE] = shown.run_id
    st.selectbox(
        "Run",
        list(by_id),
        format_func=lambda run_id: label(by_id[run_id]) if run_id in by_id else str(run_id),
        key=session.RUN_CHOICE,
        on_change=_picked,
        label_visibility="collapsed",
    )
    st.caption(plain(conditions(shown)))


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


def label(run: Run) -> str:
    """A run in one line that a phone has room for: when, in which state, how many points, and which it is.

    A folder that a sweep has named itself begins with the time again: the end of its name tells it from others.
    """
    made_up = _OWN_NAME.fullmatch(run.run_id)
    name = made_up[1] if made_up else run.run_id
    return f"{day_and_time(run.started_at)} · {run.state} · {count(run.grid.num_points, 'point')} · {name}"


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
