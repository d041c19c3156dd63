"""Deletes a run, whole or not at all: it is renamed out of the list in one step, and then removed.

What may be deleted is a run that lies in the results folder itself, that nobody writes, and that is not the example.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
import stat
from pathlib import Path

from profiling.folder_lock import FolderLock
from profiling.runs import (
    MEASUREMENTS_FILE,
    RESULTS_DIR,
    RUN_FILE,
    SAMPLES_FILE,
    Run,
    RunError,
    find_run_folder,
    read_run,
    results_dir,
)
from profiling.safe_files import reason_of, sync_folder

EXAMPLE = RESULTS_DIR / "example"
# Where a run lies while it is being removed: no run's name begins so, hence no list shows it.
ASIDE = ".deleted"


@dataclasses.dataclass(frozen=True)
class Deletable:
    """A run that may be deleted, and what goes with it.

    Attributes:
        folder: where it lies.
        num_files: files in it, of whatever kind.
        num_bytes: what they hold.
    """

    folder: Path
    num_files: int
    num_bytes: int


def find_deletable(run_id: str, results: Path | None = None) -> Deletable:
    """Looks at a run before it is deleted, so that a person can be asked.

    Args:
        run_id: its id or its name.
        results: where it lies; `results_dir()` unless told otherwise.

    Raises:
        RunError: there is no such run, or it must not be deleted; the message says why.
    """
    results = results or results_dir()
    folder = find_run_folder(run_id, results)
    if folder.is_symlink():
        raise RunError(f"{folder} is a link, and not a run: nothing is deleted")
    if not any(os.path.lexists(folder / name) for name in (RUN_FILE, MEASUREMENTS_FILE, SAMPLES_FILE)):
        raise RunError(f"{folder} holds no run: nothing is deleted")
    if folder.resolve() == EXAMPLE.resolve():
        raise RunError("the example belongs to the project, and is not deleted")
    run = _readable(folder)
    if run is not None and run.state == "running":
        raise RunError(f"run {folder.name} is still running, since {run.started_at}: stop it before it is deleted")
    files = [Path(path) / name for path, _, names in os.walk(folder) for name in names]
    return Deletable(folder, len(files), sum(_size(path) for path in files))


def delete_run(run_id: str, results: Path | None = None) -> Path:
    """Deletes a run for good, and returns where it lay.

    Args:
        run_id: its id or its name.
        results: where it lies; `results_dir()` unless told otherwise.

    Raises:
        RunError: there is no such run, it must not be deleted, or it cannot be; the message says which, and what is
            left.
    """
    results = results or results_dir()
    folder = find_deletable(run_id, results).folder
    lock = FolderLock(folder)
    lock.acquire()  # a sweep that goes on with it in this moment is refused, or refuses us
    try:
        aside = _moved_aside(folder, results)
    finally:
        lock.release()
    try:
        _remove(aside)
    except OSError as error:
        raise RunError(
            f"run {folder.name} is gone from the list, but what is left of it in {aside} cannot be removed: "
            f"{reason_of(error)}"
        ) from error
    finally:
        _clear(aside.parent)
    return folder


def _remove(aside: Path) -> None:
    """Removes a folder; a deletion beside this one may take it for what one that was ended has left, and help."""
    while os.path.lexists(aside):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(aside)


def _readable(folder: Path) -> Run | None:
    """The run in a folder; None where it is damaged, which does not keep it from being deleted."""
    try:
        return read_run(folder)
    except RunError:
        return None


def _moved_aside(folder: Path, results: Path) -> Path:
    """Renames a run's folder to one that no list shows: from then on it is deleted, and before it is whole."""
    beside = results / ASIDE
    try:
        beside.mkdir(exist_ok=True)
        if not stat.S_ISDIR(beside.lstat().st_mode):
            raise RunError(f"{beside} is a link: nothing is deleted")
        aside = beside / f"{folder.name}-{secrets.token_hex(4)}"
        folder.rename(aside)
    except OSError as error:
        raise RunError(f"{folder} cannot be deleted, and stands as it was: {reason_of(error)}") from error
    sync_folder(results)
    return aside


def _clear(beside: Path) -> None:
    """Removes what deletions have left that were ended in the middle, and the folder itself where it is empty."""
    with contextlib.suppress(OSError):
        for left in beside.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()
        beside.rmdir()


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.lstat().st_size
    return 0
