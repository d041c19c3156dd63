"""The raw samples of one point, out of a file that may hold millions and grow: only its own lines are read."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import pandas as pd

from profiling.columns import SAMPLE_COLUMNS, names
from profiling.runs import SAMPLES_FILE, RunError
from profiling.wording import cut_middle

# The cells of a line that say where it belongs: run_id, maybe quoted, replicate, point.
_PLACE = re.compile(rb'^(?:"(?:[^"]|"")*"|[^",]*),(\d{1,18}),(\d{1,18}),')
# Of the end of what was looked at: where it is another one, someone has edited the file.
_TAIL = 256
# A replicate or a round beyond it was not measured; it would only be no number to reckon with.
_MOST = 10**9

Span = tuple[int, int]


class SampleFile:
    """Where the lines of each point lie in a run's samples; each is looked at once, however often the file grows."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SAMPLES_FILE
        self._lock = threading.Lock()
        self._forget()

    def of_point(self, point: int) -> pd.DataFrame:
        """The samples of a point as measured: replicate, contender, round and `latency_ms`; no rows where it has none.

        Raises:
            RunError: the file cannot be read, or is not one that a sweep writes.
        """
        with self._lock:
            try:
                self._look()
                text = self._read(point)
            except FileNotFoundError:
                return _typed(pd.DataFrame(columns=names(SAMPLE_COLUMNS)))
            except OSError as error:
                raise RunError(f"{self._path} cannot be read: {error}") from error
        # A row is one line, whatever damage has put into it.
        read = pd.read_csv(
            io.BytesIO(text), on_bad_lines="skip", encoding_errors="replace", dtype="string", lineterminator="\n"
        )
        return _typed(read[read["point"] == str(point)])

    def _forget(self) -> None:
        self._header = b""
        self._identity: tuple[int, int] = (0, 0)
        self._end = 0
        self._tail = b""
        self._spans: dict[int, list[Span]] = {}

    def _look(self) -> None:
        """Goes over the lines that came since the last look; all of them where the file is another one."""
        if not stat.S_ISREG(self._path.stat().st_mode):  # a pipe would be waited for
            raise OSError("it is no file")
        with self._path.open("rb") as stream:
            found = os.fstat(stream.fileno())
            if (found.st_dev, found.st_ino) != self._identity or self._tail_of(stream) != self._tail:
                self._forget()
                self._identity = (found.st_dev, found.st_ino)
                stream.seek(0, os.SEEK_SET)
                self._header = stream.readline()
                self._require_header()
                self._end = len(self._header)
            stream.seek(self._end, os.SEEK_SET)
            self._note(stream)
            self._tail = self._tail_of(stream)

    def _tail_of(self, stream: BinaryIO) -> bytes:
        """What stands before the place where the last look ended."""
        start = max(0, self._end - _TAIL)
        stream.seek(start, os.SEEK_SET)
        return stream.read(self._end - start)

    def _require_header(self) -> None:
        there = self._header.decode("utf-8-sig", errors="replace").strip().split(",")
        if self._header and there[: len(SAMPLE_COLUMNS)] != names(SAMPLE_COLUMNS):
            self._forget()
            columns = cut_middle(", ".join(there), 200)
            raise RunError(f"{self._path} is not a table as this program writes it: its columns are {columns}")

    def _note(self, lines: Iterable[bytes]) -> None:
        """Adds lines that begin where the last ended: as a rule they belong where the one before did."""
        prefix, point, start = b"", None, self._end
        for line in lines:
            if not line.endswith(b"\n"):  # still being written
                break
            if not (prefix and line.startswith(prefix)):
                self._add(point, start)
                place = _PLACE.match(line)
                prefix, point, start = (place[0], int(place[2]), self._end) if place else (b"", None, self._end)
            self._end += len(line)
        self._add(point, start)

    def _add(self, point: int | None, start: int) -> None:
        if point is None or start == self._end:
            return
        spans = self._spans.setdefault(point, [])
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], self._end)
        else:
            spans.append((start, self._end))

    def _read(self, point: int) -> bytes:
        parts = [self._header or ",".join(names(SAMPLE_COLUMNS)).encode() + b"\n"]
        with self._path.open("rb") as stream:
            for start, end in self._spans.get(point, ()):
                stream.seek(start)
                parts.append(stream.read(end - start))
        text = b"".join(parts).replace(b"\r\n", b"\n")
        return b"\n".join(filter(_is_whole, text.split(b"\n"))) if b'"' in text else text


def _typed(read: pd.DataFrame) -> pd.DataFrame:
    """The samples with numbers as numbers; a row that lacks one of them, or holds no time, is none."""
    table = pd.DataFrame({"contender": read["contender"].astype("string")})
    for name in ("replicate", "round", "latency_ms"):
        table[name] = pd.to_numeric(read[name], errors="coerce").astype("Float64")
    table = table.dropna()
    table = table[(table["latency_ms"] > 0) & (table["latency_ms"] < float("inf"))]
    for name in ("replicate", "round"):
        table = table[table[name].between(1, _MOST) & (table[name] % 1 == 0)]
    table = table.drop_duplicates(["replicate", "contender", "round"])  # a sample counts once: the first of it
    whole = table.astype({"replicate": "int64", "round": "int64", "latency_ms": "float64"})
    return whole.sort_values(["replicate", "round"], kind="stable").reset_index(drop=True)


def _is_whole(line: bytes) -> bool:
    """Whether every quotation in a line ends in it."""
    if b'"' not in line:
        return True
    try:
        return sum(1 for _ in csv.reader([line.decode(errors="replace")], strict=True)) == 1
    except (csv.Error, ValueError):
        return False
