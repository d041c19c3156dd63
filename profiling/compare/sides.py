"""A run to be compared: its folder, the name of one under results/, or a report that `export` has written.

A side of a comparison is one of them, or several of the same thing as `profiling.compare.pooling` puts them together.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from profiling.columns import REPORT_COLUMNS, STATUSES, WORKLOAD_COLUMNS, Column
from profiling.compare.run_to_run import Runs
from profiling.compare.spreads import error_of_interval, spreads_of_values
from profiling.measured_rows import read_measurements
from profiling.possible_values import without_impossible
from profiling.quoted import quoted
from profiling.runs import Run, open_rows, read_run, run_folder
from profiling.table import load_table
from profiling.typed_columns import table_of_texts
from profiling.wording import counted, is_formula, workload_words

# Two rows with these in common measured the same thing. How (threads, seed, heap) is told as a difference.
SAME_WORK = (
    *("batch_size", "seq_len", "num_heads", "d_model", "dtype", "device", "mode", "bias", "causal"),
    "contender",
)
_NEEDED = (*(column.name for column in WORKLOAD_COLUMNS if column.name != "head_dim"), "contender", "status")


class CompareError(Exception):
    """Two sides that cannot be compared; the message says which and why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """What is compared.

    Attributes:
        label: as it was given.
        path: the folder or the file; of several the first.
        run: what `run.json` says; None for a report. Of several the first.
        table: a row per workload × contender, as `load_run` gives it, and three columns for each of `speedup_` and
            `latency_`: `mean`, `error` and `number` of the logarithms across replicates; and `broken`, what became of
            replicates that could not be measured beside others that could, in words.
        problems: what of its files could not be read, in sentences.
        several: the runs that it is made of, where these are more than one.
    """

    label: str
    path: Path
    run: Run | None
    table: pd.DataFrame
    problems: tuple[str, ...] = ()
    several: tuple[Side, ...] = ()

    @property
    def each(self) -> tuple[Side, ...]:
        """The runs that it is made of, one by one."""
        return self.several or (self,)

    @property
    def has_replicates(self) -> bool:
        """Whether every time of every replicate is known, as of a folder; of a report only some are."""
        return all(side.run is not None for side in self.each)

    @property
    def title(self) -> str:
        """Its label, and the run behind it where that is called otherwise."""
        if self.several:
            return ", ".join(side.title for side in self.several)
        ids = self.table["run_id"].dropna().unique().tolist()
        name = self.run.run_id if self.run is not None else ", ".join(ids[:3])
        return self.label if not name or name in self.label else f"{self.label} (run {name})"

    def spreads(self, quantity: str) -> Runs:
        """What its runs say of `speedup` or `latency`, by run and row of `table`."""
        if not self.several:
            return Runs(*(_floats(self.table, f"{quantity}_{name}")[None, :] for name in ("mean", "error", "number")))
        found = [at_rows(side, self.table) for side in self.several]
        return Runs(
            *(np.array([_floats(each, f"{quantity}_{name}") for each in found]) for name in ("mean", "error", "number"))
        )


def at_rows(side: Side, table: pd.DataFrame) -> pd.DataFrame:
    """What a run holds at the rows of another table, in their order; empty where it holds nothing of a row."""
    return table[list(SAME_WORK)].merge(side.table, how="left", on=list(SAME_WORK))


def read_side(given: str | Path, results: Path | None = None) -> Side:
    """Reads a side: a report where `given` is a file, else a run by its folder, its id or its name.

    Raises:
        CompareError: it is none of these, or holds nothing that can be compared.
        RunError: it cannot be read.
    """
    text = str(given)
    # Not Path.is_file, which raises where a name is too long, or a folder above must not be looked into.
    if os.path.isfile(text):
        side = _report(text, Path(text))
    elif os.path.isdir(text) or os.sep not in text:
        side = _run(text, run_folder(text, results))
    else:
        raise CompareError(f"there is no run and no report {quoted(text)}")
    _require_one_row_each(side)
    return side


def _run(label: str, folder: Path) -> Side:
    run = read_run(folder)
    table, problems = load_table(folder)
    rows, _ = read_measurements(folder)
    for prefix, column in (("speedup", "speedup"), ("latency", "latency_median_ms")):
        spreads = spreads_of_values(rows, column).add_prefix(f"{prefix}_")
        table = table.merge(spreads, how="left", left_on=["point", "contender"], right_index=True)
    table = table.merge(_broken(rows), how="left", left_on=["point", "contender"], right_index=True)
    return Side(label=label, path=folder, run=run, table=_plain(table), problems=tuple(problems))


