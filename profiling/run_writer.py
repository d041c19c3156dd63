"""Writes a run folder: every call leaves it readable and on the disk.

`run.json` is written aside and renamed, so a reader never sees half of it. Rows are appended and flushed as they are
measured, so that whatever happens later, what was measured is there.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from profiling.columns import MEASUREMENT_COLUMNS, SAMPLE_COLUMNS, Column, names
from profiling.runs import MEASUREMENTS_FILE, RUN_FILE, SAMPLES_FILE, Run, RunError, now, read_rows, step_of
from profiling.safe_files import append_whole, reason_of, remove_left_over, sync_folder, write_aside


class RunWriter:
    """Writes one run folder. Every call leaves the folder readable and on the disk.

    Raises:
        RunError: the folder cannot be written; the message says why.
    """

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder = folder
        self.run = run
        self._lengths: dict[str, int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{folder} cannot be made: {reason_of(error)}") from error
        remove_left_over(folder)
        self.update()
        sync_folder(folder.parent)

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
        path, known = self.folder / file, self._lengths.get(file, 0)

        def text_for(length: int) -> str:
            if length < known:  # nobody but us may shorten it while we write: a run that lacks rows is not finished
                raise RunError(
                    f"{path} was cut or removed by something else while the sweep ran: what it held is lost; "
                    "`--resume` measures the rows that are missing"
                )
            return to_csv(columns, rows, header=length == 0)

        try:
            self._lengths[file] = append_whole(path, text_for)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {reason_of(error)}") from error

    def keep_only(self, keep: set[tuple[int, int]]) -> None:
        """Drops the rows of every (replicate, point) not in `keep`: the torn tail that a resumed sweep repeats."""
        for file, columns in ((MEASUREMENTS_FILE, MEASUREMENT_COLUMNS), (SAMPLES_FILE, SAMPLE_COLUMNS)):
            path = self.folder / file
            rows = read_rows(path, columns)
            kept = [row for row in rows if step_of(row) in keep]
            try:
                # A file of which all is kept stays as it is, with whatever someone has added to it.
                if path.exists() and (len(kept) < len(rows) or not _can_be_appended_to(path, columns)):
                    write_aside(path, to_csv(columns, kept, header=True))
                self._lengths[file] = path.stat().st_size if path.exists() else 0
            except OSError as error:
                raise RunError(f"{path} cannot be gone on with: {reason_of(error)}") from error


def _can_be_appended_to(path: Path, columns: tuple[Column, ...]) -> bool:
    """Whether rows below the last line will be read as they are meant: whole lines, and the columns in our order."""
    text = path.read_bytes()
    header = text[: text.find(b"\n") + 1].decode("utf-8-sig", errors="replace").strip()
    return text.endswith(b"\n") and header.split(",")[: len(columns)] == names(columns)


def to_csv(columns: tuple[Column, ...], rows: Iterable[Mapping[str, Any]], *, header: bool) -> str:
    """Rows as CSV text: full precision, a decimal point, an empty cell for None, and one line per row."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow(names(columns))
    for row in rows:
        writer.writerow([_cell(row.get(column.name)) for column in columns])
    return stream.getvalue()


def _cell(value: object) -> object:
    # One line per row: a reader of a file that grows finds its complete rows by the line ends alone.
    return "" if value is None else " ".join(value.split()) if isinstance(value, str) else value
