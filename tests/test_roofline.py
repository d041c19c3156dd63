from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_runs import ENVIRONMENT, lost_row, make_row, make_workload, write_run

from profiling.roofline import COLUMNS, warning_of, with_roofline
from profiling.table import load_run

CEILINGS = {"matmul_gflop_per_s": {"float32": 100.0, "float64": 40.0}, "copy_gb_per_s": 20.0}
MEASURED = {**ENVIRONMENT, "ceilings": CEILINGS}
# b=3, s=7, d=10 in float32: 22,680 operations and 3,280 bytes.
INTENSITY = 22_680 / 3_280


def row(**changes: Any) -> dict[str, Any]:
    fields = {**make_workload().to_dict(), "status": "ok", "achieved_gflop_per_s": 50.0, "warnings": None}
    return fields | changes


def roofline_cells(row: dict[str, Any], environment: dict[str, Any]) -> dict[str, Any]:
    """What a table of that row alone is given; None where it is empty."""
    (found,) = with_roofline(pd.DataFrame([row]), environment)[list(COLUMNS)].to_dict("records")
    return {name: None if pd.isna(value) else value for name, value in found.items()}


# -- a row ------------------------------------------------------------------------------------------------------------


def test_the_lower_of_the_two_roofs_counts() -> None:
    # 6.9 operations a byte at 20 GB/s are 138 GFLOP/s, more than the 100 of the products.
    found = roofline_cells(row(), MEASURED)
    assert found["arithmetic_intensity"] == pytest.approx(INTENSITY)
    assert (found["matmul_gflop_per_s"], found["copy_gb_per_s"]) == (100.0, 20.0)
    assert found["roofline_fraction"] == pytest.approx(0.5)
    # At 10 GB/s they are 69.
    slow = {**MEASURED, "ceilings": CEILINGS | {"copy_gb_per_s": 10.0}}
    assert roofline_cells(row(), slow)["roofline_fraction"] == pytest.approx(50.0 / (10 * INTENSITY))


def test_each_element_type_has_its_own_ceiling() -> None:
    found = roofline_cells(row(dtype="float64", achieved_gflop_per_s=10.0), MEASURED)
    assert found["matmul_gflop_per_s"] == 40.0
    assert found["arithmetic_intensity"] == pytest.approx(INTENSITY / 2)
    assert found["roofline_fraction"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("changes", "environment", "empty"),
    [
        ({}, ENVIRONMENT, {"matmul_gflop_per_s", "copy_gb_per_s", "roofline_fraction"}),
        ({"dtype": "float16"}, MEASURED, {"matmul_gflop_per_s", "roofline_fraction"}),
        ({}, MEASURED | {"ceilings": CEILINGS | {"copy_gb_per_s": None}}, {"copy_gb_per_s", "roofline_fraction"}),
        ({"achieved_gflop_per_s": None}, MEASURED, {"roofline_fraction"}),
        ({"status": "oom", "achieved_gflop_per_s": None}, MEASURED, {"arithmetic_intensity", "roofline_fraction"}),
        ({"bias": None}, MEASURED, {"arithmetic_intensity", "roofline_fraction"}),
        ({"dtype": "float8"}, MEASURED, {"arithmetic_intensity", "matmul_gflop_per_s", "roofline_fraction"}),
        (
            {},
            MEASURED | {"ceilings": "gone"},
            {"matmul_gflop_per_s", "copy_gb_per_s", "roofline_fraction"},
        ),
    ],
)
def test_where_something_is_missing_what_follows_from_it_is_empty(
    changes: dict[str, Any], environment: dict[str, Any], empty: set[str]
) -> None:
    found = roofline_cells(row(**changes), environment)
    assert {name for name, value in found.items() if value is None} == empty | {"warnings"}


@pytest.mark.parametrize("fraction", [0.5, 1.0, 1.004])
@pytest.mark.parametrize("is_memory", [False, True])
def test_a_row_below_its_roof_is_not_warned_of(fraction: float, is_memory: bool) -> None:
    assert warning_of(fraction, is_memory=is_memory) is None


def test_a_row_above_its_roof_keeps_its_number_and_says_which_roof_is_too_low() -> None:
    found = roofline_cells(row(achieved_gflop_per_s=112.0, warnings="neighbour, busy"), MEASURED)
    assert found["roofline_fraction"] == pytest.approx(1.12)
    assert found["warnings"].startswith("neighbour, busy; at 112 % of the measured ceiling: ")
    slow = {**MEASURED, "ceilings": CEILINGS | {"copy_gb_per_s": 5.0}}
    assert "of what memory was measured to deliver" in roofline_cells(row(), slow)["warnings"]


def test_a_causal_row_may_pass_its_roof_without_a_warning() -> None:
    found = roofline_cells(row(achieved_gflop_per_s=170.0, causal=True, warnings="neighbour, busy"), MEASURED)
    assert found["roofline_fraction"] == pytest.approx(1.7)
    assert found["warnings"] == "neighbour, busy"


# -- a run ------------------------------------------------------------------------------------------------------------


def test_the_table_of_a_run_says_how_far_each_row_is_from_what_the_machine_can_do(tmp_path: Path) -> None:
    rows = [
        make_row("custom", achieved_gflop_per_s=125.0),
        make_row("official", achieved_gflop_per_s=25.0),
        lost_row("custom", "oom", "too large", point=2),
    ]
    table = load_run(write_run(tmp_path, rows, environment=MEASURED))
    assert table["roofline_fraction"].tolist()[:2] == [pytest.approx(1.25), pytest.approx(0.25)]
    assert table["roofline_fraction"][2] is pd.NA
    assert table["arithmetic_intensity"][2] is pd.NA
    assert table["matmul_gflop_per_s"].tolist() == [100.0] * 3
    assert table["copy_gb_per_s"].tolist() == [20.0] * 3
    assert table["warnings"][0].startswith("at 125 % of the measured ceiling")
    assert table["warnings"][1] is pd.NA


def test_a_run_without_ceilings_is_read_and_has_them_empty(tmp_path: Path) -> None:
    table = load_run(write_run(tmp_path, [make_row(achieved_gflop_per_s=125.0)], schema_version=1))
    for name in ("matmul_gflop_per_s", "copy_gb_per_s", "roofline_fraction"):
        assert table[name][0] is pd.NA
    assert table["arithmetic_intensity"][0] > 0


def test_far_beyond_every_roof_the_work_cannot_have_been_done() -> None:
    for is_memory in (False, True):
        assert "cannot have done the work" in (warning_of(120.95, is_memory=is_memory) or "")
