from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.columns import Column
from profiling.csv_rows import CsvRows, NotThisTable

COLUMNS = (Column("name", "text", "who"), Column("size", "int", "how much"), Column("later", "text", "came later", 2))


def rows_of(folder: Path, data: str | bytes) -> CsvRows:
    path = folder / "table.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return CsvRows(path, COLUMNS)


@pytest.mark.parametrize(
    "data",
    [
        "name,size,later\nada,3,x\n",
        "name,size,later\r\nada,3,x\r\n",
        "\ufeffname,size,later\nada,3,x\n",
        "later,other,size,name\nx,?,3,ada\n",
        "name,size,later\n\nada,3,x\n\n",
        '"name","size","later"\n"ada","3","x"\n',
        "name,size,later\nada,3,x\nbob,5",  # still being written
    ],
)
def test_a_whole_row_is_read_whatever_a_spreadsheet_did_to_the_file(tmp_path: Path, data: str) -> None:
    rows = rows_of(tmp_path, data)
    assert list(rows) == [["ada", "3", "x"]]
    assert rows.damaged == []


def test_a_column_of_a_later_version_is_empty_and_an_earlier_one_is_asked_for(tmp_path: Path) -> None:
    assert list(rows_of(tmp_path, "size,name\n3,ada\n")) == [["ada", "3", ""]]
    with pytest.raises(NotThisTable, match="it has no column size"):
        rows_of(tmp_path, "name;size;later\nada;3;x\nname\n".replace("name;", "name,"))


@pytest.mark.parametrize("line", ["ada", "ada,3,x,y", 'ada,"3,x', 'ada,"3"4,x', '"ada\n'])
def test_a_damaged_line_costs_itself_alone_and_is_named(tmp_path: Path, line: str) -> None:
    rows = rows_of(tmp_path, f"name,size,later\n{line}\nbob,5,y\n".replace("\n\n", "\n"))
    assert list(rows) == [["bob", "5", "y"]]
    assert rows.damaged == [2]
    assert list(rows) == [["bob", "5", "y"]], "a second walk tells the same"
    assert rows.damaged == [2]


def test_an_empty_file_and_one_without_a_line_end_have_no_rows(tmp_path: Path) -> None:
    assert list(rows_of(tmp_path, "")) == list(rows_of(tmp_path, "name,siz")) == []


texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r"), max_size=12)


@given(st.lists(st.tuples(texts, texts, texts), max_size=5))
def test_what_csv_writes_on_one_line_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str]]
) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows([("name", "size", "later"), *rows])
    found = rows_of(tmp_path_factory.getbasetemp(), stream.getvalue())
    assert list(found) == [list(row) for row in rows]
    assert found.damaged == []


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_behind_the_header_raise_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    found = rows_of(tmp_path_factory.getbasetemp(), b"name,size,later\nada,3,x\n" + data + b"\nbob,5,y\n")
    read = list(found)
    assert (read[0], read[-1]) == (["ada", "3", "x"], ["bob", "5", "y"])
    assert all(len(cells) == 3 for cells in read)
