"""The runs in a results folder, and the folders there that hold one which cannot be read, with the reason."""

from __future__ import annotations

import dataclasses
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from profiling.runs import (
    MEASUREMENTS_FILE,
    RUN_FILE,
    RUN_ID_PATTERN,
    SAMPLES_FILE,
    Run,
    RunError,
    as_it_is,
    read_run_file,
    results_dir,
)

# Of which the file is remembered as it was read: a page looks at all of them at every click.
MAX_REMEMBERED = 5_000

# What tells a file from a later one of its name: where it lies, how long it is, and when it was changed.
Stamp = tuple[int, int, int, int]


@dataclasses.dataclass(frozen=True)
class Listing:
    """What a results folder holds.

    Attributes:
        runs: those that can be read, the newest first.
        unreadable: name and reason of each folder in which a run was written that cannot be read, by name.
    """

    runs: tuple[Run, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


def list_runs(results: Path | None = None) -> Listing:
    """Looks over a results folder, `results_dir()` unless told otherwise; a file is read once, until it changes."""
    runs, unreadable = [], []
    for folder in _folders(results or results_dir()):
        try:
            if not RUN_ID_PATTERN.fullmatch(folder.name):
                raise RunError("its name may hold letters, digits, - and _ alone, at most 100")
            if folder.is_symlink() and folder.resolve().parent != folder.parent.resolve():
                raise RunError("it is a link out of this folder")
            runs.append(dataclasses.replace(as_it_is(_read(folder / RUN_FILE)), run_id=folder.name))
        except RunError as error:
            if _was_run(folder):
                unreadable.append((folder.name, _within(folder, str(error))))
    return Listing(tuple(sorted(runs, key=_began, reverse=True)), tuple(sorted(unreadable)))


def _folders(results: Path) -> list[Path]:
    try:
        with os.scandir(results) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir()]
    except (OSError, ValueError):
        return []


def _within(folder: Path, reason: str) -> str:
    """A reason without the way to the folder, which is named beside it."""
    return reason.replace(f"{folder}{os.sep}", "").removeprefix(f"{folder} ")


def _was_run(folder: Path) -> bool:
    """Whether there is something of a run in a folder; any other, such as a self-test's, is none of ours to name."""
    return any(os.path.lexists(folder / name) for name in (RUN_FILE, MEASUREMENTS_FILE, SAMPLES_FILE))


def _began(run: Run) -> datetime:
    """When a run began; one that does not say so is older than any other."""
    try:
        began = datetime.fromisoformat(run.started_at)
        return began.astimezone(UTC) if began.tzinfo else began.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return datetime.min.replace(tzinfo=UTC)


_remembered: dict[Path, tuple[Stamp, Run | str]] = {}
_lock = threading.Lock()


def _read(path: Path) -> Run:
    """The run in a file, or the RunError that it cannot be read; of each file what was found last is remembered."""
    stamp = _stamp(path)
    with _lock:
        known, found = _remembered.get(path, (None, ""))
    if stamp is None or known != stamp:
        found = _found(path)
        with _lock:
            _remembered.pop(path, None)
            if stamp is not None:
                _remembered[path] = (stamp, found)
            if len(_remembered) > MAX_REMEMBERED:
                del _remembered[next(iter(_remembered))]
    if isinstance(found, str):
        raise RunError(found)
    return found


def _found(path: Path) -> Run | str:
    try:
        return read_run_file(path)
    except RunError as error:
        return str(error)


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
