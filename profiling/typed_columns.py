"""Cells, as text or as values, to columns of a true type, with NA for what is empty or is not of that kind."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from profiling.columns import Column

_BOOLS = {"True": True, "False": False, True: True, False: False}


def table_of_texts(cells: Sequence[Sequence[str]], columns: tuple[Column, ...]) -> pd.DataFrame:
    """A table of `columns`, each given by its cells as a file has them; what is empty, or no number, is NA."""
    arrays = {column.name: _of_texts(each, column.kind) for column, each in zip(columns, cells, strict=True)}
    return pd.DataFrame(arrays, columns=[column.name for column in columns])


def typed(values: Sequence[Any], kind: str) -> Any:
    """One column as a pandas array: `Int64`, `Float64`, `boolean` or `string`, for the kinds of `profiling.columns`.

    None and NA are NA, as is a number that is none.
    """
    if kind == "float":
        return _floats([math.nan if value is None else _real(value) for value in values])
    if kind == "int":
        return _ints([None if value is None else _whole(value) for value in values])
    if kind == "bool":
        return pd.array([_BOOLS.get(value) for value in values], dtype="boolean")
    return pd.array(list(values), dtype="string")


def constant(value: Any, length: int, kind: str) -> Any:
    """A column of one value."""
    return typed([value], kind).take(np.zeros(length, dtype=np.intp))


def _of_texts(cells: Sequence[str], kind: str) -> Any:
    # What nearly every column is, quick; whatever is odd in it, cell by cell.
    with contextlib.suppress(ValueError, OverflowError):
        if kind == "float":
            return _floats([float(cell) if cell else math.nan for cell in cells])
        if kind == "int":
            numbers = np.array([int(cell) if cell else 0 for cell in cells], dtype=np.int64)
            return pd.arrays.IntegerArray(numbers, _mask(cells, lambda cell: not cell))
    return typed([cell or None for cell in cells], kind)


def _floats(numbers: Sequence[float]) -> Any:
    # Not pd.to_numeric: in some versions of pandas it is off in the last digit.
    values = np.array(numbers, dtype=np.float64)
    return pd.arrays.FloatingArray(values, np.isnan(values))


def _ints(numbers: Sequence[int | None]) -> Any:
    values = np.array([0 if number is None else number for number in numbers], dtype=np.int64)
    return pd.arrays.IntegerArray(values, _mask(numbers, lambda number: number is None))


def _mask(cells: Sequence[Any], is_missing: Callable[[Any], bool]) -> Any:
    return np.array([is_missing(cell) for cell in cells], dtype=bool)


def _whole(value: Any) -> int | None:
    try:
        number = int(value)
    except (ValueError, OverflowError, TypeError):  # no number, or NA
        return None
    is_exact = isinstance(value, str) or number == value
    return number if is_exact and -(2**63) <= number < 2**63 else None


def _real(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError, TypeError):  # no number, or NA
        return math.nan
