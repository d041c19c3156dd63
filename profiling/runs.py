"""The run folder, the only channel between a sweep and its readers, as a reader sees it.

`run.json` says what was asked for and how far it has come, `measurements.csv` holds a row per replicate × workload ×
contender, `samples.csv` the raw times behind them. `run_writer` writes them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from profiling.columns import READABLE_VERSIONS, SCHEMA_VERSION, Column, names
from profiling.csv_rows import CsvRows, NotThisTable
from profiling.host import host_mark
from profiling.quoted import quoted
from profiling.run_fields import require_fields, require_shallow, without_broken_letters
from profiling.run_names import folders_named
from profiling.settings import SweepSettings
from profiling.workload import Grid, GridError

RESULTS_DIR = Path(__file__).resolve().parent.parent / "results"
RUN_ID_PATTERN = re.compile(r"[0-9A-Za-z_-]{1,100}")

RUN_FILE = "run.json"
MEASUREMENTS_FILE = "measurements.csv"
SAMPLES_FILE = "samples.csv"
REPORT_FILE = "report.csv"

# One with the longest grid, a thousand layers and years of resumptions is a few.
MAX_RUN_FILE_BYTES = 64 * 2**20

# How long a run that another machine writes may be silent before it counts as ended: longer than most workloads take.
ELSEWHERE_PATIENCE_S = 3600.0


class RunError(Exception):
    """A run folder that cannot be read, written or resumed; the message says which and why."""


class NoRunError(RunError):
    """What was named is no run, or is more than one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a sweep has come. A step is one workload of one replicate; `label` names the one in flight."""

    done: int = 0
    total: int = 0
    replicate: int = 1
    label: str = ""
    seconds_left: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What `run.json` says of a run. Times are ISO 8601 in UTC."""

    run_id: str
    state: str
    state_reason: str
    started_at: str
    updated_at: str
    ended_at: str | None
    grid: Grid
    settings: SweepSettings
    device: str
    threads: int
    environment: dict[str, Any]
    sources: dict[str, str]
    progress: Progress
    pid: int
    process_started: float
    host: str = ""
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return {**dataclasses.asdict(self), "grid": self.grid.to_dict(), "settings": self.settings.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """The run that `values` describes; what breaks a rule raises GridError or TypeError."""
        require_fields(values)
        known = {field.name for field in dataclasses.fields(cls)}
        fields = {name: value for name, value in values.items() if name in known}
        fields["grid"] = Grid.from_dict(values["grid"])
        fields["settings"] = SweepSettings.from_dict(values["settings"])
        fields["progress"] = Progress(**values["progress"])
        fields["environment"] = without_broken_letters(values["environment"])
        return cls(**fields)


def results_dir() -> Path:
    """The folder that holds the runs: `MHA_BENCH_RESULTS` where it is set, else `results/`.

    That is the one in the checkout; where the program was installed without one, that in the working folder.
    """
    override = os.environ.get("MHA_BENCH_RESULTS")
    if override:
        return Path(override)
    return RESULTS_DIR if RESULTS_DIR.is_dir() else Path.cwd() / "results"


def new_run_id() -> str:
    """A folder name that sorts by time and that no two sweeps share."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def now() -> str:
    """This moment, ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_run(folder: Path) -> Run:
    """Reads `run.json`. A run that claims to be running while its process is gone is told as stopped.

    Raises:
        RunError: the folder holds no run, or one that this version cannot read; the message says why.
    """
    return as_it_is(read_run_file(folder / RUN_FILE))


def read_run_file(path: Path) -> Run:
    """What `run.json` says, whether or not its process still lives.

    Raises:
        RunError: there is none, or one that this version cannot read; the message says why.
    """
    try:
        values = json.loads(_text_of(path))
    except FileNotFoundError:
        raise NoRunError(f"{path.parent} holds no run: there is no {path.name} in it") from None
    except (OSError, ValueError, RecursionError) as error:  # unreadable, no text, no JSON, or JSON beyond all measure
        raise RunError(f"{path} cannot be read: {error}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if type(version) is int and version > SCHEMA_VERSION:
        later = f"a later version of this program (schema version {quoted(version)})"
        raise RunError(f"{path} was written by {later}: update it to read this run")
    if type(version) is not int or version not in READABLE_VERSIONS:
        readable = " and ".join(map(str, READABLE_VERSIONS))
        raise RunError(f"{path} has schema version {quoted(version)}; this program reads versions {readable}")
    try:
        require_shallow(values)
        return Run.from_dict(values)
    except (TypeError, GridError) as error:
        raise RunError(f"{path} is not a run as this program writes it: {error}") from error


def as_it_is(run: Run) -> Run:
    """The run, told as stopped where it claims to be running and nothing measures it any more."""
    if run.state == "running" and not _is_going_on(run):
        return dataclasses.replace(
            run, state="stopped", state_reason="its process ended without a word; `--resume` measures what is missing"
        )
    return run


def _text_of(path: Path) -> str:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
        raise OSError("it is no file")
    if found.st_size > MAX_RUN_FILE_BYTES:
        raise OSError(f"it is larger than any {RUN_FILE}: {found.st_size:,} bytes")
    return path.read_text(encoding="utf-8")


def is_here(run: Run) -> bool:
    """Whether the run's process is, or was, on this machine."""
    return run.host in ("", host_mark())


def _is_going_on(run: Run) -> bool:
    return is_measured(host=run.host, pid=run.pid, process_started=run.process_started, updated_at=run.updated_at)


def is_measured(*, host: str, pid: int, process_started: float, updated_at: str) -> bool:
    """Whether the process that wrote this of itself still measures; on another machine, whether it wrote lately."""
    if host in ("", host_mark()):
        return is_alive(pid, process_started)
    # Over a network share there is only what it wrote: it writes at each workload.
    try:
        silent_s = (datetime.now(UTC) - datetime.fromisoformat(updated_at)).total_seconds()
    except (ValueError, TypeError):
        return False
    return silent_s < ELSEWHERE_PATIENCE_S


def own_start() -> float:
    """When this process began, in seconds since 1970; 0 where the system does not tell."""
    try:
        return float(psutil.Process().create_time())
    except (psutil.Error, OSError):  # no /proc, or none that may be read
        return 0.0


def is_alive(pid: int, process_started: float) -> bool:
    """Whether that very process (not a later one with its number) still runs."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - process_started) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):  # a number that no process has
        return False


def find_run_folder(run_id: str, results: Path | None = None) -> Path:
    """The folder of a run inside `results`, or inside `results_dir()`, by its id or by the name it was given.

    Raises:
        NoRunError: there is no such folder, or more than one run has that name.
    """
    results = results or results_dir()
    # Not Path.is_dir, which raises where a folder above must not be looked into.
    if not RUN_ID_PATTERN.fullmatch(run_id) or not os.path.isdir(results / run_id):
        run_id = _id_of_name(run_id, results)
    folder = results / run_id
    if not os.path.isdir(folder) or folder.resolve().parent != results.resolve():
        raise NoRunError(f"there is no run {run_id} in {results}")
    return folder


def run_folder(given: str | Path, results: Path | None = None) -> Path:
    """The folder of a run as a person names one: that folder, or the id or the name of one inside `results`.

    Raises:
        NoRunError: there is none, or more than one.
    """
    # Not Path.is_dir, which raises where a name is too long, or a folder above must not be looked into.
    if os.path.isdir(given):
        return Path(given)
    if os.sep in str(given):
        raise NoRunError(f"there is no folder {given}")
    return find_run_folder(str(given), results)


def _id_of_name(name: str, results: Path) -> str:
    """The id of the run that is called so; the text itself where there is none and it can be an id."""
    ids = [folder.name for folder in folders_named(name, results) if RUN_ID_PATTERN.fullmatch(folder.name)]
    if len(ids) > 1:
        raise NoRunError(f"{len(ids)} runs are called {quoted(name)}: give the id of one, such as {ids[0]} or {ids[1]}")
    if not ids and not RUN_ID_PATTERN.fullmatch(name):
        raise NoRunError(
            f"run id must consist of letters, digits, - and _, not {quoted(name)}, and no run has that for a name"
        )
    return ids[0] if ids else name


def read_rows(path: Path, columns: tuple[Column, ...]) -> list[dict[str, str]]:
    """The complete rows of a CSV file as text; a torn last line (a power cut) is left out, a missing file is empty."""
    return [dict(zip(names(columns), row, strict=True)) for row in open_rows(path, columns) or ()]


def open_rows(path: Path, columns: tuple[Column, ...]) -> CsvRows | None:
    """A CSV file of a run to be walked over; None where there is none.

    Raises:
        RunError: it cannot be read, or is another table.
    """
    try:
        return CsvRows(path, columns)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    except NotThisTable as error:  # better refused than taken for empty: a resumed sweep would measure it all again
        raise RunError(f"{path} is not a table as this program writes it: {error}") from error


def step_of(row: Mapping[str, str]) -> tuple[int, int] | None:
    """The (replicate, point) that a row belongs to, or None where its cells are no numbers."""
    try:
        return int(row["replicate"]), int(row["point"])
    except ValueError:
        return None
