"""What lives as long as the server and its tabs share: sweeps, live check, profiles, searches, registered layers."""

from __future__ import annotations

import atexit
import sys

import streamlit as st

from dashboard.background import Slot
from dashboard.jobs import Jobs
from dashboard.layers import Layers, parse
from dashboard.live_checks import LiveChecks
from dashboard.profiles import Profiles
from dashboard.searches import Searches


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """This server's sweeps."""
    return Jobs(lambda: searches().refusal())


@st.cache_resource(show_spinner=False)
def live_checks() -> LiveChecks:
    """This server's live check; its measuring process starts here, in the background."""
    checks = LiveChecks()
    atexit.register(checks.close)
    return checks


@st.cache_resource(show_spinner=False)
def profiles() -> Profiles:
    """This server's operator profiles."""
    return Profiles(slot=slot())


@st.cache_resource(show_spinner=False)
def searches() -> Searches:
    """This server's searches for crossovers and for what fits."""
    return Searches(slot=slot())


@st.cache_resource(show_spinner=False)
def slot() -> Slot:
    """Room for the one profile or search that may run in the background."""
    room = Slot()
    atexit.register(room.close)
    return room


@st.cache_resource(show_spinner=False)
def layers() -> Layers:
    """The layers that were named when this server was started."""
    return parse(sys.argv[1:])
