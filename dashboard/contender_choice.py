"""The choice of one contender of a run, kept in the address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard import layer_notices

# A path of some folders is read in it.
WIDTH = 300


def choose_contender(place: Any, label: str, key: str, options: Sequence[str], first: str) -> str:
    """Draws the choice in `place`, and returns what is chosen: at first, and where the run has it not, `first`."""
    if st.session_state.get(key, first) not in options:  # another run's
        st.session_state.pop(key, None)
    layer_notices.remember_unregistered(key)
    at = options.index(first) if first in options else 0
    chosen = place.selectbox(
        label,
        options,
        index=at,
        key=key,
        bind="query-params",
        on_change=layer_notices.forget_unregistered,
        width=WIDTH,
    )
    return chosen if chosen in options else options[at]
