from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.columns import Column
from profiling.typed_columns import constant, table_of_texts, typed


def of_texts(kind: str, *cells: str) -> list[Any]:
    column = table_of_texts([cells], (Column("c", kind, "a column"),))["c"]
    return [None if value is pd.NA else value for value in column.tolist()]


@pytest.mark.parametrize(
    ("kind", "cells", "values"),
    [
        ("float", ("0.1", "", "-2", "inf"), [0.1, None, -2.0, math.inf]),
        ("float", ("0.1", "nan", "1,5", "1e400"), [0.1, None, None, math.inf]),
        ("int", ("3", "", "9223372036854775807"), [3, None, 2**63 - 1]),
        ("int", ("3", "1.5", "9223372036854775808", "x"), [3, None, None, None]),
        ("bool", ("True", "False", "", "yes"), [True, False, None, None]),
        ("text", ("a", "", "NA"), ["a", None, "NA"]),
    ],
)
def test_cells_of_a_file_are_values_and_what_is_none_is_missing(
    kind: str, cells: tuple[str, ...], values: list[Any]
) -> None:
    assert of_texts(kind, *cells) == values


def test_an_integer_beside_an_empty_cell_keeps_its_last_digit() -> None:
    assert of_texts("int", "9007199254740993", "") == [2**53 + 1, None]


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_every_number_comes_back_bit_for_bit(numbers: list[float]) -> None:
    assert of_texts("float", *map(repr, numbers)) == numbers


def test_a_table_without_rows_has_its_types() -> None:
    kinds = {"int": "Int64", "float": "Float64", "bool": "boolean", "text": "string"}
    columns = tuple(Column(kind, kind, "a column") for kind in kinds)
    assert {name: str(dtype) for name, dtype in table_of_texts([[]] * 4, columns).dtypes.items()} == kinds


def test_values_are_columns_too() -> None:
    assert typed([1.5, None, pd.NA, math.nan, "2"], "float").isna().tolist() == [False, True, True, True, False]
    assert typed([1, None, pd.NA, 1.5, 3.0], "int").isna().tolist() == [False, True, True, True, False]
    assert constant("x", 3, "text").tolist() == ["x", "x", "x"]
    assert constant(None, 2, "float").isna().tolist() == [True, True]
    assert len(constant(1, 0, "int")) == 0
