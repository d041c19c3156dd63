"""The rows of a run as measured, with what of its files could not be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from profiling.columns import MEASUREMENT_COLUMNS, SAMPLE_COLUMNS, STATUSES, Column
from profiling.possible_values import num_nonsense, without_impossible
from profiling.runs import MEASUREMENTS_FILE, SAMPLES_FILE, open_rows
from profiling.typed_columns import table_of_texts
from profiling.whole_csv import read_whole
from profiling.wording import counted

# Without these a row belongs nowhere: someone has edited the file.
PLACE = ("replicate", "point", "batch_size", "seq_len", "num_heads", "d_model", "contender", "status")
# What is measured once.
KEY = ("replicate", "point", "contender")
# Rows whose text is held at once: what a big file takes in memory is its table, and not its millions of texts.
ROWS_AT_ONCE = 10_000
# Line numbers that are named.
NAMED_LINES = 5


def read_measurements(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """The rows of a run, true dtypes, and what is wrong with the file in sentences; a repeated row counts once.

    Raises:
        RunError: the file cannot be read, or is another table.
    """
    table, problems = _read(folder / MEASUREMENTS_FILE, MEASUREMENT_COLUMNS)
    whole = table[_has_place(table)]
    if len(whole) < len(table):
        problems.append(_left_out(len(table) - len(whole), "lacking or with nonsense in what says where they belong"))
    once = whole[~whole.duplicated(list(KEY))]
    if len(once) < len(whole):
        problems.append(_left_out(len(whole) - len(once), "of a place that another row had taken before"))
    possible, num_impossible = without_impossible(once.reset_index(drop=True))
    if num_impossible:
        problems.append(_left_out(num_impossible, "such a number cannot have been measured", what="cell"))
    return possible, problems


def _has_place(table: pd.DataFrame) -> pd.Series[bool]:
    """Which rows say where they belong, in numbers from 1 and a status that there is."""
    place = table[list(PLACE)]
    counts = [name for name in PLACE if name not in ("contender", "status")]
    return place.notna().all(axis=1) & (place[counts] >= 1).fillna(False).all(axis=1) & place["status"].isin(STATUSES)


def read_samples(folder: Path) -> pd.DataFrame:
    """The raw samples of a run: one row per replicate × workload × contender × round.

    Raises:
        RunError: the file cannot be read, or is another table.
    """
    return _read(folder / SAMPLES_FILE, SAMPLE_COLUMNS)[0]


def _read(path: Path, columns: tuple[Column, ...]) -> tuple[pd.DataFrame, list[str]]:
    rows = open_rows(path, columns)
    if rows is None:
        return _empty(columns), []
    whole = read_whole(rows.text, rows.header, columns)
    if whole is not None:
        return whole, []
    parts, num_wrong = [], 0
    for part in _in_parts(rows):
        texts = list(zip(*part, strict=True))
        parts.append(table_of_texts(texts, columns))
        num_wrong += num_nonsense(texts, parts[-1], columns)
    problems = [_damage(path.name, rows.damaged)] if rows.damaged else []
    if num_wrong:
        problems.append(_left_out(num_wrong, "what they hold is not of their column's kind", what="cell"))
    return pd.concat(parts, ignore_index=True) if parts else _empty(columns), problems


def _in_parts(rows: Iterable[list[str]]) -> Iterable[list[list[str]]]:
    remaining = iter(rows)
    while part := list(itertools.islice(remaining, ROWS_AT_ONCE)):
        yield part


def _empty(columns: tuple[Column, ...]) -> pd.DataFrame:
    return table_of_texts([[] for _ in columns], columns)


def _damage(file: str, lines: Sequence[int]) -> str:
    named = ", ".join(map(str, lines[:NAMED_LINES])) + (", …" if len(lines) > NAMED_LINES else "")
    return f"{counted(len(lines), 'row')} of {file} could not be read: line{'s' if len(lines) > 1 else ''} {named}"


def _left_out(number: int, why: str, what: str = "row") -> str:
    return f"{counted(number, what)} of {MEASUREMENTS_FILE} left out: {why}"
