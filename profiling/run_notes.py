"""Names a run and notes something on it, for whoever looks for it later."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

from profiling.folder_lock import turn_in
from profiling.quoted import quoted
from profiling.run_names import NOTES_FILE, folders_named, name_fault, note_fault, read_notes
from profiling.runs import RUN_FILE, RunError
from profiling.safe_files import write_aside

# Names are told apart within a results folder, and name and note share a file: so one at a time is written.
MOST_WAIT_S = 5.0


class NoteRefused(RunError):
    """A text that cannot be a run's name or note; the message names the rule and the text."""


def name_run(folder: Path, name: str) -> None:
    """Gives the run in a folder a name, by which it is found as by its id; an empty one takes the name away.

    Of two at once, from two tabs or two programs, one waits for the other, and neither is lost.

    Raises:
        NoteRefused: the text can be no name, or another run beside it has that name or id.
        RunError: there is no run, or the name cannot be written.
    """
    name = name.strip()
    if name:
        _refuse(name_fault(name))
    with turn_in(folder.parent, MOST_WAIT_S):
        if name:
            _require_unique(folder, name)
        _write(folder, name=name)


def note_run(folder: Path, note: str) -> None:
    """Keeps a note with the run in a folder; an empty one takes the note away.

    Raises:
        NoteRefused: the text can be no note.
        RunError: there is no run, or the note cannot be written.
    """
    _refuse(note_fault(note))
    with turn_in(folder.parent, MOST_WAIT_S):
        _write(folder, note=note.strip())


def _require_unique(folder: Path, name: str) -> None:
    others = [each.name for each in folders_named(name, folder.parent) if each.name != folder.name]
    if (folder.parent / name).exists() and name != folder.name:
        others.append(name)
    if others:
        raise NoteRefused(f"name must be that of one run alone, and {quoted(name)} is what {others[0]} is called")


def _write(folder: Path, **changes: str) -> None:
    if not os.path.lexists(folder / RUN_FILE):
        raise RunError(f"{folder} holds no run: there is no {RUN_FILE} in it")
    kept = dataclasses.asdict(dataclasses.replace(read_notes(folder), problem=None)) | changes
    values = {name: kept[name] for name in ("name", "note") if kept[name]}
    write_aside(folder / NOTES_FILE, json.dumps(values, ensure_ascii=False, indent=1) + "\n")


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise NoteRefused(fault)
