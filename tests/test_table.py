from __future__ import annotations

import csv
import dataclasses
import io
import math
import statistics
import tracemalloc
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import lost_row, make_row, make_run, write_run

from profiling.columns import ENVIRONMENT_COLUMNS, MEASUREMENT_COLUMNS, REPORT_COLUMNS, names
from profiling.intervals import t_quantile
from profiling.joining import join
from profiling.runs import MEASUREMENTS_FILE, RunError
from profiling.settings import SweepSettings
from profiling.table import load_measurements, load_run, load_samples, report_csv, write_report

GOLDEN = Path(__file__).parent / "golden" / "report.csv"


def golden_run(folder: Path) -> Path:
    """Two replicates of two points: one contender whole, one lost in part, one lost in all, awkward text."""
    rows = [
        make_row("custom", point=1, latency_median_ms=2.0, speedup=2.0, max_abs_error=0.0),
        make_row("official", point=1, latency_median_ms=4.0),
        lost_row("custom", "oom", "can't allocate memory: you tried to allocate 12, or more", point=2),
        lost_row("official", "crashed", '=cmd|" /C calc"!A0', point=2),
        make_row("custom", point=1, replicate=2, latency_median_ms=3.0, speedup=2.0, max_abs_error=math.inf),
        make_row("official", point=1, replicate=2, latency_median_ms=5.0),
        make_row(
            "custom",
            point=2,
            replicate=2,
            speedup=None,
            clone_speedup=None,
            noise_floor=None,
            warnings="neighbour, busy",
        ),
        lost_row("official", "timeout", "gave no answer within 60 s", point=2, replicate=2),
    ]
    return write_run(folder, rows)


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    return load_run(golden_run(tmp_path / "made-up"))


def cell(table: pd.DataFrame, point: int, contender: str, name: str) -> Any:
    return table[(table["point"] == point) & (table["contender"] == contender)].iloc[0][name]


def test_the_report_of_a_made_up_run_is_the_golden_file(table: pd.DataFrame) -> None:
    assert report_csv(table) == GOLDEN.read_text(encoding="utf-8")


def test_there_is_one_row_per_point_and_contender_in_the_order_asked_for(table: pd.DataFrame) -> None:
    assert list(zip(table["point"], table["contender"], strict=True)) == [
        (1, "custom"),
        (1, "official"),
        (2, "custom"),
        (2, "official"),
    ]
    assert list(table.columns) == names(REPORT_COLUMNS)


def test_every_column_has_its_true_type(table: pd.DataFrame) -> None:
    kinds = {"int": "Int64", "float": "Float64", "bool": "boolean", "text": "string"}
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == {
        column.name: kinds[column.kind] for column in REPORT_COLUMNS
    }


def test_times_are_joined_by_their_median_counts_by_their_sum_and_errors_by_their_worst(table: pd.DataFrame) -> None:
    assert cell(table, 1, "custom", "latency_median_ms") == 2.5
    assert cell(table, 1, "custom", "num_samples") == 10
    assert cell(table, 1, "custom", "max_abs_error") == math.inf
    assert cell(table, 1, "custom", "num_replicates") == 2


def test_speedups_are_joined_as_logarithms_with_students_interval(tmp_path: Path) -> None:
    # 2 and 1/2: mean 0 in logarithms, standard error ln 2, one degree of freedom.
    table = load_run(write_run(tmp_path, [make_row(replicate=r, speedup=s) for r, s in ((1, 2.0), (2, 0.5))]))
    assert cell(table, 1, "custom", "speedup") == pytest.approx(1.0)
    assert cell(table, 1, "custom", "speedup_high") == pytest.approx(2 ** t_quantile(0.95, 1))
    assert cell(table, 1, "custom", "speedup_low") == pytest.approx(2 ** -t_quantile(0.95, 1))
    assert cell(table, 1, "custom", "speed_verdict") == "provisional"


def test_a_failed_cell_is_a_row_with_empty_numbers(table: pd.DataFrame) -> None:
    assert cell(table, 2, "official", "status") == "crashed"
    for column in REPORT_COLUMNS:
        if column.kind == "float" and column not in ENVIRONMENT_COLUMNS:
            assert cell(table, 2, "official", column.name) is pd.NA


