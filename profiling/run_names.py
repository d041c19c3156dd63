"""The name and the note that a person has given a run, read from a small file of their own in its folder.

They are never in `run.json`, which the sweep writes. `run_notes` writes them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path
from typing import Any

from profiling.quoted import quoted

NOTES_FILE = "notes.json"
MAX_NAME = 80
MAX_NOTE = 2_000
# Both at their longest, with every letter escaped, take a quarter of it.
_MAX_BYTES = 2**16


@dataclasses.dataclass(frozen=True)
class Notes:
    """What a person says of a run.

    Attributes:
        name: what it is called, one line; None where it has no name.
        note: a text of some lines; None where there is none.
        problem: why what the file holds could not be read, in a sentence; None where it could.
    """

    name: str | None = None
    note: str | None = None
    problem: str | None = None


def read_notes(folder: Path) -> Notes:
    """Name and note of the run in a folder; what is damaged is none, and told in `problem`."""
    path = folder / NOTES_FILE
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, and a link may lead anywhere
            return Notes(problem=f"{NOTES_FILE} is no file")
        if found.st_size > _MAX_BYTES:
            return Notes(problem=f"{NOTES_FILE} is larger than any name and note: {found.st_size:,} bytes")
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Notes()
    except (OSError, ValueError, RecursionError) as error:
        return Notes(problem=f"{NOTES_FILE} cannot be read: {quoted(str(error))}")
    if not isinstance(values, dict):
        return Notes(problem=f"{NOTES_FILE} holds no name and no note")
    problems = [
        fault
        for name, rule in (("name", name_fault), ("note", note_fault))
        if (fault := _fault(values.get(name), rule))
    ]
    name, note = (
        None if _fault(values.get(field), rule) else values.get(field) or None
        for field, rule in (("name", name_fault), ("note", note_fault))
    )
    return Notes(name, note, f"{NOTES_FILE}: {'; '.join(problems)}" if problems else None)


def name_fault(text: str) -> str | None:
    """Why a text cannot be the name of a run; None where it can."""
    if not text or len(text) > MAX_NAME or text != text.strip():
        return f"name must be a text of 1 to {MAX_NAME} letters without blanks at its ends, not {quoted(text)}"
    if not text.isprintable() or text[0] in "-." or "/" in text or "\\" in text:
        return f"name must be one line that begins with neither - nor . and holds no / and no \\, not {quoted(text)}"
    return None


def note_fault(text: str) -> str | None:
    """Why a text cannot be the note of a run; None where it can."""
    if len(text) > MAX_NOTE:
        return f"note must be a text of at most {MAX_NOTE:,} letters, not of {len(text):,}"
    if not all(letter.isprintable() or letter in "\n\t" for letter in text):
        return f"note must be a text without control characters, not {quoted(text)}"
    return None


def folders_named(name: str, results: Path) -> list[Path]:
    """The folders in `results` whose run is called so, by their own names; links are passed over."""
    if name_fault(name) is not None:
        return []
    try:
        with os.scandir(results) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (OSError, ValueError):
        return []
    return sorted(folder for folder in folders if read_notes(folder).name == name)


def _fault(value: Any, rule: Any) -> str | None:
    if value is None:
        return None
    fault: str | None = rule(value) if isinstance(value, str) else f"{quoted(value)} is no text"
    return fault
