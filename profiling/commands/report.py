"""`python -m profiling report`: parses, calls and prints."""

from __future__ import annotations

from pathlib import Path

import click

from profiling.commands.named_files import FileName
from profiling.exits import exit_with, status_of


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=FileName(path_type=Path), help="Where to.  [default: report.html in the run's folder]")
@click.option(
    "--markdown", type=FileName(path_type=Path, allow_dash=True), help="A summary for a pull request; - prints it."
)
def report(run: Path, out: Path | None, markdown: Path | None) -> None:
    """Write a run as one HTML file that opens offline, or as a summary in Markdown.

    RUN is a run's folder, or the name of one under results/. With --markdown alone only the summary is written. Exit
    status: 0 written, 1 not written, 2 no such run.
    """
    from profiling.report.writing import markdown_of, write_html, write_markdown
    from profiling.runs import RunError, run_folder

    try:
        folder = run_folder(run)
        if markdown is not None and str(markdown) == "-":
            click.echo(markdown_of(folder), nl=False)
        elif markdown is not None:
            click.echo(write_markdown(folder, markdown))
        if out is not None or markdown is None:
            click.echo(write_html(folder, out))
    except RunError as error:
        exit_with(str(error), status_of(error))
