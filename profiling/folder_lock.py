"""One writer per run folder at a time, also of sweeps that do not share a device, a user or a temporary folder.

The lock is on the folder itself, so it leaves no file behind and ends with its process. Windows and most network shares
cannot lock a folder: there it holds nobody off, and what `run.json` says of the run's process has to do.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from profiling.runs import RunError
from profiling.safe_files import reason_of

# How often one who waits for a turn looks whether it has come.
_STEP_S = 0.01


class FolderLock:
    """The lock of one run folder, held from `acquire` to `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._is_ours = False

    def acquire(self) -> None:
        """Makes the folder where it is missing, and locks it.

        Raises:
            RunError: the folder cannot be made, or another sweep writes into it.
        """
        try:
            self._is_ours = not self._folder.exists()
            self._folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else error
            raise RunError(f"{self._folder} cannot be made: {reason}") from error
        try:
            self._descriptor = _lock(self._folder)
        except BlockingIOError:
            self._is_ours = False
            raise being_written(self._folder) from None

    def release(self) -> None:
        """Gives the folder back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def discard(self) -> None:
        """Takes the folder away again where it was made here and nothing has come into it."""
        if self._is_ours:
            try:
                self._folder.rmdir()
            except OSError:  # it holds something: a run
                return


@contextlib.contextmanager
def turn_in(folder: Path, most_s: float) -> Iterator[None]:
    """Holds a folder's lock while a small change is made: whoever else makes one waits, be it a thread or a process.

    Args:
        folder: the folder; where it cannot be locked, nobody waits.
        most_s: seconds after which it is given up.

    Raises:
        RunError: the folder's lock was held by others all the while.
    """
    descriptor, deadline = None, time.monotonic() + most_s
    while True:
        try:
            descriptor = _lock(folder)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise RunError(f"{folder} is held by another process for {most_s:g} s: try again later") from None
        time.sleep(_STEP_S)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_free(folder: Path) -> bool:
    """Whether nobody writes into a folder; False where that cannot be told."""
    return _is_held(folder) is False


def require_unheld(folder: Path) -> None:
    """Raises RunError where another sweep writes into a folder; where that cannot be told, nothing is said."""
    if _is_held(folder):
        raise being_written(folder)


def being_written(folder: Path) -> RunError:
    """Why a folder cannot be had just now."""
    return RunError(f"{folder} is being written by another sweep: give a new folder, or wait")


def _is_held(folder: Path) -> bool | None:
    try:
        descriptor = _lock(folder)
    except BlockingIOError:
        return True
    if descriptor is None:
        return None
    os.close(descriptor)
    return False


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock, or None where folders cannot be locked; BlockingIOError where another does."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
