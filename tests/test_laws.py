from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from dashboard_samples import make_run, without_numbers

from profiling.charts.law_chart import law_alt, law_chart
from profiling.cli import main
from profiling.laws.growth import LAST_SIZES, MEMORY, TIME, Law, laws_of
from profiling.laws.law_words import fixed_words, law_words
from profiling.settings import SweepSettings
from profiling.table import load_measurements, load_run
from profiling.workload import Grid

SIZES = (96, 192, 384, 768, 1536)
SETTINGS = SweepSettings(contenders=("custom", "official"), replicates=3)


def planted(
    folder: Path, *, seq_len: tuple[int, ...] = SIZES, changes: dict[tuple[int, str], Any] | None = None, **grid: Any
) -> pd.DataFrame:
    """A run whose custom layer takes S^1.5 ms and holds 1.5 times its scores and 5 tensors of its input's size."""
    sizes = {"batch_size": (3,), "num_heads": (7,), "d_model": 56} | grid
    swept = Grid(seq_len=seq_len, device="cpu", **sizes)
    cells = {}
    for point, workload in enumerate(swept.workloads(device="cpu", threads=1), start=1):
        scores = workload.batch_size * workload.num_heads * workload.seq_len**2
        tokens = workload.batch_size * workload.seq_len * workload.d_model
        cells[point, "custom"] = {
            "latency_median_ms": 0.01 * workload.batch_size * workload.seq_len**1.5,
            "peak_memory_mib": 4 * (1.5 * scores + 5 * tokens) / 2**20,
        }
    make_run(folder, grid=swept, settings=SETTINGS, changes=cells | (changes or {}))
    return load_run(folder)


def law(laws: list[Law], quantity: str, axis: str = "seq_len", contender: str = "custom") -> Law:
    (found,) = [each for each in laws if (each.contender, each.quantity, each.axis) == (contender, quantity, axis)]
    return found


def test_time_and_memory_of_a_planted_run_follow_the_planted_laws(tmp_path: Path) -> None:
    laws = laws_of(planted(tmp_path / "run"))
    time, memory = law(laws, TIME), law(laws, MEMORY)
    assert time.exponent is not None
    assert time.exponent.value == pytest.approx(1.5)
    assert time.basis == "all sizes"
    # 1.5·7·S² + 5·56·S: at 1,536 the exponent is (280 + 2·16,128) / (280 + 16,128).
    assert memory.exponent is not None
    assert memory.exponent.value == pytest.approx(32_536 / 16_408)
    assert memory.score_copies == pytest.approx(1.5)
    assert law_words(memory) == (
        "custom: peak memory ~ S^1.98 [1.98, 1.98] at seq_len 1,536 (it bends: over all 5 sizes, 96 to 1,536, it is "
        "S^1.92): the scores are materialised (1.5 times their size at once)"
    )


def test_a_law_calls_its_contender_by_the_name_that_it_is_given(tmp_path: Path) -> None:
    for told in laws_of(planted(tmp_path / "run")):
        assert law_words(told, {"custom": "Mine"}) == law_words(told).replace("custom:", "Mine:")
    assert law_words(told, {told.contender: "Mine"}).startswith("Mine: ")


def test_the_exponent_of_the_operations_stands_beside_that_of_the_time(tmp_path: Path) -> None:
    laws = laws_of(planted(tmp_path / "run"))
    # Between 8·S·d² and 4·S²·d, fitted over the same sizes.
    assert 1.5 < (law(laws, TIME).expected or 0) < 2
    assert "more slowly than its operations, S^1." in law_words(law(laws, TIME))


def test_a_layer_without_scores_is_told_so(tmp_path: Path) -> None:
    linear = {(point, "custom"): {"peak_memory_mib": 0.25 * size} for point, size in enumerate(SIZES, start=1)}
    memory = law(laws_of(planted(tmp_path / "run", changes=linear)), MEMORY)
    assert law_words(memory) == (
        "custom: peak memory ~ S^1.00 [1.00, 1.00] (5 sizes, 96 to 1,536): the scores are not materialised"
    )


def test_a_mask_of_a_square_is_not_taken_for_the_scores(tmp_path: Path) -> None:
    # S² elements against B·H·S² = 21 of them.
    masked = {
        (point, "custom"): {"peak_memory_mib": 4 * (8 * size**2 + 900 * size) / 2**20}
        for point, size in enumerate(SIZES, start=1)
    }
    words = law_words(law(laws_of(planted(tmp_path / "run", changes=masked)), MEMORY))
    assert words.endswith("something grows with S², 0.38 times the size of the scores: a part of them, or a mask")


