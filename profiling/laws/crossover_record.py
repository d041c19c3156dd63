"""The record of a search for a crossover: what was asked, how far it came, and the answer so far, in one small file.

It lies in the search's folder, `results/<id>-crossover/crossover.json`, beside the steps, each a run: `step-1`,
`step-2`, …. It is written aside and renamed after every step, so that a kill costs the step in flight and no more. A
folder without `run.json` is no run: no list of runs shows a search, or its steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiling.host import host_mark
from profiling.runs import RunError, is_measured, now, own_start
from profiling.safe_files import write_aside
from profiling.strict_json import finite

RECORD_FILE = "crossover.json"
ENDING = "-crossover"
VERSION = 1
RUNNING, STOPPED, FINISHED = "running", "stopped", "finished"
# Of a search of 16 sizes a few thousand are written.
MAX_RECORD_BYTES = 2**20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """One size of an answer: which sign it has, and the first contender's speed-up over the second, with its interval.

    None where a number is not known.
    """

    size: int
    sign: str
    replicates: int
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    lost: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What `crossover.json` says. Times are ISO 8601 in UTC.

    Attributes:
        first, second, axis: what was asked.
        asked: the plan and the options, as they were given.
        fixed: what stayed the same at all sizes, by name, as `CrossoverQuestion.fixed` has it.
        places: contender → where it lies, for each layer of one's own.
        sources: contender → the hash of its source as the search began, for the same.
        state: `running`, `stopped` or `finished`; `state_reason` says why it was stopped.
        device_name: what the device calls itself; empty before the first step has told.
        answer: as `crossover_dict` gives it; empty before the first step has ended.
        folder: where the record lies.
    """

    first: str
    second: str
    axis: str
    asked: Mapping[str, Any]
    fixed: Mapping[str, Any]
    places: Mapping[str, str]
    sources: Mapping[str, str]
    state: str
    state_reason: str
    started_at: str
    updated_at: str
    pid: int
    process_started: float
    host: str
    device_name: str = ""
    torch_version: str = ""
    answer: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    folder: Path = Path()

    @property
    def pair(self) -> tuple[str, str]:
        """The two contenders, each by what it is: a layer of one's own by where it lies."""
        return self.places.get(self.first, self.first), self.places.get(self.second, self.second)

    @property
    def words(self) -> tuple[str, ...]:
        """The answer in sentences."""
        return tuple(map(str, self.answer.get("words", ())))

    @property
    def sizes(self) -> tuple[Size, ...]:
        """What is known, by size."""
        return tuple(Size(**each) for each in self.answer.get("probes", ()))

    @property
    def is_told(self) -> bool:
        """Whether something was measured at all."""
        return any(each.ratio is not None for each in self.sizes)


class RecordWriter:
    """Writes the record of a search that runs in this process; every call leaves the file whole.

    Raises:
        RunError: it cannot be written.
    """

    def __init__(self, folder: Path, **asked: Any) -> None:
        self.record = Record(
            **asked,
            state=RUNNING,
            state_reason="",
            started_at=now(),
            updated_at=now(),
            pid=os.getpid(),
            process_started=own_start(),
            host=host_mark(),
            folder=folder,
        )
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise RunError(f"{folder} cannot be made: {error.strerror or error}") from error
        try:
            self.update()
        except RunError:  # a full disk: a folder that holds nothing is of use to nobody
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise

    def update(self, **changes: Any) -> None:
        """Changes fields of the record."""
        self.record = dataclasses.replace(self.record, **changes, updated_at=now())
        values = {**dataclasses.asdict(self.record), "schema_version": VERSION}
        del values["folder"]
        text = json.dumps(finite(values), indent=1, ensure_ascii=False, default=str)
        write_aside(self.record.folder / RECORD_FILE, text + "\n")


def read_record(folder: Path) -> Record:
    """The record in a search's folder. One that claims to be running while its process is gone is told as stopped.

    Raises:
        RunError: there is none, or none that this version can read.
    """
    path = folder / RECORD_FILE
    try:
        if not path.is_file() or path.stat().st_size > MAX_RECORD_BYTES:
            raise RunError(f"{folder} holds no {RECORD_FILE} as this program writes it")
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("schema_version") != VERSION:
            raise RunError(f"{path} was written by another version of this program")
        record = _checked(Record(**values, folder=folder))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    return as_it_is(record)


def as_it_is(record: Record) -> Record:
    """The record, told as stopped where it claims to be running and nothing measures for it any more."""
    is_alive = is_measured(
        host=record.host, pid=record.pid, process_started=record.process_started, updated_at=record.updated_at
    )
    if record.state != RUNNING or is_alive:
        return record
    return dataclasses.replace(record, state=STOPPED, state_reason="its process ended without a word")


def _checked(record: Record) -> Record:
    """The record, where it is of the kinds that are written: whatever else lies there is shown to nobody.

    Raises:
        TypeError, ValueError: it is not.
    """
    texts = ("first", "second", "axis", "state", "state_reason", "started_at", "updated_at", "host")
    if not all(isinstance(getattr(record, name), str) for name in (*texts, "device_name", "torch_version")):
        raise TypeError("a text is none")
    if not all(isinstance(getattr(record, name), dict) for name in ("asked", "fixed", "places", "sources", "answer")):
        raise TypeError("an object is none")
    if record.state not in (RUNNING, STOPPED, FINISHED) or type(record.pid) is not int:
        raise ValueError("no such state or process")
    if type(record.process_started) not in (int, float):
        raise TypeError("no time at which a process can have begun")
    if not all(isinstance(value, str) for value in (*record.places.values(), *record.sources.values())):
        raise TypeError("a place or a hash is none")
    words = record.answer.get("words", [])
    if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
        raise TypeError("the words of the answer are none")
    if record.sizes and not words:
        raise ValueError("an answer has no words")
    for each in record.sizes:
        numbers = (each.ratio, each.ratio_low, each.ratio_high)
        is_number = all(value is None or (type(value) is float and 0 < value < math.inf) for value in numbers)
        if type(each.size) is not int or each.size < 1 or type(each.replicates) is not int or not is_number:
            raise ValueError("a size is none")
    return record
