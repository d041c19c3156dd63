"""A baseline file in place of BASE: a report that `export` has written, given to the page from the person's machine.

It is kept in a folder of this server's own, which goes with the server, and read like any report.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from pathlib import Path

import streamlit as st

from dashboard import session
from profiling.charts.formatting import plain, shortened
from profiling.safe_files import write_aside

MOST_MIB = 64
NAME_LETTERS = 60
# All files are called so, whatever they were called: a name from elsewhere is shown, and is never a path.
_FILE = "baseline.csv"


@dataclasses.dataclass(frozen=True)
class Baseline:
    """A file that was given.

    Attributes:
        path: where it lies on this machine.
        name: what it was called, shortened.
    """

    path: Path
    name: str


def show() -> Baseline | None:
    """Draws the place for a file, and returns the one that is there."""
    with st.popover("A baseline file instead", help="A report as `export` writes it, for instance one kept with code."):
        given = st.file_uploader(
            "Report as CSV, in place of BASE", type="csv", key=session.BASELINE, max_upload_size=MOST_MIB
        )
    if given is None:
        return None
    data = given.getvalue()
    baseline = Baseline(_kept(hashlib.sha256(data).hexdigest()[:20], data), shortened(given.name, NAME_LETTERS))
    st.caption(f"BASE is the file {plain(baseline.name)}, until it is taken away there.")
    return baseline


def _kept(digest: str, data: bytes) -> Path:
    """Where that content lies; it is written once."""
    path = Path(_folder().name) / digest / _FILE
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write_aside(path, data.decode("utf-8-sig", errors="replace"))
    return path


@st.cache_resource(show_spinner=False)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mha-bench-baselines-", ignore_cleanup_errors=True)
