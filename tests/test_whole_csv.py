"""Reading a file at once gives what reading it line by line gives, or nothing."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pandas as pd
import pytest
from dashboard_samples import make_run
from hypothesis import given
from hypothesis import strategies as st

from profiling import measured_rows
from profiling.columns import MEASUREMENT_COLUMNS, Column
from profiling.measured_rows import read_measurements
from profiling.typed_columns import table_of_texts
from profiling.whole_csv import read_whole

COLUMNS = (
    Column("name", "text", "a text"),
    Column("rounds", "int", "a count"),
    Column("time", "float", "a time"),
    Column("causal", "bool", "yes or no"),
    Column("later", "float", "a column that not every file has", since=2),
)
HEADER = ["name", "rounds", "time", "causal"]

wholes = st.integers(-(2**63), 2**63 - 1).map(str)
reals = st.floats(allow_nan=False).map(repr)
odd_numbers = st.sampled_from(
    ["nan", "inf", "-inf", "1e400", "1e-400", " 7", "7 ", "+7", "1_0", "0x1F", "0X1f", "1.", ".5", "٣", "7.0", "1d5"]
)
bools = st.sampled_from(["True", "False", "true", "1", " True"])
texts = st.text(st.sampled_from('ab,"; \té0x') | st.characters(exclude_categories=["Cs"]), max_size=7)
rows = st.lists(
    st.tuples(
        texts,
        wholes | odd_numbers | st.just(""),
        reals | odd_numbers | st.just(""),
        bools | st.just(""),
    ),
    max_size=5,
)


def by_line(cells: list[tuple[str, ...]]) -> pd.DataFrame:
    """What `cells` are, each read by itself."""
    columns = [*(list(each) for each in zip(*cells, strict=True))] or [[] for _ in HEADER]
    return table_of_texts([*columns, [""] * len(cells)], COLUMNS)


def written(cells: list[tuple[str, ...]]) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(cells)
    return stream.getvalue().encode()


@given(rows)
def test_what_is_read_at_once_is_what_the_cells_are_one_by_one(cells: list[tuple[str, ...]]) -> None:
    found = read_whole(written(cells), HEADER, COLUMNS)
    if found is not None:
        pd.testing.assert_frame_equal(found, by_line(cells), check_exact=True)


plain_rows = st.lists(
    st.tuples(
        st.text(st.sampled_from('ab,"; é'), max_size=7),
        wholes | st.just(""),
        st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.just(""),
        st.sampled_from(["True", "False", ""]),
    ),
    max_size=5,
)


@given(plain_rows)
def test_a_file_as_the_program_writes_it_is_read_at_once(cells: list[tuple[str, ...]]) -> None:
    assert read_whole(written(cells), HEADER, COLUMNS) is not None


def test_digits_beyond_the_last_are_not_made_up() -> None:
    found = read_whole(b"name,rounds,time,causal\na,9007199254740993,0.30000000000000004,True\n", HEADER, COLUMNS)
    assert found is not None
    assert found["rounds"].tolist() == [2**53 + 1]
    assert found["time"].tolist() == [0.1 + 0.2]
    assert found["later"].isna().all()


def test_a_number_too_large_for_a_float_is_infinite_as_it_is_in_python() -> None:
    found = read_whole(b"name,rounds,time,causal\na,1,1e400,True\n", HEADER, COLUMNS)
    assert found is not None
    assert found["time"].tolist() == [math.inf]


@pytest.mark.parametrize(
    "line",
    [
        *('a"b,1,2.0,True', '"a"b,1,2.0,True', '"a,1,2.0,True', 'a,1,2.0,True"', "a\rb,1,2.0,True", "a\0,1,2.0,True"),
        *(
            "a,1,2.0",
            "a,1,2.0,True,",
            "a,1.5,2.0,True",
            "a,1,two,True",
            "a,1,2.0,yes",
            "a,1,nan,True",
            "a,0x1,2.0,True",
        ),
        *(f"a,{2**63},2.0,True", "   "),
    ],
)
def test_a_file_with_anything_odd_in_it_is_left_to_be_read_line_by_line(line: str) -> None:
    text = f"name,rounds,time,causal\na,1,2.0,True\n{line}\nb,3,5.0,False\n".encode()
    assert read_whole(text, HEADER, COLUMNS) is None


def test_a_bad_letter_and_two_columns_of_a_name_are_left_to_be_read_line_by_line() -> None:
    assert read_whole(b"name,rounds,time,causal\n\xff,1,2.0,True\n", HEADER, COLUMNS) is None
    twice = ["name", "name", "rounds", "time", "causal"]
    assert read_whole(b"name,name,rounds,time,causal\na,b,1,2.0,True\n", twice, COLUMNS) is None


def test_an_empty_line_is_no_row() -> None:
    found = read_whole(b"name,rounds,time,causal\n\na,1,2.0,True\n\n", HEADER, COLUMNS)
    assert found is None or found["name"].tolist() == ["a"]


def test_a_run_as_it_is_written_is_read_at_once_and_as_it_would_be_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "run")
    text = (tmp_path / "run" / "measurements.csv").read_bytes()
    header = text.split(b"\n", 1)[0].decode().split(",")
    assert read_whole(text, header, MEASUREMENT_COLUMNS) is not None
    at_once, problems = read_measurements(tmp_path / "run")
    assert problems == []
    monkeypatch.setattr(measured_rows, "read_whole", lambda *_: None)
    pd.testing.assert_frame_equal(at_once, read_measurements(tmp_path / "run")[0], check_exact=True)
