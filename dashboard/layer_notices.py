"""What the page says of layers that are not there: bad arguments of the program, and links that name others' layers."""

from __future__ import annotations

import streamlit as st

from dashboard import services, session
from dashboard.layers import OPTION
from dashboard.report_text import code
from profiling.charts.formatting import plain
from profiling.layers import EXAMPLE

COMMAND = f"streamlit run dashboard/app.py -- {OPTION} {EXAMPLE}"


def remember_unregistered(key: str) -> None:
    """Notes the layers that the URL names for a control and that are not registered, before Streamlit drops them."""
    unknown = services.layers().unregistered(st.query_params.get_all(key))
    if unknown:
        st.session_state[session.UNKNOWN_LAYERS] = unknown


def forget_unregistered() -> None:
    """Takes the notice away: another choice was made."""
    st.session_state.pop(session.UNKNOWN_LAYERS, None)


def show() -> None:
    """Draws one sentence for each bad argument, and one for a link that names layers which are not registered."""
    for complaint in services.layers().complaints:
        st.warning(f"{plain(complaint)}. The rest of the page works.")
    unknown = st.session_state.get(session.UNKNOWN_LAYERS, ())
    if unknown:
        names = ", ".join(code(name) for name in unknown)
        st.warning(
            f"The link names {names}, which this server has not registered, so it is left out. "
            f"Layers are named where the program is started: {code(COMMAND)}"
        )
