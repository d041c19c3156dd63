from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from compared_runs import planted_run, without_reference
from made_up_runs import make_row, write_run

from profiling.columns import STATUSES, names
from profiling.compare.columns import COMPARED_COLUMNS, VERDICTS
from profiling.compare.comparing import Comparison, ComparisonRefused, compare_runs, compare_sides, parse_share
from profiling.compare.differences import SERIOUS
from profiling.compare.sides import CompareError, read_side
from profiling.runs import RunError
from profiling.settings import SweepSettings
from profiling.table import write_report
from profiling.workload import Grid

NUMBERS = ("change_percent", "change_low_percent", "change_high_percent", "noise_percent")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, the same measured again, on a slower machine, and with a layer that is slower; and a report of the first.

    Each also lies under results/.
    """
    folder = tmp_path_factory.mktemp("results")
    planted_run(folder / "first", seed=1)
    planted_run(folder / "again", seed=2)
    planted_run(folder / "hot", seed=3, machine=1.3)
    planted_run(folder / "slower", seed=4, slowdown=1.11)
    write_report(folder / "first", folder / "baseline.csv")
    return folder


# What was read once is not read again: most tests hold something against the first run.
side = functools.lru_cache(read_side)


def compare(base: Path, new: Path, **options: Any) -> Comparison:
    return compare_sides(side(base), side(new), **options)


def own(found: Comparison) -> pd.DataFrame:
    return found.rows[found.rows["contender"] == "custom"]


# -- time ---


def test_the_same_measured_again_is_the_same(results: Path) -> None:
    found = compare(results / "first", results / "again")
    assert own(found)["verdict"].tolist() == ["same", "same"]
    assert not len(found.regressions)
    assert own(found)["change_percent"].abs().max() < 1


def test_a_slower_machine_is_no_slower_layer(results: Path) -> None:
    found = compare(results / "first", results / "hot")
    assert own(found)["verdict"].tolist() == ["same", "same"]
    assert (own(found)["latency_ratio"] > 1.25).all()
    assert found.machine is not None
    assert "took 1.295 times as long in NEW (1.293 to 1.298 over 2 rows)" in found.machine
    yardsticks = found.rows[found.rows["is_yardstick"]]
    assert yardsticks["verdict"].tolist() == ["unsure", "unsure"]
    assert not len(found.regressions)


def test_a_slower_layer_is_a_regression_with_its_size_and_its_interval(results: Path) -> None:
    found = compare(results / "first", results / "slower")
    rows = own(found)
    assert rows["verdict"].tolist() == ["slower", "slower"]
    assert rows["measure"].tolist() == ["relative", "relative"]
    assert ((rows["change_low_percent"] < 11) & (rows["change_high_percent"] > 11)).all()
    assert found.regressions["contender"].tolist() == ["custom", "custom"]
    assert found.regressions["regression"].str.startswith("slower by 1").all()
    # What is so much slower in one direction is faster in the other, and no regression.
    back = compare(results / "slower", results / "first")
    assert own(back)["verdict"].tolist() == ["faster", "faster"]
    assert not len(back.regressions)


def test_a_slow_down_below_the_threshold_is_told_and_does_not_count(results: Path) -> None:
    found = compare(results / "first", results / "slower", fail_above=0.15)
    assert found.verdicts["slower"] == 2
    assert not len(found.regressions)


def test_a_report_says_of_relative_times_what_its_run_says(results: Path) -> None:
    by_folder, by_report = (compare(results / name, results / "slower") for name in ("first", "baseline.csv"))
    for name in NUMBERS:
        assert own(by_report)[name].tolist() == pytest.approx(own(by_folder)[name].tolist(), rel=1e-9)
    assert own(by_report)["verdict"].tolist() == ["slower", "slower"]
    assert by_report.differences == ()
    # Of times it holds the middle alone.
    yardsticks = by_report.rows[by_report.rows["is_yardstick"]]
    assert yardsticks["latency_ratio"].notna().all()
    assert yardsticks["latency_low"].isna().all()
    assert yardsticks["reason"].str.contains("no time replicate by replicate").all()


def test_below_five_replicates_everything_is_provisional_and_nothing_fails(results: Path, tmp_path: Path) -> None:
    quick = planted_run(tmp_path / "quick", slowdown=2.0, replicates=1)
    found = compare(results / "first", quick)
    assert own(found)["verdict"].tolist() == ["provisional", "provisional"]
    assert own(found)["change_percent"].tolist() == pytest.approx([100, 100], abs=5)
    assert own(found)["change_low_percent"].isna().all(), "one replicate has no interval"
    assert not len(found.regressions)
    assert any("2 of 2 rows are provisional" in note for note in found.notes)


def test_intervals_too_wide_to_see_the_threshold_are_told_of(tmp_path: Path) -> None:
    noisy = [planted_run(tmp_path / name, noise=0.2, seed=seed) for seed, name in enumerate(("one", "two"))]
    notes = compare(*noisy).notes
    assert any("a slow-down of 5 % would mostly pass unseen" in note for note in notes)


def test_without_the_reference_the_latency_has_to_lie_beyond_what_references_moved_by(
    results: Path, tmp_path: Path
) -> None:
    slower = planted_run(tmp_path / "slower", slowdown=1.4, **without_reference(2))
    found = own(compare(results / "first", slower))
    assert found["measure"].tolist() == ["relative", "latency"]
    assert found["verdict"].tolist() == ["slower", "slower"]
    # The machine, as its references tell at the other point, moved by as much as the layer seems to have.
    hot = planted_run(tmp_path / "hot", machine=1.4, **without_reference(2))
    found = own(compare(results / "first", hot))
    assert found["verdict"].tolist() == ["same", "unsure"]
    assert found["noise_percent"].iloc[1] > 38


def test_without_any_reference_a_latency_claims_nothing(tmp_path: Path) -> None:
    lost = {("official", 1): "oom", ("official", 2): "crashed"}
    no_ratio = {("custom", point): {"speedup": None, "clone_speedup": None} for point in (1, 2)}
    pair = [planted_run(tmp_path / str(slow), slowdown=slow, lost=lost, cells=no_ratio) for slow in (1.0, 3.0)]
    found = compare(*pair)
    assert own(found)["verdict"].tolist() == ["unsure", "unsure"]
    assert own(found)["reason"].str.contains("nothing tells a slower layer from a slower machine").all()
    assert found.machine is None


def test_a_layer_compared_with_another_reference_is_not_compared_by_it(results: Path, tmp_path: Path) -> None:
    other = {("custom", point): {"reference": "official-fused"} for point in (1, 2)}
    found = own(compare(results / "first", planted_run(tmp_path / "other", cells=other)))
    assert found["measure"].tolist() == ["latency", "latency"]
    assert found["speedup_ratio"].isna().all()


# -- what counts whatever the time ---


def test_a_row_that_was_lost_counts_as_a_regression(results: Path, tmp_path: Path) -> None:
    found = compare(results / "first", planted_run(tmp_path / "lost", lost={("custom", 2): "oom"}))
    assert found.regressions[["point_new", "contender", "regression"]].values.tolist() == [
        [2, "custom", "lost: oom in NEW"]
    ]
    row = own(found).iloc[1]
    assert row[["verdict", "change_percent", "latency_new_ms"]].isna().all()
    back = compare(tmp_path / "lost", results / "first")
    assert not len(back.regressions), "what is there again is none"


def test_a_check_that_passed_and_no_longer_does_counts_whatever_the_time(results: Path, tmp_path: Path) -> None:
    wrong = planted_run(tmp_path / "wrong", slowdown=0.98, cells={("custom", 1): {"check_verdict": "fail"}})
    found = compare(results / "first", wrong)
    assert found.regressions["regression"].tolist() == ["its check said pass, and says fail"]
    assert pd.isna(own(found)["verdict"].iloc[0]), "a layer that computes something else is not faster"
    assert "its check says fail in NEW" in own(found)["reason"].iloc[0]
    assert not len(compare(wrong, results / "first").regressions)


def test_memory_is_compared_byte_by_byte(results: Path, tmp_path: Path) -> None:
    cells = {("custom", 1): {"peak_memory_mib": 0.25 + 40 / 2**20}, ("custom", 2): {"peak_memory_mib": 0.27}}
    found = compare(results / "first", planted_run(tmp_path / "bigger", cells=cells))
    assert own(found)["memory_change_bytes"].tolist() == [40, round(0.02 * 2**20)]
    assert own(found)["memory_change_percent"].tolist() == pytest.approx([40 / 2**18 * 100, 8.0], rel=1e-4)
    assert found.regressions["regression"].tolist() == ["needs 8.0 % more memory"]
    none = planted_run(tmp_path / "none", cells={("custom", 1): {"peak_memory_mib": None}})
    assert own(compare(results / "first", none))["memory_change_bytes"].isna().tolist() == [True, False]


def test_an_edited_source_is_told(results: Path, tmp_path: Path) -> None:
    edited = planted_run(tmp_path / "edited", cells={("custom", 1): {"source_hash": "another"}})
    found = compare(results / "first", edited)
    assert own(found)["source_changed"].tolist() == [True, False]
    assert "not of the same source in BASE and NEW: custom" in found.notes


# -- coverage and means ---


def test_what_was_compared_is_told_in_words(results: Path, tmp_path: Path) -> None:
    lost = {("custom", 2): "oom", ("official", 2): "crashed"}
    new = planted_run(tmp_path / "new", lost=lost, state="stopped")
    said = compare(results / "first", new).coverage
    assert said == (
        "custom: 1 of 2 shapes compared; 1: oom in NEW",
        "official: 1 of 2 shapes compared; 1: crashed in NEW",
        "NEW is stopped: 4 of 4 points measured, 5 replicates together",
    )


def test_shapes_and_contenders_on_one_side_alone_are_counted(results: Path, tmp_path: Path) -> None:
    settings = SweepSettings(contenders=("custom", "custom-fused"), time_budget_s=0.02)
    rows = [
        make_row("custom", point=1),
        make_row("custom-fused", point=1),
        make_row("custom", point=3, seq_len=11),
    ]
    grid = Grid(batch_size=(3,), seq_len=(5, 7, 11), num_heads=(2,), d_model=10, device="cpu")
    new = write_run(tmp_path / "new", rows, settings=settings, grid=grid)
    assert compare(results / "first", new).coverage == (
        "custom: 1 of 1 shape compared",
        "1 shape only in BASE, 1 only in NEW",
        "1 contender only in BASE (official), 1 only in NEW (custom-fused)",
    )


def test_a_mean_is_geometric_and_over_what_passed_on_both_sides_alone(tmp_path: Path) -> None:
    def run(name: str, times: list[float], check: str = "pass") -> Path:
        lengths = (5, 7, 11)
        grid = Grid(batch_size=(3,), seq_len=lengths, num_heads=(2,), d_model=10, device="cpu")
        rows = [
            make_row(
                "custom", point=point, seq_len=length, latency_median_ms=time, speedup=8 / time, check_verdict=verdict
            )
            for point, (length, time, verdict) in enumerate(
                zip(lengths, times, ("pass", "pass", check), strict=True), start=1
            )
        ]
        return write_run(tmp_path / name, rows, grid=grid)

    found = compare(run("base", [1.0, 2.0, 3.0]), run("new", [2.0, 16.0, 300.0], "fail"))
    means = {each.measure: (each.contender, each.ratio, each.num_shapes) for each in found.geomeans}
    assert means == {
        "relative": ("custom", pytest.approx(4.0), 2),
        "latency": ("custom", pytest.approx(4.0), 2),
    }


def test_one_contender_can_be_compared_alone(results: Path) -> None:
    found = compare(results / "first", results / "hot", contenders=["custom"])
    assert found.rows["contender"].unique().tolist() == ["custom"]
    assert found.coverage == ("custom: 2 of 2 shapes compared",)
    assert found.machine is not None, "the references still tell of the machine"
    with pytest.raises(CompareError, match="contender must be one of custom, official, not 'mine'"):
        compare(results / "first", results / "hot", contenders=["mine"])


# -- the environment ---


def test_what_forbids_a_comparison_is_what_can_turn_a_ratio_round() -> None:
    assert SERIOUS == ("device_name", "torch_version", "threads", "heap")


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("device_name", {"environment": {"device_name": "Another Processor"}}),
        ("torch_version", {"environment": {"torch_version": "2.14.1"}}),
        ("heap", {"environment": {"heap_pinned": False}}),
        ("threads", {"cells": {(name, point): {"threads": 3} for name in ("custom", "official") for point in (1, 2)}}),
    ],
)
def test_a_comparison_is_refused_where_that_differs_and_marked_when_made_all_the_same(
    results: Path, tmp_path: Path, field: str, changes: dict[str, Any]
) -> None:
    other = planted_run(tmp_path / "other", **changes)
    with pytest.raises(ComparisonRefused, match=f"not measured alike.*{field}: ") as refused:
        compare(results / "first", other)
    assert [each.field for each in refused.value.differences if each.is_serious] == [field]
    found = compare(results / "first", other, anyway=True)
    assert found.is_marked
    assert any(f"in spite of a difference in {field}" in note for note in found.notes)
    assert len(found.rows) == 4


def test_lesser_differences_are_told_field_by_field(results: Path, tmp_path: Path) -> None:
    environment = {"commit": "fedcba", "python_version": "3.12.1", "kernel": "6.1", "blas": "OpenBLAS"}
    other = planted_run(tmp_path / "other", environment=environment, host="elsewhere")
    found = compare(results / "first", other)
    assert not found.is_marked
    assert [(each.field, each.new) for each in found.differences] == [
        ("blas", "OpenBLAS"),
        ("python_version", "3.12.1"),
        ("commit", "fedcba"),
        ("machine", "elsewhere"),
        ("kernel", "6.1"),
    ]
    assert found.differences[0].sentence == "blas: not told in BASE, OpenBLAS in NEW"


def test_a_machine_that_one_side_does_not_tell_is_no_reason_to_refuse(results: Path, tmp_path: Path) -> None:
    silent = planted_run(tmp_path / "silent", environment={"device_name": None})
    found = compare(results / "first", silent)
    assert not found.is_marked
    assert "one side does not tell its device_name: whether that is the same nobody knows" in found.notes


def test_a_run_compared_with_itself_says_so(results: Path) -> None:
    assert "BASE and NEW are the same run" in compare(results / "first", results / "baseline.csv").notes


# -- sides ---


def test_a_side_is_a_folder_a_name_or_a_report(results: Path) -> None:
    assert read_side("first", results).path == results / "first"
    assert read_side(results / "first").run is not None
    assert len(compare_runs("first", "first", results=results).rows) == 4
    report = read_side(results / "baseline.csv")
    assert report.run is None
    assert report.title == f"{results / 'baseline.csv'} (run first)"


@pytest.mark.parametrize("given", ["none", "no/such/folder", "../outside", "x" * 300])
def test_what_is_neither_is_refused_in_a_sentence(results: Path, given: str) -> None:
    with pytest.raises((CompareError, RunError)) as refused:
        read_side(given, results)
    assert len(str(refused.value)) < 400


def test_nothing_in_common_is_nothing_to_compare(results: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [make_row("custom", batch_size=13)])
    with pytest.raises(CompareError, match="nothing to compare"):
        compare(results / "first", other)
    with pytest.raises(CompareError, match="holds no row that was measured"):
        compare(results / "first", write_run(tmp_path / "empty", []))


@pytest.mark.parametrize("base", sorted(STATUSES))
@pytest.mark.parametrize("new", sorted(STATUSES))
def test_rows_of_which_none_was_measured_on_both_sides_are_no_comparison_that_passes(
    tmp_path: Path, base: str, new: str
) -> None:
    sides = [write_run(tmp_path / name, [make_row("custom", status=name)]) for name in dict.fromkeys((base, new))]
    if base == "ok":
        assert len(compare(sides[0], sides[-1]).regressions) == (new != "ok")
        return
    with pytest.raises(CompareError, match=f"no row was measured on both sides: custom: 0 of 1 shape.*{base} in "):
        compare(sides[0], sides[-1])


def test_a_damaged_report_is_read_as_far_as_it_is_whole(results: Path, tmp_path: Path) -> None:
    lines = (results / "baseline.csv").read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].replace(",", "")
    lines[3] = lines[3].replace(",ok,", ",fine,", 1)
    torn = tmp_path / "torn.csv"
    torn.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = compare(torn, results / "again")
    assert found.problems == (
        "BASE: 1 line of torn.csv could not be read",
        "BASE: 1 row of torn.csv left out: what was measured there is not told",
    )
    assert len(found.rows) == 2


def test_a_report_of_two_runs_is_refused(results: Path, tmp_path: Path) -> None:
    text = (results / "baseline.csv").read_text(encoding="utf-8")
    twice = tmp_path / "twice.csv"
    twice.write_text(text + text.partition("\n")[2], encoding="utf-8")
    with pytest.raises(CompareError, match="'custom' at b 3 s 5 h 2 d 10 more than once"):
        compare(twice, results / "again")


def test_a_table_of_something_else_is_refused(results: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(RunError, match="not a table as this program writes it"):
        compare(other, results / "again")


def test_a_report_of_an_earlier_version_lacks_columns_and_can_be_compared(results: Path, tmp_path: Path) -> None:
    table = pd.read_csv(results / "baseline.csv", dtype=str, keep_default_na=False)
    older = tmp_path / "older.csv"
    table.drop(columns=["clone_speedup", "kernel", "repeat_command", "heap"]).to_csv(older, index=False)
    found = compare(older, results / "slower")
    assert own(found)["verdict"].tolist() == ["slower", "slower"]
    assert [each.field for each in found.differences] == ["heap"]


def test_a_name_that_the_export_made_safe_for_spreadsheets_is_the_same_contender(tmp_path: Path) -> None:
    name = "=a/mine.py:Mine"
    settings = SweepSettings(contenders=(name,), layers={name: "/somewhere/=a/mine.py:Mine"}, time_budget_s=0.02)
    row = make_row("custom") | {"contender": name}
    run = write_run(tmp_path / "run", [row], settings=settings)
    found = compare(write_report(run), run)
    assert found.rows["contender"].tolist() == [name]


def test_a_run_of_an_odd_spread_is_still_compared(results: Path, tmp_path: Path) -> None:
    rows = [make_row("custom", replicate=number, speedup=10.0 ** (20 * (-1) ** number)) for number in (1, 2)]
    settings = SweepSettings(contenders=("custom", "official"), replicates=2, time_budget_s=0.02)
    found = compare(results / "first", write_run(tmp_path / "odd", rows, settings=settings))
    json.dumps(found.to_dict(), allow_nan=False)


# -- the result ---


def test_the_result_holds_every_column_in_its_kind_and_is_ready_for_json(results: Path) -> None:
    found = compare(results / "baseline.csv", results / "slower")
    assert found.rows.columns.tolist() == names(COMPARED_COLUMNS)
    kinds = {"int": "Int64", "float": "Float64", "bool": "boolean", "text": "string"}
    assert {name: str(each) for name, each in found.rows.dtypes.items()} == {
        column.name: kinds[column.kind] for column in COMPARED_COLUMNS
    }
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["num_regressions"] == 2
    assert tuple(told["verdicts"]) == VERDICTS
    assert told["rows"][0]["latency_low"] is None, "what a report does not hold is empty"
    assert "NaN" not in json.dumps(told)


@pytest.mark.parametrize(
    ("text", "share"),
    [("5%", 0.05), ("0.05", 0.05), (" 7.5 % ", 0.075), ("0", 0.0), ("1", 1.0), (".5", 0.5), ("150%", 1.5)],
)
def test_a_threshold_is_a_share(text: str, share: float) -> None:
    assert math.isclose(parse_share(text), share)


@pytest.mark.parametrize("text", ["5", "", "%", "-5%", "nan", "inf", "1e-2", "5%%", "5 percent", "2000%", "٥%", "1,5%"])
def test_a_threshold_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CompareError, match=r"fail_above must be a share such as 5% or 0\.05, not"):
        parse_share(text)
