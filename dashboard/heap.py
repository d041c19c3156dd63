"""Keeps the server's memory where its data are: what a redraw took for a moment goes back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import platform

import streamlit as st

# As glibc's malloc.h numbers them.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 256 * 1024


@st.cache_resource(show_spinner=False)
def keep_small() -> None:
    """Tells glibc's allocator, once, to give back what is large as soon as it is free; other allocators are left alone.

    Streamlit draws each time in another thread. Left to itself the allocator gives each thread an arena of its own and
    keeps there what tables and charts once needed: in a sweep of thousands of points some hundred MiB.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    with contextlib.suppress(AttributeError, OSError):
        for setting, value in ((_M_ARENA_MAX, 2), (_M_MMAP_THRESHOLD, _LARGE_BYTES), (_M_TRIM_THRESHOLD, _LARGE_BYTES)):
            ctypes.CDLL(None).mallopt(setting, value)