def test_rows_lost_or_wrong_are_left_out_and_counted(tmp_path: Path) -> None:
    changes = {
        (5, "custom"): without_numbers("oom", "asked for 9 GiB"),
        (4, "custom"): {"check_verdict": "fail", "latency_median_ms": 1e6, "peak_memory_mib": 1e6},
    }
    found = law(laws_of(planted(tmp_path / "run", changes=changes)), TIME)
    assert found.sizes == (96, 192, 384)
    assert found.exponent is not None
    assert found.exponent.value == pytest.approx(1.5)
    assert dict(found.left_out) == {"oom": 1, "check not passed": 1}
    assert law_words(found).endswith("; 2 rows left out (1 check not passed, 1 oom)")


def test_sizes_in_any_order_give_the_same_law(tmp_path: Path) -> None:
    mixed = laws_of(planted(tmp_path / "mixed", seq_len=(768, 96, 1536, 384, 192)))
    rising = laws_of(planted(tmp_path / "rising"))
    for quantity in (TIME, MEMORY):
        assert law(mixed, quantity).sizes == SIZES
        assert law_words(law(mixed, quantity)) == law_words(law(rising, quantity))


def test_memory_that_no_device_told_is_counted_and_not_taken_for_0(tmp_path: Path) -> None:
    changes = {(point, "custom"): {"peak_memory_mib": None} for point in range(1, 6)}
    found = law(laws_of(planted(tmp_path / "run", changes=changes)), MEMORY)
    assert (found.sizes, found.exponent, dict(found.left_out)) == ((), None, {"not measured": 5})
    assert "0 sizes, and a law needs at least 3" in law_words(found)


def test_batch_sizes_have_a_law_of_their_own(tmp_path: Path) -> None:
    laws = laws_of(planted(tmp_path / "run", seq_len=(160,), batch_size=(2, 3, 5, 11)))
    found = law(laws, TIME, "batch_size")
    assert found.exponent is not None
    assert found.exponent.value == pytest.approx(1)
    assert law_words(found) == (
        "custom: time ~ B^1.00 [1.00, 1.00] (4 sizes, 2 to 11; by the fit's own scatter, without replicates): as its "
        "operations do, B^1.00"
    )
    assert {each.axis for each in laws} == {"batch_size"}


def test_with_heads_it_is_said_whether_the_width_or_the_head_stays(tmp_path: Path) -> None:
    wide = laws_of(planted(tmp_path / "wide", seq_len=(64,), num_heads=(2, 4, 8, 16), d_model=None, head_dim=13))
    found = law(wide, TIME, "num_heads")
    assert fixed_words(found.fixed) == "batch 3, seq_len 64, head_dim 13 fixed, so that d_model grows"
    assert found.expected is not None
    assert found.expected > 1.2  # 8·b·s·d² and 4·b·s²·d, d growing
    narrow = laws_of(planted(tmp_path / "narrow", seq_len=(64,), num_heads=(2, 4, 8, 16), d_model=112))
    assert fixed_words(law(narrow, TIME, "num_heads").fixed) == "batch 3, seq_len 64, d_model 112 fixed"
    assert law(narrow, TIME, "num_heads").expected == pytest.approx(0, abs=1e-9)


def test_each_series_of_a_grid_has_its_own_law(tmp_path: Path) -> None:
    laws = laws_of(planted(tmp_path / "run", batch_size=(1, 3)), ["seq_len"], [TIME])
    assert {(each.contender, each.fixed["batch_size"]) for each in laws} == {
        *(("custom", 1), ("custom", 3)),
        *(("official", 1), ("official", 3)),
    }
    told = [each.exponent.value for each in laws if each.contender == "custom" and each.exponent]
    assert told == [pytest.approx(1.5), pytest.approx(1.5)]


def test_the_replicates_of_a_run_are_what_the_interval_of_its_times_rests_on(tmp_path: Path) -> None:
    table = planted(tmp_path / "run")
    measured = load_measurements(tmp_path / "run")
    assert measured["replicate"].nunique() == 3
    is_third = measured["replicate"] == 3
    # A whole replicate that is slower changes no exponent; one size that is slower in one replicate makes it uncertain.
    measured.loc[is_third, "latency_median_ms"] *= 1.3
    steady = law(laws_of(table, ["seq_len"], [TIME], replicates=measured), TIME)
    measured.loc[is_third & (measured["seq_len"] == 384), "latency_median_ms"] *= 1.2
    shaken = law(laws_of(table, ["seq_len"], [TIME], replicates=measured), TIME)
    assert steady.num_replicates == shaken.num_replicates == 3
    assert steady.exponent is not None
    assert shaken.exponent is not None
    assert steady.exponent.value == pytest.approx(1.5)
    assert steady.exponent.half_width < 0.05 < shaken.exponent.half_width
    assert "without replicates" not in law_words(steady)


