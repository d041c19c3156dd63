"""How a command ends: exit statuses, and one sentence on standard error."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from profiling.stopping import StopSwitch

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
# The answer is there, but could not be written: as sysexits.h has it, and no verdict of any command.
EXIT_UNTOLD = 74
EXIT_STOPPED = 130
_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)


def exit_with(message: str, status: int) -> NoReturn:
    """Ends the program with a status, and says why."""
    click.echo(f"error: {message}", err=True)
    sys.exit(status)


def status_of(error: Exception) -> int:
    """How a command ends whose work could not be done: a run that there is not is a wrong argument."""
    from profiling.runs import NoRunError

    return EXIT_BAD_INPUT if isinstance(error, NoRunError) else EXIT_FAILED


@contextlib.contextmanager
def sentences_of_measuring(stop: StopSwitch) -> Iterator[None]:
    """Ends the program with a sentence where what is measured inside cannot be, or was stopped before it began."""
    from profiling.child_process import ChildStopped, MeasuringError
    from profiling.device_lock import DeviceBusy
    from profiling.runs import RunError
    from profiling.workload import GridError

    try:
        yield
    except GridError as error:
        exit_with(str(error), EXIT_BAD_INPUT)
    except (RunError, DeviceBusy, MeasuringError) as error:
        exit_with(str(error), status_of(error))
    except ChildStopped:
        exit_with(f"{stop.reason} before anything was measured", EXIT_STOPPED)


class Commands(click.Group):
    """Commands of which none takes an output that cannot be written for an answer of its own.

    A full disk under standard output, or a reader that has left, ends with one sentence and `EXIT_UNTOLD`.
    """

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Reads the options, of which --help and --version answer at once."""
        with _answers():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, and sees that what it said is out."""
        with _answers():
            return super().invoke(ctx)


@contextlib.contextmanager
def _answers() -> Iterator[None]:
    if sys.stdout is None:  # closed by whoever started it: nobody wants to read
        # For as long as the program runs.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        try:
            yield
        finally:
            if not sys.stdout.closed:  # as a sweep does whose reader has left
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        _leave_output()
        exit_with(f"standard output cannot be written: {os.strerror(error.errno or 0)}", EXIT_UNTOLD)


def _leave_output() -> None:
    """Sends what is still to be written nowhere: else Python would fail once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
