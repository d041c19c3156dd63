"""Writes a run folder: every call leaves it readable and on the disk.

`run.json` is written aside and renamed, so a reader never sees half of it. Rows are appended and flushed as they are
measured, so that whatever happens later, what was measured is there.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from profiling.columns import MEASUREMENT_COLUMNS, SAMPLE_COLUMNS, Column, names
from profiling.runs import MEASUREMENTS_FILE, RUN_FILE, SAMPLES_FILE, Run, RunError, now, read_rows, step_of


class RunWriter:
    """Writes one run folder. Every call leaves the folder readable and on the disk.

    Raises:
        RunError: the folder cannot be written; the message says why.
    """

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder = folder
        self.run = run
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{folder} cannot be made: {error}") from error
        self.update()

    def update(self, **changes: Any) -> None:
        """Changes fields of `run.json`: written aside, then renamed over the old one."""
        self.run = dataclasses.replace(self.run, **changes, updated_at=now())
        write_aside(self.folder / RUN_FILE, json.dumps(self.run.to_dict(), indent=1, ensure_ascii=False) + "\n")

    def append_samples(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends raw samples. Called before the measurements they belong to, so that no row lacks its evidence."""
        self._append(SAMPLES_FILE, SAMPLE_COLUMNS, rows)

    def append_measurements(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends the rows of one workload in one write; a reader leaves out what a cut has torn."""
        self._append(MEASUREMENTS_FILE, MEASUREMENT_COLUMNS, rows)

    def _append(self, file: str, columns: tuple[Column, ...], rows: Iterable[Mapping[str, Any]]) -> None:
        path = self.folder / file
        try:
            with path.open("ab") as stream:
                header = stream.tell() == 0
                # What a layer says when it raises may hold what is no text; it must not cost the sweep.
                stream.write(to_csv(columns, rows, header=header).encode("utf-8", errors="backslashreplace"))
                stream.flush()
                os.fsync(stream.fileno())  # a full disk shows here, not at write
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error}") from error

    def keep_only(self, keep: set[tuple[int, int]]) -> None:
        """Drops the rows of every (replicate, point) not in `keep`: the torn tail that a resumed sweep repeats."""
        for file, columns in ((MEASUREMENTS_FILE, MEASUREMENT_COLUMNS), (SAMPLES_FILE, SAMPLE_COLUMNS)):
            path = self.folder / file
            if path.exists():
                rows = read_rows(path, columns)
                kept = [row for row in rows if step_of(row) in keep]
                # A file of which all is kept stays as it is, with whatever someone has added to it.
                if len(kept) < len(rows) or not path.read_bytes().endswith(b"\n"):
                    write_aside(path, to_csv(columns, kept, header=True))


def to_csv(columns: tuple[Column, ...], rows: Iterable[Mapping[str, Any]], *, header: bool) -> str:
    """Rows as CSV text: full precision, a decimal point, an empty cell for None, and one line per row."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow(names(columns))
    for row in rows:
        writer.writerow([_cell(row.get(column.name)) for column in columns])
    return stream.getvalue()


def write_aside(path: Path, text: str) -> None:
    """Replaces a file in one step: a reader sees the old or the new one, never half.

    Raises:
        RunError: the file cannot be written; the old one stands.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # a file system that takes no writing takes no tidying up either
            aside.unlink(missing_ok=True)
        raise RunError(f"{path} cannot be written: {error}") from error


def _cell(value: object) -> object:
    # One line per row: a reader of a file that grows finds its complete rows by the line ends alone.
    return "" if value is None else " ".join(value.split()) if isinstance(value, str) else value
