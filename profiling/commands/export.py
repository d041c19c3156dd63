"""`python -m profiling export`: parses, calls and prints."""

from __future__ import annotations

from pathlib import Path

import click

from profiling.commands.named_files import FileName
from profiling.exits import exit_with, status_of


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=FileName(path_type=Path), help="Where to.  [default: report.csv in the run's folder]")
def export(run: Path, out: Path | None) -> None:
    """Write a run's table as CSV. RUN is a run's folder, or the name of one under results/."""
    from profiling.runs import RunError, run_folder
    from profiling.table import write_table

    try:
        report, problems = write_table(run_folder(run), out)
    except RunError as error:
        is_full = out is None and "cannot be written" in str(error)
        exit_with(f"{error}; --out PATH writes the table elsewhere" if is_full else str(error), status_of(error))
    for problem in problems:
        click.echo(f"warning: {problem}", err=True)
    click.echo(report)
