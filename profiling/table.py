"""The table that everyone reads: joins a run's replicates into one row per workload × contender, and exports it."""

from __future__ import annotations

import contextlib
import csv
import gc
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from profiling.columns import ENVIRONMENT_COLUMNS, REPORT_COLUMNS, names
from profiling.joining import join
from profiling.measured_rows import read_measurements, read_samples
from profiling.output_files import require_no_own_file, write_named
from profiling.repeat import repeat_commands
from profiling.roofline import with_roofline
from profiling.runs import REPORT_FILE, Run, read_run
from profiling.safe_files import write_aside
from profiling.typed_columns import constant, typed
from profiling.wording import is_formula


def load_run(path: str | Path) -> pd.DataFrame:
    """The run in folder `path`: one row per workload × contender, replicates joined, true dtypes, missing as NA.

    Columns are those of `profiling.columns.REPORT_COLUMNS`. A workload that some replicates could not measure keeps
    the numbers of those that could, and says so in `warnings`.

    Raises:
        RunError: the folder holds no run, or one that this version cannot read.
    """
    return load_table(path)[0]


def load_table(path: str | Path) -> tuple[pd.DataFrame, list[str]]:
    """The same, and what of the run's files could not be read, in sentences: the table is what is left."""
    with _no_collection():
        return _load(Path(path))


def _load(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    run = read_run(folder)
    rows, problems = read_measurements(folder)
    num_compared = sum(run.settings.reference_of(name) is not None for name in run.settings.contenders)
    table = join(rows, num_compared)
    order = {contender: position for position, contender in enumerate(run.settings.contenders)}
    place = table["contender"].map(order).fillna(len(order))
    table = table.assign(_order=place).sort_values(["point", "_order"], kind="stable", ignore_index=True)
    kinds = {column.name: column.kind for column in ENVIRONMENT_COLUMNS}
    for name, value in environment_cells(run).items():
        table[name] = constant(value, len(table), kinds[name])
    table = with_roofline(table, run.environment)
    table["repeat_command"] = typed(repeat_commands(table, run.settings), "text")
    return table[names(REPORT_COLUMNS)], problems


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's garbage collector: it would look again and again at a million cells that all stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def load_measurements(path: str | Path) -> pd.DataFrame:
    """The rows as measured: one per replicate × workload × contender, true dtypes; a row without its place is none."""
    return read_measurements(Path(path))[0]


def load_samples(path: str | Path) -> pd.DataFrame:
    """The raw samples of a run: one row per replicate × workload × contender × round."""
    return read_samples(Path(path))


def report_csv(table: pd.DataFrame) -> str:
    """The table as CSV text: units in the names, full precision, and no text that a spreadsheet takes for a formula."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.columns)
    cells = [_csv_cells(table[name]) for name in table.columns]
    writer.writerows(zip(*cells, strict=True))
    return stream.getvalue()


def _csv_cells(column: pd.Series[Any]) -> list[Any]:
    values = column.astype(object).where(column.notna(), "").tolist()
    if column.dtype != "string":
        return values
    safe = {text: without_formula(text) for text in set(values)}
    return [safe[text] for text in values]


def without_formula(text: str) -> str:
    """A text on one line that a spreadsheet leaves a text."""
    line = " ".join(text.splitlines()) if len(text.splitlines()) > 1 else text.rstrip("\r\n")
    return "'" + line if is_formula(line) else line


def write_report(path: str | Path, out: Path | None = None) -> Path:
    """Writes a run's table as CSV, to `report.csv` in its folder unless told otherwise, and returns where.

    Raises:
        RunError: the run cannot be read, or the report cannot be written.
    """
    return write_table(path, out)[0]


def write_table(path: str | Path, out: Path | None = None) -> tuple[Path, list[str]]:
    """The same, and what of the run's files could not be read, in sentences: the report is of what is left."""
    if out is not None:
        require_no_own_file(out, Path(path), but=REPORT_FILE)
    table, problems = load_table(path)
    if out is None:
        out = Path(path) / REPORT_FILE
        write_aside(out, report_csv(table))
    else:
        write_named(out, report_csv(table))
    return out, problems


def environment_cells(run: Run) -> dict[str, str | None]:
    """The environment of a run as the cells that each row of its table carries."""
    said = {column.name: run.environment.get(column.name) for column in ENVIRONMENT_COLUMNS}
    # Asked for is not had: only glibc's allocator can be told to keep what is freed.
    heap = "as-is" if run.environment.get("heap_pinned") is False else run.settings.heap
    said |= {"heap": heap, "time_budget_s": run.settings.time_budget_s}
    return {name: None if value is None else str(value) for name, value in said.items()}
