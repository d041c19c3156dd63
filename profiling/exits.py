"""How a command ends: exit statuses, and one sentence on standard error."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_STOPPED = 130


def exit_with(message: str, status: int) -> NoReturn:
    """Ends the program with a status, and says why."""
    click.echo(f"error: {message}", err=True)
    sys.exit(status)