def _broken(rows: pd.DataFrame) -> pd.DataFrame:
    """What became of the other replicates of each row that was measured in some of them: `crashed in 2 of 5`."""
    is_measured, place = rows["status"].eq("ok"), [rows["point"], rows["contender"]]
    in_part = is_measured.groupby(place).transform("any") & ~is_measured
    numbers = rows.groupby(["point", "contender"]).size()
    lost = rows[in_part].groupby(["point", "contender"], sort=False)["status"].agg(["first", "size"])
    told = [
        f"{status} in {number} of {numbers[place]} replicates"
        for place, status, number in lost.itertuples(index=True, name=None)
    ]
    return pd.DataFrame({"broken": pd.array(told, dtype="string")}, index=lost.index)


def _report(label: str, path: Path) -> Side:
    columns = tuple(_as_a_report_has_it(column) for column in REPORT_COLUMNS)
    rows = open_rows(path, columns)
    cells = list(rows) if rows is not None else []
    table = table_of_texts(list(zip(*cells, strict=True)) if cells else [[] for _ in columns], columns)
    problems = []
    if rows is not None and rows.damaged:
        problems.append(f"{counted(len(rows.damaged), 'line')} of {path.name} could not be read")
    has_place = table[list(_NEEDED)].notna().all(axis=1) & table["status"].isin(STATUSES)
    if not has_place.all():
        number = counted(int((~has_place).sum()), "row")
        problems.append(f"{number} of {path.name} left out: what was measured there is not told")
    table, num_impossible = without_impossible(table[has_place].reset_index(drop=True))
    if num_impossible:
        problems.append(f"{counted(num_impossible, 'cell')} of {path.name} left out: no such number can be measured")
    # As the export marks what a spreadsheet would take for a formula.
    for name in ("contender", "reference"):
        table[name] = table[name].map(_without_mark, na_action="ignore").astype("string")
    table["broken"] = pd.array([pd.NA] * len(table), dtype="string")  # a report tells what was measured alone
    return Side(label=label, path=path, run=None, table=_plain(_with_joined_spreads(table)), problems=tuple(problems))


def _as_a_report_has_it(column: Column) -> Column:
    """A column that a report may lack unless nothing can be told without it: one of an earlier version has fewer."""
    return dataclasses.replace(column, since=1 if column.name in _NEEDED else 2)


def _without_mark(text: str) -> str:
    return text[1:] if text.startswith("'") and is_formula(text[1:]) else text


def _with_joined_spreads(table: pd.DataFrame) -> pd.DataFrame:
    """The spread of speed-ups comes back from their interval; of times a report holds the middle alone."""
    num_compared = table.loc[table["reference"].notna(), "contender"].nunique()
    speedups, lows, highs = (_floats(table, name) for name in ("speedup", "speedup_low", "speedup_high"))
    numbers = np.nan_to_num(_floats(table, "num_speedups"))
    errors = [
        error_of_interval(speedup, low, high, int(number), num_compared)
        for speedup, low, high, number in zip(speedups, lows, highs, numbers, strict=True)
    ]
    times = _floats(table, "latency_median_ms")
    return table.assign(
        speedup_mean=np.log(speedups),
        speedup_error=errors,
        speedup_number=numbers,
        latency_mean=np.log(times),
        latency_error=np.full(len(table), np.nan),
        latency_number=np.nan_to_num(_floats(table, "num_replicates")),
    )


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    spreads: dict[str, Any] = {
        f"{prefix}_{name}": _floats(table, f"{prefix}_{name}")
        for prefix in ("speedup", "latency")
        for name in ("mean", "error", "number")
    }
    spreads |= {name: np.nan_to_num(spreads[name]) for name in ("speedup_number", "latency_number")}
    return table.assign(**spreads).reset_index(drop=True)


def _floats(table: pd.DataFrame, name: str) -> Any:
    return table[name].to_numpy(dtype=np.float64, na_value=np.nan)


def _require_one_row_each(side: Side) -> None:
    if side.table.empty:
        raise CompareError(f"{side.label} holds no row that was measured")
    is_twice = side.table.duplicated(list(SAME_WORK))
    if is_twice.any():
        row = side.table[is_twice].iloc[0]
        place = f"{quoted(str(row['contender']))} at {workload_words({str(name): cell for name, cell in row.items()})}"
        raise CompareError(f"{side.label} holds {place} more than once: compare one run at a time")
