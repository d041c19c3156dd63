"""Keeps the server's memory where its data are: what a redraw took for a moment goes back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import platform

import pyarrow as pa
import streamlit as st

# As glibc's malloc.h numbers them.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 256 * 1024


@st.cache_resource(show_spinner=False)
def keep_small() -> None:
    """Has what is free given back, once and for good: Python's cycles, Arrow's tables, and glibc's arenas.

    Streamlit draws each time in another thread, and charts are full of cycles. Left to themselves the collector rests
    until a quarter more objects are there than all of the libraries are, Arrow keeps a pool of its own, and the
    allocator an arena for each thread: in a sweep of thousands of points some hundred MiB.
    """
    gc.collect()
    gc.freeze()  # the libraries: what comes and goes is then little, and looked through often
    pa.set_memory_pool(pa.system_memory_pool())
    if platform.libc_ver()[0] == "glibc":
        _trim_glibc()


def _trim_glibc() -> None:
    with contextlib.suppress(AttributeError, OSError):
        for setting, value in ((_M_ARENA_MAX, 2), (_M_MMAP_THRESHOLD, _LARGE_BYTES), (_M_TRIM_THRESHOLD, _LARGE_BYTES)):
            ctypes.CDLL(None).mallopt(setting, value)
