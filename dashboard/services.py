"""What lives as long as the server and is shared by all its tabs: sweeps, live check, profiles, registered layers."""

from __future__ import annotations

import atexit
import sys

import streamlit as st

from dashboard.jobs import Jobs
from dashboard.layers import Layers, parse
from dashboard.live_checks import LiveChecks
from dashboard.profiles import Profiles


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """This server's sweeps."""
    return Jobs()


@st.cache_resource(show_spinner=False)
def live_checks() -> LiveChecks:
    """This server's live check; its measuring process starts here, in the background."""
    checks = LiveChecks()
    atexit.register(checks.close)
    return checks


@st.cache_resource(show_spinner=False)
def profiles() -> Profiles:
    """This server's operator profiles."""
    made = Profiles()
    atexit.register(made.close)
    return made


@st.cache_resource(show_spinner=False)
def layers() -> Layers:
    """The layers that were named when this server was started."""
    return parse(sys.argv[1:])
