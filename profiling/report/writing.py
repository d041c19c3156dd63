"""Writes a run's report where it is wanted."""

from __future__ import annotations

from pathlib import Path

from profiling.output_files import HTML_FILE, require_no_own_file, write_named
from profiling.report.content import gather
from profiling.report.html_page import html_page
from profiling.report.markdown_summary import markdown_summary
from profiling.safe_files import write_aside


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
        RunError: the run cannot be read, or the report cannot be written, or it would take the place of the run's own
            files.
    """
    if out is None:
        out = folder / HTML_FILE
        write_aside(out, html_of(folder))
        return out
    require_no_own_file(out, folder, but=HTML_FILE)
    write_named(out, html_of(folder))
    return out


def write_markdown(folder: Path, out: Path) -> Path:
    """The same for the summary."""
    require_no_own_file(out, folder)
    write_named(out, markdown_of(folder))
    return out
