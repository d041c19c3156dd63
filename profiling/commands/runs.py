"""`python -m profiling runs`: lists runs, names them, keeps notes with them, deletes them; parses, calls and prints."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profiling.commands.json_answer import print_json
from profiling.exits import EXIT_BAD_INPUT, EXIT_FAILED, exit_with, status_of

if TYPE_CHECKING:
    from profiling.runs import Run

# Of a list that no terminal shows.
WIDTH = 160


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def runs(context: click.Context, as_json: bool) -> None:
    """List the runs under results/, the newest first; name one, keep a note with one, delete one.

    RUN is a run's id, or the name that it was given. A named run is found by its name wherever its id is asked for.
    """
    if context.invoked_subcommand is not None:
        return
    from profiling.run_list import list_runs

    listing = list_runs()
    rows = [_row(run) for run in listing.runs]
    if as_json:
        unreadable = [{"run_id": name, "reason": reason} for name, reason in listing.unreadable]
        print_json({"runs": rows, "unreadable": unreadable})
        return
    for name, reason in listing.unreadable:
        click.echo(f"warning: {name} cannot be read: {reason}", err=True)
    for row in rows:
        if row["problem"]:
            click.echo(f"warning: {row['run_id']}: {row['problem']}", err=True)
    _print_table(rows)


@runs.command()
@click.argument("run")
@click.argument("text")
def name(run: str, text: str) -> None:
    """Call a run TEXT; an empty one takes its name away."""
    from profiling.run_notes import name_run

    _write(run, text, name_run)


@runs.command()
@click.argument("run")
@click.argument("text")
def note(run: str, text: str) -> None:
    """Keep a note with a run; an empty TEXT takes it away."""
    from profiling.run_notes import note_run

    _write(run, text, note_run)


@runs.command()
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(run: str, yes: bool) -> None:
    """Delete a run for good, with all that lies in its folder. Asks for the run's id first."""
    from profiling.run_deletion import delete_run, find_deletable
    from profiling.units import format_mib

    with _sentences():
        found = find_deletable(run)
        run_id = found.folder.name
        size = format_mib(found.num_bytes / 2**20)
        if not yes:
            click.echo(f"This removes {found.folder} with {found.num_files:,} files, {size}, for good.", err=True)
            if _asked(f"Type {run_id} to delete it") != run_id:
                exit_with(f"{run_id} is not deleted: that was not its id", EXIT_FAILED)
        # By its id: a name may have moved to another run while the person was asked.
        click.echo(f"deleted {delete_run(run_id)}")


def _asked(question: str) -> str:
    """The answer; nothing where nobody can give one."""
    try:
        return str(click.prompt(question, default="", show_default=False, err=True)).strip()
    except click.Abort:  # the input ended
        return ""


def _write(run: str, text: str, write: Callable[[Path, str], None]) -> None:
    from profiling.runs import find_run_folder

    with _sentences():
        write(find_run_folder(run), text)


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    from profiling.run_notes import NoteRefused
    from profiling.runs import RunError

    try:
        yield
    except NoteRefused as error:
        exit_with(str(error), EXIT_BAD_INPUT)
    except RunError as error:
        exit_with(str(error), status_of(error))


def _row(run: Run) -> dict[str, Any]:
    from profiling.run_names import read_notes
    from profiling.runs import results_dir

    notes = read_notes(results_dir() / run.run_id)
    return {
        "run_id": run.run_id,
        "name": notes.name,
        "note": notes.note,
        "state": run.state,
        "started_at": run.started_at,
        "num_points": run.grid.num_points,
        "num_replicates": run.settings.replicates,
        "done": run.progress.done,
        "total": run.progress.total,
        "contenders": list(run.settings.contenders),
        "device": run.device,
        "device_name": run.environment.get("device_name"),
        "problem": notes.problem,
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from profiling.wording import one_line, short_names

    if not rows:
        click.echo("no runs yet: `python -m profiling sweep` measures one")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", no_wrap=True, min_width=20)
    for heading in ("name", "state", "points", "contenders", "device", "note"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        points = f"{row['num_points']:,}" + (f" × {row['num_replicates']}" if row["num_replicates"] > 1 else "")
        state = row["state"] if row["done"] == row["total"] else f"{row['state']}, {row['done']} of {row['total']}"
        device = str(row["device_name"] or row["device"])
        names = ", ".join(short_names(row["contenders"]).values())
        cells = [row["run_id"], row["name"] or "", state, points, one_line(names, 80), device, row["note"] or ""]
        # As Text: a note may hold brackets, which rich takes for markup.
        table.add_row(*(Text(one_line(cell, 200)) for cell in cells))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH, highlight=False).print(table)
