"""The searches for crossovers in a results folder, and which of them answers a question."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from profiling.host import host_mark
from profiling.laws.crossover_question import CrossoverQuestion
from profiling.laws.crossover_record import ENDING, FINISHED, RECORD_FILE, RUNNING, Record, as_it_is, read_record
from profiling.layers import COMPILED, find_layer, is_compiled, is_layer
from profiling.runs import RunError, results_dir


def list_records(results: Path | None = None) -> tuple[Record, ...]:
    """All searches in a results folder, `results_dir()` unless told otherwise, that can be read; the newest first."""
    found = []
    for folder in _folders(results or results_dir()):
        try:
            stamp = (folder / RECORD_FILE).stat()
            found.append(as_it_is(_read(folder, stamp.st_ino, stamp.st_size, stamp.st_mtime_ns)))
        except (OSError, RunError):  # a search that has just begun, or one of an earlier version
            continue
    return tuple(sorted(found, key=lambda record: record.started_at, reverse=True))


def answer_to(question: CrossoverQuestion, records: tuple[Record, ...]) -> Record | None:
    """The newest search that came to its end with these two, along this axis, all else equal.

    One between these very sizes comes before those between others. Where none has come to its end, one that knows
    something; None where nothing is known.

    Args:
        question: whose two contenders may stand in either order.
        records: the newest first.
    """
    alike = [record for record in records if record.is_told and _asks(record, question)]
    ended = [record for record in alike if record.state == FINISHED] or alike
    same = [record for record in ended if _ends_of(record) == (question.low, question.high)]
    return next(iter(same or ended), None)


def running_search(records: tuple[Record, ...], pid: int) -> Record | None:
    """The search that this process runs; None before its folder is there."""
    here = host_mark()
    mine = (record for record in records if (record.pid, record.host, record.state) == (pid, here, RUNNING))
    return next(mine, None)


def steps_of(record: Record) -> list[Path]:
    """The folders of a search's steps, in their order; the last one is in flight while the search runs."""
    found = [folder for folder in record.folder.glob("step-*") if folder.name.removeprefix("step-").isdecimal()]
    return sorted(found, key=lambda folder: int(folder.name.removeprefix("step-")))


def place_of(contender: str) -> str:
    """What a contender is, from whichever folder it is named: a layer of one's own by where it lies.

    Raises:
        GridError: its file is not there.
    """
    if not is_layer(contender):
        return contender
    return (COMPILED if is_compiled(contender) else "") + find_layer(contender).spec


def _asks(record: Record, question: CrossoverQuestion) -> bool:
    pair = {place_of(question.first), place_of(question.second)}
    return record.axis == question.axis and set(record.pair) == pair and dict(record.fixed) == question.fixed


def _ends_of(record: Record) -> tuple[object, object]:
    """Between which sizes was searched."""
    return record.asked.get("low"), record.asked.get("high")


def _folders(results: Path) -> list[Path]:
    try:
        with os.scandir(results) as entries:
            return [Path(entry.path) for entry in entries if entry.name.endswith(ENDING)]
    except (OSError, ValueError):
        return []


@functools.lru_cache(maxsize=1024)
def _read(folder: Path, inode: int, size: int, changed_ns: int) -> Record:
    """A record as its file says, read once until that changes."""
    return read_record(folder)
