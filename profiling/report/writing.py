"""Writes a run's report where it is wanted."""

from __future__ import annotations

from pathlib import Path

from profiling.report.content import gather
from profiling.report.html_page import html_page
from profiling.report.markdown_summary import markdown_summary
from profiling.run_names import NOTES_FILE
from profiling.runs import MEASUREMENTS_FILE, RUN_FILE, SAMPLES_FILE, RunError
from profiling.safe_files import write_aside

HTML_FILE = "report.html"


def html_of(folder: Path) -> str:
    """The run in that folder as one HTML file.

    Raises:
        RunError: the folder holds no run, or one that this version cannot read.
    """
    return html_page(gather(folder))


def markdown_of(folder: Path) -> str:
    """The same in Markdown, short; raises as well."""
    return markdown_summary(gather(folder))


def write_html(folder: Path, out: Path | None = None) -> Path:
    """Writes the HTML report, to `report.html` in the run's folder unless told otherwise, and returns where.

    Raises:
        RunError: the run cannot be read, or the report cannot be written.
    """
    return _write(folder, out or folder / HTML_FILE, html_of(folder))


def write_markdown(folder: Path, out: Path) -> Path:
    """The same for the summary."""
    return _write(folder, out, markdown_of(folder))


def _write(folder: Path, out: Path, text: str) -> Path:
    kept = (RUN_FILE, MEASUREMENTS_FILE, SAMPLES_FILE, NOTES_FILE)
    if out.name in kept and out.resolve().parent == folder.resolve():
        raise RunError(f"{out} holds what was measured or noted, and a report must not take its place")
    write_aside(out, text)
    return out
