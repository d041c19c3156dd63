"""`python -m profiling repeat`: parses, calls and prints."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profiling.commands.json_answer import JsonCommand, end_with, print_json
from profiling.commands.named_files import FileName, Name
from profiling.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_STOPPED, EXIT_UNTOLD

if TYPE_CHECKING:
    from profiling.measured_point import MeasuredPoint
    from profiling.sources import Source


@click.command(cls=JsonCommand)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--point", metavar="N", required=True, help="Which workload, as in the table's column `point`.")
@click.option("--contender", type=Name(), metavar="NAME", required=True, help="Whose row.")
@click.option("--print-command", is_flag=True, help="Print the command that measures it again. This is the default.")
@click.option(
    "--script",
    type=FileName(allow_dash=True),
    metavar="FILE",
    help="Write a Python script that does so with torch alone; - for the output.",
)
@click.option("--run", "runs", is_flag=True, help="Measure it again now, and tell whether the row agrees.")
@click.option("--out", type=FileName(path_type=Path), help="With --run: the new run's folder.")
@click.option("--source", is_flag=True, help="Print the source that the row came from.")
@click.option(
    "--diff",
    type=Name(),
    metavar="HASH",
    help="Print what differs from another source of the run, or from it as it is `now`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def repeat(run: Path, as_json: bool, **asked: Any) -> None:
    """Measure one row of a run again: by a command, by a script that needs torch alone, or now.

    RUN is a run's folder, or the name of one under results/. What was measured is kept in the run's folder, so that a
    layer of your own is put into the script as it was then. Exit status: 0 done; 1 with --run, the row does not agree,
    or it could not be measured; 2 a wrong option, no such row, or a source that is gone or edited; 74 the script cannot
    be written; 130 stopped.
    """
    from profiling.measured_point import find_point
    from profiling.parsing import parse_number
    from profiling.runs import RunError, run_folder
    from profiling.sources import NoSource
    from profiling.standalone.writing import NoScript
    from profiling.workload import GridError

    ways = [name for name in ("print_command", "script", "runs", "source", "diff") if asked[name]]
    try:
        if len(ways) > 1:
            raise GridError(
                "--print-command, --script, --run, --source and --diff exclude each other: give one of them"
            )
        if asked["out"] is not None and ways != ["runs"]:
            raise GridError("--out needs --run: it is the folder of the new run")
        if as_json and asked["script"] == "-":
            raise GridError("--json needs a file for the script, not -: both would go to the output")
        number = parse_number("point", asked["point"])
    except GridError as error:
        end_with(str(error), EXIT_BAD_INPUT, as_json=as_json)
    try:
        point = find_point(run_folder(run), number, asked["contender"])
        way = {"script": _write_script, "runs": _run, "source": _show_source, "diff": _show_difference}
        way.get(ways[0] if ways else "", _print_command)(point, asked, as_json)
    except (RunError, NoSource, NoScript, GridError) as error:
        end_with(str(error), EXIT_BAD_INPUT, as_json=as_json)


def _print_command(point: MeasuredPoint, _: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(_about(point))
        return
    if not point.is_unchanged:
        click.echo(f"warning: {_edited(point)}; --script has it as it was", err=True)
    click.echo(point.command)


def _write_script(point: MeasuredPoint, asked: dict[str, Any], as_json: bool) -> None:
    from profiling.runs import RunError
    from profiling.safe_files import write_aside
    from profiling.standalone.writing import script_text

    file = asked["script"]
    if file == "-":
        click.echo(script_text(point), nl=False)
        return
    path = Path(file)
    if os.path.lexists(path):
        raise RunError(f"{path} is there already: give the name of a new file")
    text = script_text(point, path.name)
    try:
        write_aside(path, text)
    except RunError as error:
        end_with(str(error), EXIT_UNTOLD, as_json=as_json)
    if as_json:
        print_json(_about(point) | {"script": str(path)})
    else:
        click.echo(path)


def _run(point: MeasuredPoint, asked: dict[str, Any], as_json: bool) -> None:
    from profiling.agreement import Told, agreement
    from profiling.child_process import ChildStopped, MeasuringError
    from profiling.device_lock import DeviceBusy
    from profiling.measured_point import find_point
    from profiling.progress import show_progress
    from profiling.repeat import repeat_sweep
    from profiling.runs import RunError, new_run_id, results_dir
    from profiling.sources import NoSource
    from profiling.stopping import StopSwitch
    from profiling.sweep import sweep

    if not point.is_unchanged:
        raise NoSource(f"{_edited(point)}: put it back, or write the script, which has it as it was: --script FILE")
    grid, settings = repeat_sweep(point.workload, point.contender, point.reference, point.run.settings)
    folder = asked["out"] or results_dir() / new_run_id()
    stop = StopSwitch()
    stop.on_signals()
    try:
        with show_progress(sys.stderr) as on_event:
            ended = sweep({**grid.to_dict(), **settings.to_dict()}, folder, on_event=on_event, stop=stop)
    except (RunError, DeviceBusy, MeasuringError) as error:
        end_with(str(error), EXIT_FAILED, as_json=as_json)
    except ChildStopped:
        end_with(f"{stop.reason} before anything was measured", EXIT_STOPPED, as_json=as_json)
    if ended.state == "stopped":
        end_with(f"{ended.state_reason}; what was measured is in {folder}", EXIT_STOPPED, as_json=as_json)
    again = find_point(folder, 1, point.contender)
    said, found = Told.of_row(point.row), Told.of_row(again.row)
    agrees, words = None, f"nothing to compare: {point.contender} has no speed-up here, or had none"
    if said is not None and found is not None:
        agrees, words = agreement(said, found)
    errors = {"said": point.row["max_abs_error"], "found": again.row["max_abs_error"]}
    if as_json:
        print_json(_about(point) | {"folder": str(folder), "agrees": agrees, "words": words, "max_abs_error": errors})
    else:
        click.echo(words)
        if None not in errors.values():
            click.echo(f"max error: the row said {errors['said']:.2e}, here {errors['found']:.2e}")
        click.echo(folder)
    sys.exit(EXIT_FAILED if agrees is False else 0)


def _show_source(point: MeasuredPoint, _: dict[str, Any], as_json: bool) -> None:
    from profiling.kept_sources import measured_sources
    from profiling.wording import counted

    source = point.source()
    measured = next(one for one in measured_sources(point.folder) if one.hash == source.hash)
    about = {"num_rows": measured.num_rows, "points": list(measured.points), "since": measured.first_measured_at}
    if as_json:
        print_json(_about(point) | about | {"source": {"hash": source.hash, "files": source.texts}})
        return
    click.echo(
        f"# source {source.hash}: {counted(measured.num_rows, 'row')} of {', '.join(measured.contenders)}, "
        f"the first measured at {measured.first_measured_at}"
    )
    for name, text in source.texts.items():
        click.echo(f"# -- {name}\n{text.rstrip()}")


def _show_difference(point: MeasuredPoint, asked: dict[str, Any], as_json: bool) -> None:
    from profiling.kept_sources import read_source
    from profiling.sources import source_diff

    measured, other = point.source(), asked["diff"]
    if other == "now":
        text = source_diff(measured, _source_now(point))
    else:
        text = source_diff(read_source(point.folder, other), measured)
    if as_json:
        print_json(_about(point) | {"diff": text})
    else:
        click.echo(text, nl=False)


def _source_now(point: MeasuredPoint) -> Source:
    from profiling.sources import NoSource, Source
    from profiling.workload import GridError

    try:
        return Source.of_ours() if point.layer is None else Source.of_layer(point.layer.path)
    except GridError as error:
        raise NoSource(str(error)) from None


def _edited(point: MeasuredPoint) -> str:
    path = point.layer.path if point.layer else ""
    return f"{path} is not what was measured any more: it was edited or is gone"


def _about(point: MeasuredPoint) -> dict[str, Any]:
    return {
        "run_id": point.run.run_id,
        "point": int(point.row["point"]),
        "contender": point.contender,
        "reference": point.reference,
        "command": point.command,
        "source_hash": point.row["source_hash"],
        "is_unchanged": point.is_unchanged,
    }