def test_a_point_that_one_replicate_lost_keeps_the_numbers_and_says_so(table: pd.DataFrame) -> None:
    assert cell(table, 2, "custom", "status") == "ok"
    assert cell(table, 2, "custom", "num_replicates") == 1
    assert cell(table, 2, "custom", "speedup") is pd.NA
    assert cell(table, 2, "custom", "warnings") == (
        "neighbour, busy; 1 of 2 replicates not measured: oom, can't allocate memory: you tried to allocate 12, or more"
    )


def test_the_worst_verdict_of_the_replicates_speaks(tmp_path: Path) -> None:
    rows = [
        make_row(replicate=replicate, check_verdict=verdict) for replicate, verdict in enumerate(["pass", "fail"], 1)
    ]
    assert load_run(write_run(tmp_path, rows)).iloc[0]["check_verdict"] == "fail"


def test_the_largest_peak_and_error_of_the_replicates_stand(tmp_path: Path) -> None:
    cells = [(1, 0.25, 3e-7), (2, 0.75, 1e-7), (3, 0.5, 2e-7)]
    rows = [make_row(replicate=r, peak_memory_mib=mib, max_abs_error_oracle=error) for r, mib, error in cells]
    joined = load_run(write_run(tmp_path, rows)).iloc[0]
    assert (joined["peak_memory_mib"], joined["max_abs_error_oracle"]) == (0.75, 3e-7)


def test_the_interval_is_that_of_all_compared_contenders_together_and_the_clones_its_own(tmp_path: Path) -> None:
    # Two compared: 97.5 % for each, t(4) = 3.4954; the clone is the control and has t(4) = 2.7764 to itself.
    both = SweepSettings(contenders=("custom", "custom-fused"), replicates=5)
    logs, clones = [0.10, 0.12, 0.11, 0.13, 0.09], [0.019, 0.034, 0.043, 0.029, 0.037]
    rows = [
        make_row(name, replicate=r, speedup=math.exp(log), clone_speedup=math.exp(clone))
        for r, (log, clone) in enumerate(zip(logs, clones, strict=True), 1)
        for name in ("custom", "custom-fused")
    ]
    row = load_run(write_run(tmp_path, rows, settings=both)).iloc[0]
    half = 3.4954 * statistics.stdev(logs) / math.sqrt(5)
    assert math.log(row["speedup_low"]) == pytest.approx(0.11 - half, rel=1e-4)
    assert math.log(row["speedup_high"]) == pytest.approx(0.11 + half, rel=1e-4)
    # The clone's interval, 0.0324 ± 0.0112, lies wholly above 2 % so; widened by the other contender it would not.
    assert row["speed_verdict"] == "unsure"
    assert "a clone of the reference differs from it by 3.3 % too" in row["speed_verdict_reason"]
    assert row["noise_floor"] == pytest.approx(math.exp(0.0324) - 1)


def test_a_clone_counts_in_the_replicates_that_have_a_speedup_alone(tmp_path: Path) -> None:
    rows = [make_row(replicate=r, speedup=1.5, clone_speedup=1.0) for r in range(1, 6)]
    rows.append(make_row(replicate=6, speedup=None, clone_speedup=3.0))
    row = load_run(write_run(tmp_path, rows)).iloc[0]
    assert (row["num_replicates"], row["num_speedups"], row["clone_speedup"]) == (6, 5, 1.0)


def test_five_replicates_allow_a_verdict(tmp_path: Path) -> None:
    rows = [make_row(replicate=r, speedup=s, clone_speedup=1.0) for r, s in enumerate([1.5, 1.51, 1.52, 1.5, 1.49], 1)]
    assert load_run(write_run(tmp_path, rows)).iloc[0]["speed_verdict"] == "faster"


