"""Why a sweep was not started, told as long as it holds: until what was measuring has ended."""

from __future__ import annotations

import streamlit as st

from dashboard import session, store
from dashboard.jobs import JobError
from profiling.charts.formatting import plain


def remember(error: JobError, device: str) -> None:
    """Notes why a sweep on that device was not started."""
    st.session_state[session.START_ERROR] = (str(error), device, store.traces(device))


def forget() -> None:
    """Takes the notice away."""
    st.session_state.pop(session.START_ERROR, None)


def show() -> None:
    """Draws the notice, or forgets it where a sweep has begun or ended since."""
    if session.START_ERROR not in st.session_state:
        return
    sentence, device, traces = st.session_state[session.START_ERROR]
    if store.traces(device) == traces:
        st.error(plain(sentence))
    else:
        forget()