def test_a_law_beyond_a_step_says_that_the_times_step_before_its_sizes(tmp_path: Path) -> None:
    all_sizes = law(laws_of(planted(tmp_path / "run"), ["seq_len"], [TIME]), TIME)
    beyond = dataclasses.replace(all_sizes, basis=LAST_SIZES, num_fitted=3, num_replicates=5, expected=None)
    assert law_words(beyond) == (
        "custom: time ~ S^1.50 [1.50, 1.50] over the last 3 sizes, 384 to 1,536 (the times step before them: over all "
        "5 sizes, 96 to 1,536, it is S^1.50)"
    )


def test_a_replicate_that_lost_a_size_does_not_count_and_one_alone_tells_no_error(tmp_path: Path) -> None:
    table = planted(tmp_path / "run")
    measured = load_measurements(tmp_path / "run")
    lost = measured[(measured["replicate"] != 2) | (measured["seq_len"] != 768)]
    assert law(laws_of(table, ["seq_len"], [TIME], replicates=lost), TIME).num_replicates == 2
    alone = measured[(measured["replicate"] == 1) | (measured["seq_len"] != 768)]
    told = law(laws_of(table, ["seq_len"], [TIME], replicates=alone), TIME)
    assert told.num_replicates == 0
    assert "by the fit's own scatter, without replicates" in law_words(told)


# -- chart and command ------------------------------------------------------------------------------------------------


def test_the_chart_draws_what_was_measured_and_the_told_law_through_it(tmp_path: Path) -> None:
    laws = laws_of(planted(tmp_path / "run"), ["seq_len"], [MEMORY])
    figure = law_chart(laws)
    line, marks = figure.data[0], figure.data[1]
    assert list(marks.x) == list(SIZES)
    assert marks.y[-1] == pytest.approx(line.y[-1], rel=1e-3)
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert "the scores are materialised" in marks.text[0].replace("<br>", " ")
    assert "custom: peak memory ~ S^1.98" in law_alt(laws)
    with pytest.raises(ValueError, match="one quantity along one axis"):
        law_chart(laws_of(load_run(tmp_path / "run")))


def test_a_law_that_is_not_told_is_not_drawn(tmp_path: Path) -> None:
    laws = laws_of(planted(tmp_path / "run", seq_len=(96, 192)), ["seq_len"], [TIME])
    assert [trace.mode for trace in law_chart(laws).data] == ["markers"] * 2


def test_a_bend_that_no_curve_of_three_terms_follows_is_told_and_not_drawn(tmp_path: Path) -> None:
    told = law(laws_of(planted(tmp_path / "run"), ["seq_len"], [MEMORY]), MEMORY)
    assert told.curve is not None
    astray = dataclasses.replace(told, curve=dataclasses.replace(told.curve, worst=0.2))
    assert [trace.mode for trace in law_chart([told]).data] == ["lines", "markers"]
    assert [trace.mode for trace in law_chart([astray]).data] == ["markers"]


def test_the_command_tells_laws_and_limits_for_people_and_machines(tmp_path: Path) -> None:
    planted(tmp_path / "run")
    told = CliRunner().invoke(main, ["laws", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    assert (
        "Growth with seq_len (S), 95 % intervals\n  batch 3, heads 7, d_model 56\n    custom: time ~ S^1.50"
        in told.output
    )
    assert "none can be told: no row has both a measurement and a ceiling" in told.output
    answer = json.loads(CliRunner().invoke(main, ["laws", str(tmp_path / "run"), "--json"]).output)
    memory = next(each for each in answer["laws"] if each["quantity"] == "peak memory")
    assert memory["exponent"]["value"] == pytest.approx(1.983, abs=1e-3)
    assert answer["limits_left_out"] == {"no ceiling measured": 10}


def test_where_there_is_no_run_the_command_says_so_in_one_object(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["laws", str(tmp_path / "none"), "--json"])
    assert done.exit_code == 2
    assert "there is no folder" in json.loads(done.stdout)["error"]
    wrong = CliRunner().invoke(main, ["laws", "--nonsense", "--json"])
    assert wrong.exit_code == 2
    assert "nonsense" in json.loads(wrong.stdout)["error"]


def test_of_a_large_run_the_laws_are_told_at_its_largest_other_sizes_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(tmp_path / "run", batch_size=(3, 5))
    whole = json.loads(CliRunner().invoke(main, ["laws", str(tmp_path / "run"), "--json"]).output)
    monkeypatch.setattr("profiling.commands.laws.MOST_ROWS", 19)
    told = json.loads(CliRunner().invoke(main, ["laws", str(tmp_path / "run"), "--json"]).output)
    along = [each["fixed"].get("batch_size") for each in told["laws"] if each["axis"] == "seq_len"]
    assert set(along) == {5}
    assert {each["fixed"].get("batch_size") for each in whole["laws"] if each["axis"] == "seq_len"} == {3, 5}
    assert told["problems"] == [
        "of 20 rows the laws are told where the other sizes are at their largest, and nowhere else"
    ]
