"""The raw samples of one point, out of a file that may hold millions and grow: only its own lines are read."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from profiling.columns import SAMPLE_COLUMNS, names
from profiling.runs import SAMPLES_FILE, RunError

# The cells of a line that say where it belongs: run_id, maybe quoted, replicate, point.
_PLACE = re.compile(rb'^(?:"(?:[^"]|"")*"|[^",]*),(\d+),(\d+),')

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
        read = pd.read_csv(io.BytesIO(text), on_bad_lines="skip", encoding_errors="replace", dtype="string")
        return _typed(read)

    def _forget(self) -> None:
        self._header = b""
        self._identity: tuple[int, int] = (0, 0)
        self._end = 0
        self._spans: dict[int, list[Span]] = {}

    def _look(self) -> None:
        """Goes over the lines that came since the last look; all of them where the file is another one."""
        with self._path.open("rb") as stream:
            found = os.fstat(stream.fileno())
            if (found.st_dev, found.st_ino) != self._identity or found.st_size < self._end:
                self._forget()
                self._identity = (found.st_dev, found.st_ino)
                self._header = stream.readline()
                self._require_header()
                self._end = len(self._header)
            stream.seek(self._end, os.SEEK_SET)
            self._note(stream)

    def _require_header(self) -> None:
        there = self._header.decode("utf-8-sig", errors="replace").strip().split(",")
        if self._header and there[: len(SAMPLE_COLUMNS)] != names(SAMPLE_COLUMNS):
            self._forget()
            raise RunError(f"{self._path} is not a table as this program writes it: its columns are {', '.join(there)}")

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
        return b"".join(parts)


def _typed(read: pd.DataFrame) -> pd.DataFrame:
    """The samples with numbers as numbers; a row that lacks one of them, or holds no time, is none."""
    table = pd.DataFrame({"contender": read["contender"].astype("string")})
    for name in ("replicate", "round", "latency_ms"):
        table[name] = pd.to_numeric(read[name], errors="coerce").astype("Float64")
    table = table.dropna()
    table = table[(table["latency_ms"] > 0) & (table["latency_ms"] < float("inf"))]
    whole = table.astype({"replicate": "int64", "round": "int64", "latency_ms": "float64"})
    return whole.sort_values(["replicate", "round"], kind="stable").reset_index(drop=True)
