"""The table that everyone reads: joins a run's replicates into one row per workload × contender, and exports it."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd

from profiling.columns import (
    ENVIRONMENT_COLUMNS,
    MEASUREMENT_COLUMNS,
    REPORT_COLUMNS,
    SAMPLE_COLUMNS,
    Column,
    names,
)
from profiling.ratios import Joined, join_replicates, speed_verdict
from profiling.repeat import repeat_command_of_row
from profiling.roofline import with_roofline
from profiling.runs import MEASUREMENTS_FILE, REPORT_FILE, RUN_FILE, SAMPLES_FILE, Run, RunError, read_rows, read_run
from profiling.safe_files import write_aside

_DTYPES = {"int": "Int64", "float": "Float64", "bool": "boolean", "text": "string"}

# A spreadsheet takes a text that begins so for a formula; one that is only a number is none.
_FORMULA = re.compile(r"^\s*[=+\-@\t\r]")

# The middle of the replicates; counts are added up, and the rest is told apart below.
_MEDIANS = (
    *("latency_median_ms", "latency_p25_ms", "latency_p75_ms", "latency_p5_ms", "latency_p95_ms"),
    *("throughput_tokens_per_s", "achieved_gflop_per_s", "page_faults_per_call", "clock_mhz", "compile_s"),
)
_SUMS = ("num_samples", "waited_s")
# An error or a peak that was seen once is a fact: the worst replicate speaks.
_WORST = ("peak_memory_mib", "max_abs_error", "max_abs_error_oracle", "error_ratio", "load_start", "load_end")
# Without these a row belongs nowhere: someone has edited the file.
_PLACE = ("replicate", "point", "batch_size", "seq_len", "num_heads", "d_model", "contender", "status")
# Worst first: the verdict of several replicates is that of the worst.
_VERDICTS = ("error", "fail", "not-comparable", "pass")


def load_run(path: str | Path) -> pd.DataFrame:
    """The run in folder `path`: one row per workload × contender, replicates joined, true dtypes, missing as NA.

    Columns are those of `profiling.columns.REPORT_COLUMNS`. A workload that some replicates could not measure keeps
    the numbers of those that could, and says so in `warnings`.

    Raises:
        RunError: the folder holds no run, or one that this version cannot read.
    """
    folder = Path(path)
    run = read_run(folder)
    rows = load_measurements(folder)
    num_compared = sum(run.settings.reference_of(name) is not None for name in run.settings.contenders)
    joined = [_join(group, num_compared) for _, group in rows.groupby(["point", "contender"], sort=False)]
    table = pd.DataFrame(joined, columns=names(REPORT_COLUMNS))
    for name, value in environment_cells(run).items():
        table[name] = value
    table = _typed(with_roofline(table, run.environment), REPORT_COLUMNS)
    table["repeat_command"] = pd.array(_repeat_commands(table, run), dtype="string")
    order = {contender: position for position, contender in enumerate(run.settings.contenders)}
    table["_order"] = table["contender"].map(order).fillna(len(order))
    return table.sort_values(["point", "_order"], kind="stable").drop(columns="_order").reset_index(drop=True)


def load_measurements(path: str | Path) -> pd.DataFrame:
    """The rows as measured: one per replicate × workload × contender, true dtypes; a row without its place is none."""
    rows = read_rows(Path(path) / MEASUREMENTS_FILE, MEASUREMENT_COLUMNS)
    table = _typed(pd.DataFrame(rows, columns=names(MEASUREMENT_COLUMNS)), MEASUREMENT_COLUMNS)
    return table.dropna(subset=list(_PLACE)).reset_index(drop=True)


def load_samples(path: str | Path) -> pd.DataFrame:
    """The raw samples of a run: one row per replicate × workload × contender × round."""
    rows = read_rows(Path(path) / SAMPLES_FILE, SAMPLE_COLUMNS)
    return _typed(pd.DataFrame(rows, columns=names(SAMPLE_COLUMNS)), SAMPLE_COLUMNS)


def report_csv(table: pd.DataFrame) -> str:
    """The table as CSV text: units in the names, full precision, and no text that a spreadsheet takes for a formula."""
    safe = table.copy()
    name: str
    for name in safe.select_dtypes("string").columns:
        risky = safe[name].str.match(_FORMULA).fillna(False)
        safe.loc[risky, name] = "'" + safe.loc[risky, name]
    return safe.to_csv(index=False, lineterminator="\n")


def write_report(path: str | Path, out: Path | None = None) -> Path:
    """Writes a run's table as CSV, to `report.csv` in its folder unless told otherwise, and returns where.

    Raises:
        RunError: the run cannot be read, or the report cannot be written.
    """
    report = out or Path(path) / REPORT_FILE
    if report.name in (RUN_FILE, MEASUREMENTS_FILE, SAMPLES_FILE) and report.resolve().parent == Path(path).resolve():
        raise RunError(f"{report} holds what was measured, and a report must not take its place")
    write_aside(report, report_csv(load_run(path)))
    return report


def environment_cells(run: Run) -> dict[str, str | None]:
    """The environment of a run as the cells that each row of its table carries."""
    said = {column.name: run.environment.get(column.name) for column in ENVIRONMENT_COLUMNS}
    # Asked for is not had: only glibc's allocator can be told to keep what is freed.
    heap = "as-is" if run.environment.get("heap_pinned") is False else run.settings.heap
    said |= {"heap": heap, "time_budget_s": run.settings.time_budget_s}
    return {name: None if value is None else str(value) for name, value in said.items()}


def _repeat_commands(table: pd.DataFrame, run: Run) -> list[str | None]:
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [repeat_command_of_row({str(name): cell for name, cell in row.items()}, run.settings) for row in rows]


def _join(group: pd.DataFrame, num_compared: int) -> dict[str, Any]:
    measured = group[group["status"] == "ok"]
    if measured.empty:
        return _cells(group.iloc[0])
    row = _cells(measured.iloc[-1])
    row["num_replicates"] = len(measured)
    row |= {name: measured[name].sum(min_count=1) for name in _SUMS}
    row |= {name: measured[name].median() for name in _MEDIANS}
    row |= {name: measured[name].max() for name in _WORST}
    row["check_verdict"] = next((v for v in _VERDICTS if (measured["check_verdict"] == v).any()), pd.NA)
    found = _joined(measured["speedup"], num_compared)
    if found is not None:
        clone = _joined_clone(measured)
        row |= {"speedup": found.speedup, "speedup_low": found.low, "speedup_high": found.high}
        row["num_speedups"] = found.num_replicates
        row["speed_verdict"], row["speed_verdict_reason"] = speed_verdict(found, clone)
        if row["check_verdict"] in ("fail", "error"):
            row["speed_verdict"] = pd.NA
            row["speed_verdict_reason"] = f"does not count: its check says {row['check_verdict']}"
        if clone is None:  # a run of before schema version 2, which kept the size of its stray alone
            row["noise_floor"] = measured["noise_floor"].median()
        else:
            row["clone_speedup"], row["noise_floor"] = clone.speedup, clone.stray
    row["warnings"] = "; ".join(_warnings(group, measured)) or pd.NA
    return row


def _joined_clone(measured: pd.DataFrame) -> Joined | None:
    """The clone over the replicates, an interval for itself: it is the control, not one of those that are compared."""
    return _joined(measured.loc[measured["speedup"].notna(), "clone_speedup"], 1)


def _joined(ratios: pd.Series[Any], num_compared: int) -> Joined | None:
    usable = [float(value) for value in ratios.dropna() if 0 < value < math.inf]
    return join_replicates(usable, num_compared) if usable else None


def _cells(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _warnings(group: pd.DataFrame, measured: pd.DataFrame) -> list[str]:
    said = _said_by_replicate(measured)
    if len(measured) < len(group):
        lost = group[group["status"] != "ok"].iloc[0]
        said.append(
            f"{len(group) - len(measured)} of {len(group)} replicates not measured: "
            f"{lost['status']}, {lost['status_reason']}"
        )
    return said


def _said_by_replicate(measured: pd.DataFrame) -> list[str]:
    """Each warning once, and in which replicates it was said where not in all: the joined figures may be better."""
    saying: dict[str, list[int]] = {}
    for number, texts in zip(measured["replicate"], measured["warnings"], strict=True):
        for text in [] if pd.isna(texts) else str(texts).split("; "):
            saying.setdefault(text, []).append(int(number))
    return [
        text if len(numbers) == len(measured) else f"{text} (replicate {', '.join(map(str, numbers))})"
        for text, numbers in saying.items()
    ]


def _typed(table: pd.DataFrame, columns: tuple[Column, ...]) -> pd.DataFrame:
    typed = {column.name: _column(table[column.name], column.kind) for column in columns}
    return pd.DataFrame(typed, columns=names(columns))


def _column(values: Any, kind: str) -> Any:
    cells = values.astype(object).where(values.notna() & (values != ""), None)
    if kind == "bool":
        cells = cells.map({"True": True, "False": False, True: True, False: False})
    elif kind in ("int", "float"):
        # Not pd.to_numeric: it is off in the last digit at times, and goes by way of float beside an empty cell.
        number = _whole if kind == "int" else _real
        cells = pd.Series([None if cell is None else number(cell) for cell in cells], cells.index, dtype=object)
    return cells.astype(_DTYPES[kind])


def _whole(cell: Any) -> int | None:
    try:
        number = int(cell)
    except (ValueError, OverflowError):
        return None
    is_exact = isinstance(cell, str) or number == cell
    return number if is_exact and -(2**63) <= number < 2**63 else None


def _real(cell: Any) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
