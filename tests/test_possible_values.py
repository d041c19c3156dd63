"""Numbers that nobody can have measured are left out and counted, and no other is touched."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import make_row, write_run

from profiling.columns import MEASURED_COLUMNS
from profiling.table import load_measurements, load_table

NUMBERS = [column.name for column in MEASURED_COLUMNS if column.kind in ("int", "float")]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_below_nothing_is_left_out_and_told(tmp_path: Path, name: str) -> None:
    rows = [make_row(**{name: -3}), make_row("official", **{name: 3})]
    folder = write_run(tmp_path, rows)
    measured, (table, problems) = load_measurements(folder)[name], load_table(folder)
    assert measured.isna().tolist() == [True, False]
    assert measured[1] == 3
    assert not (table[name] < 0).any()
    assert problems == ["1 cell of measurements.csv left out: such a number cannot have been measured"]


@pytest.mark.parametrize(
    ("name", "value", "is_possible"),
    [
        ("latency_median_ms", 0.0, False),
        ("latency_p95_ms", math.inf, False),
        ("latency_p5_ms", 5e-324, True),
        ("speedup", 0.0, False),
        ("clone_speedup", math.inf, False),
        ("peak_memory_mib", 0.0, True),
        ("peak_memory_mib", math.inf, False),
        ("max_abs_error", 0.0, True),
        ("max_abs_error", math.inf, True),
        ("error_ratio", math.inf, True),
        ("noise_floor", 0.0, True),
        ("waited_s", 0.0, True),
        ("num_samples", 0, True),
        ("load_start", -math.inf, False),
        ("latency_median_ms", 1e308, False),
        ("peak_memory_mib", 1e308, False),
        ("max_abs_error", 1e308, True),
    ],
)
def test_what_can_have_been_measured_stays(tmp_path: Path, name: str, value: Any, is_possible: bool) -> None:
    problems = load_table(write_run(tmp_path, [make_row(**{name: value})]))[1]
    assert problems == (
        [] if is_possible else ["1 cell of measurements.csv left out: such a number cannot have been measured"]
    )


def test_cells_of_another_kind_are_counted_and_empty_ones_are_not(tmp_path: Path) -> None:
    row = make_row(latency_median_ms="fast", num_samples="2.5", bias="perhaps", speedup="nan", waited_s="")
    table, problems = load_table(write_run(tmp_path, [row, make_row("official", waited_s=None)]))
    assert problems == ["4 cells of measurements.csv left out: what they hold is not of their column's kind"]
    assert table.loc[0, ["latency_median_ms", "num_samples", "bias", "waited_s"]].isna().all()


def test_the_example_has_nothing_to_tell() -> None:
    table, problems = load_table(Path(__file__).resolve().parent.parent / "results" / "example")
    assert len(table) > 0
    assert problems == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("replicate", "point", "seq_len", "d_model") for value in (0, -1, "x", "")),
        ("status", "tired"),
    ],
)
def test_a_row_that_belongs_nowhere_is_left_out_and_told(tmp_path: Path, name: str, value: Any) -> None:
    table, problems = load_table(write_run(tmp_path, [make_row() | {name: value}, make_row("official")]))
    assert table["contender"].tolist() == ["official"]
    assert problems[-1].startswith("1 row of measurements.csv left out: lacking or with nonsense in what says where")
