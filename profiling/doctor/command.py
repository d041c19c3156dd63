"""`python -m profiling doctor`: calls and prints."""

from __future__ import annotations

import sys

import click

from profiling.commands.json_answer import print_json
from profiling.exits import EXIT_FAILED

COLORS = {"ok": "green", "note": "yellow", "problem": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with the facts behind it.")
def doctor(as_json: bool) -> None:
    """Tell what this machine can measure, what will disturb it, and what to do.

    Tries the smallest of calls on each device, and watches for half a second who else computes; nothing is kept. While
    something is being measured, it does not touch torch. Exit status 1 where nothing can be measured.
    """
    from profiling.doctor.examination import examine
    from profiling.doctor.report_text import report_lines

    examination = examine()
    if as_json:
        print_json(examination.to_dict())
    else:
        for line in report_lines(examination):
            word = line.partition(" ")[0]
            click.echo(click.style(word, fg=COLORS[word]) + line[len(word) :] if word in COLORS else line)
    sys.exit(0 if examination.can_measure else EXIT_FAILED)
