"""The command line: its commands, and the hidden one that measures. Imports wait until they are needed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from profiling.commands.check import check
from profiling.commands.compare import compare
from profiling.commands.crossover import crossover
from profiling.commands.devices import devices
from profiling.commands.export import export
from profiling.commands.fits import fits
from profiling.commands.laws import laws
from profiling.commands.profile import profile
from profiling.commands.repeat import repeat
from profiling.commands.report import report
from profiling.commands.runs import runs
from profiling.commands.sweep import sweep
from profiling.commands.version import show_version
from profiling.doctor.command import doctor
from profiling.exits import Commands
from profiling.self_test.command import self_test


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Show the version."
)
def main() -> None:
    """Is a multi-head attention layer right, and what does it cost next to torch.nn.MultiheadAttention?"""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show × must not end a sweep
            stream.reconfigure(errors="replace")


for command in (
    sweep,
    check,
    profile,
    devices,
    doctor,
    self_test,
    export,
    report,
    laws,
    crossover,
    fits,
    compare,
    repeat,
    runs,
):
    main.add_command(command)


@main.command(hidden=True)
@click.option("--marker", type=click.Path(path_type=Path), required=True)
def child(marker: Path) -> None:
    """Serve measurements over standard input and output; started by the commands above."""
    from profiling.measuring.child import main as serve

    serve(marker)
