"""Reads the CSV files of a run line by line: what is whole is given, what is not is named, and nothing else is lost."""

from __future__ import annotations

import codecs
import csv
import stat
from collections.abc import Iterator
from pathlib import Path

from profiling.columns import Column, names


class NotThisTable(Exception):
    """The file's header is not that of the table; the message says what is wrong with it."""


class CsvRows:
    """The whole rows of a file, each as its cells in the order of `columns`; a cell it lacks is empty.

    A row is one line: so a mark of quotation that damage has left open costs that line and not those behind it. What
    stands after the last line end is still being written, or was torn by a power cut, and is no row.

    Args:
        path: the file.
        columns: what is wanted of it; others in the file are passed over.

    Attributes:
        text: the file as bytes, its lines each ended by a line feed.
        header: the names in its first line.
        damaged: the numbers of the lines that are no row, from 1 for the header; full only after a walk over all rows.

    Raises:
        FileNotFoundError: there is no file.
        OSError: it cannot be read.
        NotThisTable: a column that every version of the table has is missing.
    """

    def __init__(self, path: Path, columns: tuple[Column, ...]) -> None:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
            raise OSError("it is no file")
        data = path.read_bytes()
        # Some spreadsheets put a mark before the first letter.
        self.text = data[: data.rfind(b"\n") + 1].removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
        first = self.text[: self.text.find(b"\n")].decode(errors="replace")
        self.header = header = (_cells(first) or []) if self.text else names(columns)
        missing = [column.name for column in columns if column.name not in header and column.since == 1]
        if missing:
            raise NotThisTable(f"it has no column {missing[0]}")
        self._widths = {len(header)}
        if header[: len(columns)] == names(columns):  # to what someone has added, a sweep that goes on adds nothing
            self._widths.add(len(columns))
        self._places = [header.index(column.name) if column.name in header else None for column in columns]
        self.damaged: list[int] = []

    def __iter__(self) -> Iterator[list[str]]:
        self.damaged = []
        in_order = self._places == list(range(len(self._places)))
        lines = self.text.decode(errors="replace").split("\n")[1:-1]
        for number, line in enumerate(lines, start=2):
            if not line:
                continue
            cells = _cells(line)
            if cells is None or len(cells) not in self._widths:
                self.damaged.append(number)
            else:
                yield (
                    cells[: len(self._places)]
                    if in_order
                    else ["" if place is None else cells[place] for place in self._places]
                )


def _cells(line: str) -> list[str] | None:
    """The cells of one line; None where its quotation is broken."""
    if '"' not in line:  # nearly all of them: ten times as quick
        return line.split(",")
    try:
        (cells,) = csv.reader([line], strict=True)
    except (csv.Error, ValueError):
        return None
    return cells
