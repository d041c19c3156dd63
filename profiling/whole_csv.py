"""Reads a run's CSV at once where nothing in it is odd: a hundred thousand rows in a moment.

What it gives is what reading line by line gives (`csv_rows`, `typed_columns`). Where that is not certain it gives
nothing, and the file is read line by line.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from profiling.columns import Column, names
from profiling.typed_columns import constant

_TYPES = {"float": pa.float64(), "int": pa.int64(), "bool": pa.bool_(), "text": pa.large_string()}
# A cell in marks of quotation, from where the cell begins to where it ends, on one line.
_QUOTED = re.compile(rb'(?<![^,\n])"(?:[^"\n]|"")*"(?=[,\n])')


def read_whole(text: bytes, header: list[str], columns: tuple[Column, ...]) -> pd.DataFrame | None:
    r"""The table of `columns` in a CSV text, or None where it has to be read line by line.

    Args:
        text: whole lines, each ended by `\n`, the first of them the header.
        header: the names in that line.
        columns: what is wanted of it; those that it lacks are NA in every row.
    """
    if not _is_plain(text) or len(set(header)) < len(header):
        return None
    present = [column for column in columns if column.name in header]
    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            parse_options=csv.ParseOptions(newlines_in_values=False),
            convert_options=csv.ConvertOptions(
                column_types={column.name: _TYPES[column.kind] for column in present},
                include_columns=[column.name for column in present],
                null_values=[""],
                true_values=["True"],
                false_values=["False"],
                strings_can_be_null=True,
            ),
        )
        # An empty line is none; and a cell has no line end within, or two lines were taken for one.
        if table.num_rows != text.count(b"\n") - 1 - text.count(b"\n\n"):
            return None
        found = {column.name: _of_arrow(table[column.name], column.kind) for column in present}
    except (pa.ArrowInvalid, ValueError, OverflowError):  # a row too long, a cell that is not of its kind, a bad letter
        return None
    lacking = {
        column.name: constant(None, table.num_rows, column.kind) for column in columns if column.name not in header
    }
    return pd.DataFrame({**found, **lacking}, columns=names(columns))


def _is_plain(text: bytes) -> bool:
    """Whether Arrow and Python read every cell alike: as to quotation, line ends, and numbers in base 16."""
    bare = _QUOTED.sub(b"", text) if b'"' in text else text
    return not any(odd in bare for odd in (b'"', b"\r", b"0x", b"0X", b"\0", b"\n\n\n"))


def _of_arrow(cells: pa.ChunkedArray, kind: str) -> Any:
    if kind == "text":
        return pd.array(cells.combine_chunks(), dtype="string")
    is_missing = cells.is_null().to_numpy()
    if kind == "float":
        values = pc.fill_null(cells, np.nan).to_numpy()
        if np.isnan(values).sum() != is_missing.sum():
            raise ValueError("nan is no number, and has to be named")
        return pd.arrays.FloatingArray(values, is_missing)
    if kind == "int":
        return pd.arrays.IntegerArray(pc.fill_null(cells, 0).to_numpy(), is_missing)
    return pd.arrays.BooleanArray(pc.fill_null(cells, False).to_numpy(), is_missing)
