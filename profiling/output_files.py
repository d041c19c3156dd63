"""Writes a file that a person asked for by its name: through a link to what it leads to, and over nothing of a run."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from profiling.kept_sources import SOURCES_DIR
from profiling.run_names import NOTES_FILE
from profiling.runs import MEASUREMENTS_FILE, REPORT_FILE, RUN_FILE, SAMPLES_FILE, RunError
from profiling.safe_files import write_aside

HTML_FILE = "report.html"
_MEASURED = "what was measured or noted"
# What a run's folder holds, by name.
_OWN_FILES = {
    **dict.fromkeys((RUN_FILE, MEASUREMENTS_FILE, SAMPLES_FILE, NOTES_FILE), _MEASURED),
    REPORT_FILE: "the run's table",
    HTML_FILE: "the run's HTML report",
}


def write_named(path: Path, text: str) -> None:
    """Writes a file as `write_aside` does; where its name is a link, the link stays, and its target is written.

    Raises:
        RunError: the file cannot be written; what was there stands.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise RunError(f"{path} cannot be written: it is a link that leads to itself")
    write_aside(target, text)


def require_no_own_file(out: Path, folder: Path, *, but: str | None = None) -> None:
    """Raises RunError where a report written to `out` would take the place of a file of the run in `folder`.

    Args:
        out: where the report is to be written.
        folder: the run's folder.
        but: the name of the one file that it may replace: an older report of the same kind.
    """
    for name, what in _OWN_FILES.items():
        if name != but and _is_same(out, folder / name):
            raise RunError(f"{out} holds {what}, and a report must not take its place")
    if Path(os.path.realpath(folder)) / SOURCES_DIR in Path(os.path.realpath(out)).parents:
        raise RunError(f"{out} lies among the sources that the run keeps, and a report must not take their place")


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names lead to one file, which may not be there yet, be it by links."""
    with contextlib.suppress(OSError):
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)