def test_a_run_without_rows_is_an_empty_table_of_the_same_columns(tmp_path: Path) -> None:
    empty = load_run(write_run(tmp_path, []))
    assert empty.empty
    assert list(empty.columns) == names(REPORT_COLUMNS)
    assert report_csv(empty) == ",".join(names(REPORT_COLUMNS)) + "\n"
    assert load_samples(tmp_path).empty


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        load_run(tmp_path)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "=HYPERLINK(1)"])
def test_a_text_that_a_spreadsheet_takes_for_a_formula_is_quoted(tmp_path: Path, text: str) -> None:
    table = load_run(write_run(tmp_path, [lost_row("custom", "error", text)]))
    table["status_reason"] = pd.array([text], dtype="string")  # also what the writer would not have let through
    (row,) = csv.DictReader(io.StringIO(report_csv(table)))
    assert row["status_reason"] == "'" + text


def test_an_ordinary_text_and_a_negative_number_are_not_quoted(tmp_path: Path) -> None:
    table = load_run(write_run(tmp_path, [make_row(warnings="a=b, c")])).assign(max_abs_error_oracle=-0.5)
    (row,) = csv.DictReader(io.StringIO(report_csv(table)))
    assert (row["max_abs_error_oracle"], row["warnings"]) == ("-0.5", "a=b, c")


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(st.floats(min_value=5e-324, max_value=1e30), st.integers(0, 2**63 - 1)),
        min_size=20,
        max_size=40,
    )
)
def test_numbers_survive_the_way_through_both_files_in_full_precision(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[float, int]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "precision"
    (folder / MEASUREMENTS_FILE).unlink(missing_ok=True)
    rows = [make_row(point=point, latency_median_ms=cell[0], seed=cell[1]) for point, cell in enumerate(cells, 1)]
    table = load_run(write_run(folder, rows))
    assert list(zip(table["latency_median_ms"], table["seed"], strict=True)) == cells
    back = csv.DictReader(io.StringIO(report_csv(table)))
    assert [(float(row["latency_median_ms"]), int(row["seed"])) for row in back] == cells


def test_large_counts_beside_an_empty_cell_keep_every_digit(tmp_path: Path) -> None:
    rows = [make_row("custom", num_samples=2**53 + 1), lost_row("official", "oom", "x")]
    assert load_run(write_run(tmp_path, rows)).iloc[0]["num_samples"] == 2**53 + 1


def test_a_cell_that_is_no_number_is_missing(tmp_path: Path) -> None:
    rows = [make_row(latency_median_ms="fast", num_samples="2.5", bias="perhaps")]
    row = load_measurements(write_run(tmp_path, rows)).iloc[0]
    assert row["latency_median_ms"] is pd.NA
    assert row["num_samples"] is pd.NA
    assert row["bias"] is pd.NA


def test_the_report_is_written_into_the_runs_folder_or_where_it_is_asked_for(tmp_path: Path) -> None:
    folder = golden_run(tmp_path / "made-up")
    assert write_report(folder) == folder / "report.csv"
    elsewhere = write_report(folder, tmp_path / "mine.csv")
    assert elsewhere.read_bytes() == (folder / "report.csv").read_bytes() == report_csv(load_run(folder)).encode()


def test_measurements_are_one_row_per_replicate(tmp_path: Path) -> None:
    rows = load_measurements(golden_run(tmp_path))
    assert len(rows) == 8
    assert list(rows.columns) == names(MEASUREMENT_COLUMNS)
    assert rows["head_dim"].tolist() == [5] * 8


def test_the_environment_stands_in_every_row(table: pd.DataFrame) -> None:
    assert table["torch_version"].tolist() == ["2.13.0"] * 4
    assert table["heap"].tolist() == [make_run().settings.heap] * 4
    assert table["time_budget_s"].tolist() == [0.02] * 4
    assert table["blas"].isna().all(), "not told by this run"
    assert table["repeat_command"].str.startswith("python -m profiling sweep --batch-size 3 ").all()


@pytest.mark.parametrize(
    ("asked", "had", "told"),
    [
        ("pinned", True, "pinned"),
        ("pinned", False, "as-is"),
        ("pinned", None, "pinned"),
        ("as-is", False, "as-is"),
    ],
)
def test_a_heap_that_could_not_be_pinned_is_told_as_it_was(
    tmp_path: Path, asked: str, had: bool | None, told: str
) -> None:
    environment = {"torch_version": "2.13.0", "blas": "MKL 2024.2"} | ({} if had is None else {"heap_pinned": had})
    run_settings = dataclasses.replace(make_run().settings, heap=asked)
    row = load_run(write_run(tmp_path, [make_row()], settings=run_settings, environment=environment)).iloc[0]
    assert (row["heap"], row["blas"]) == (told, "MKL 2024.2")
    assert row["repeat_command"].endswith(f"--heap {asked}"), "what was asked for is asked for again"


@pytest.mark.parametrize("speedup", [0.0, -1.0, math.inf])
def test_a_speedup_that_cannot_be_is_left_out(tmp_path: Path, speedup: float) -> None:
    write_run(tmp_path, [make_row(speedup=speedup), make_row(replicate=2, speedup=2.0)])
    assert load_run(tmp_path)["speedup"].tolist() == [pytest.approx(2.0)]


def test_a_row_that_lacks_its_place_is_none(tmp_path: Path) -> None:
    write_run(tmp_path, [make_row(), make_row(point=2, seq_len=None)])
    assert load_run(tmp_path)["point"].tolist() == [1]


def test_an_environment_that_is_no_text_is_shown_as_text(tmp_path: Path) -> None:
    write_run(tmp_path, [make_row()], environment={"torch_version": ["2", "13"], "platform": {"a": 1}})
    row = load_run(tmp_path).iloc[0]
    assert (row["torch_version"], row["platform"]) == ("['2', '13']", "{'a': 1}")


@pytest.mark.parametrize("name", ["measurements.csv", "samples.csv", "run.json", "notes.json"])
def test_a_report_never_takes_the_place_of_what_was_measured(tmp_path: Path, name: str) -> None:
    write_run(tmp_path, [make_row()])
    with pytest.raises(RunError, match="must not take its place"):
        write_report(tmp_path, tmp_path / name)


def test_a_warning_says_in_which_replicates_where_not_in_all(tmp_path: Path) -> None:
    said = {1: "busy; drift", 2: "drift", 3: "busy; drift"}
    rows = [make_row(replicate=replicate, warnings=text) for replicate, text in said.items()]
    row = load_run(write_run(tmp_path, rows)).iloc[0]
    assert row["warnings"] == "busy (replicate 1, 3); drift"


@given(
    states=st.lists(
        st.tuples(st.sampled_from(["busy", "busy; drift", "drift", None, "lost", "lost"]), st.sampled_from([3, 5, 7])),
        min_size=1,
        max_size=11,
    )
)
@settings(max_examples=10, deadline=None)
def test_warnings_of_many_points_are_each_their_own(tmp_path_factory: pytest.TempPathFactory, states: Any) -> None:
    rows, expected = [], {}
    for point, (said, num_replicates) in enumerate(states, start=1):
        for replicate in range(1, num_replicates):
            text = None if said == "lost" else said
            rows.append(make_row(point=point, replicate=replicate, warnings=text))
        last = {"point": point, "replicate": num_replicates}
        rows.append(lost_row("custom", "oom", "5 GiB", **last) if said == "lost" else make_row(**last, warnings=said))
        lost = f"1 of {num_replicates} replicates not measured: oom, 5 GiB"
        expected[point] = lost if said == "lost" else said
    table = load_run(write_run(tmp_path_factory.mktemp("run"), rows))
    told = table.set_index("point")["warnings"].astype(object).where(table.set_index("point")["warnings"].notna(), None)
    assert told.to_dict() == expected


def test_joining_needs_little_beside_its_rows(tmp_path: Path) -> None:
    rows = load_measurements(write_run(tmp_path, [make_row(point=point, warnings="busy") for point in range(1, 502)]))
    join(rows, 1)  # what is loaded only then
    tracemalloc.start()
    join(rows, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * rows.memory_usage(deep=True).sum()


@pytest.mark.parametrize("verdict", ["fail", "error"])
def test_a_speed_up_of_a_layer_that_fails_the_check_has_no_verdict(tmp_path: Path, verdict: str) -> None:
    rows = [make_row(replicate=replicate, check_verdict=verdict) for replicate in range(1, 6)]
    row = load_run(write_run(tmp_path, rows)).iloc[0]
    assert (row["speedup"], row["speed_verdict"]) == (pytest.approx(1.5), pd.NA)
    assert row["speed_verdict_reason"] == f"does not count: its check says {verdict}"
