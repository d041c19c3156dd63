"""`python -m profiling compare`: what it prints, and how it ends."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from compared_runs import planted_run
from made_up_runs import make_row, write_run

from profiling.cli import main
from profiling.compare import comparing
from profiling.compare.comparing import compare_runs
from profiling.compare.sides import read_side
from profiling.compare.text import MAX_ROWS, closing_lines, table_of, worst_first
from profiling.settings import SweepSettings
from profiling.table import write_report
from profiling.workload import Grid


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    planted_run(folder / "first", seed=1)
    planted_run(folder / "again", seed=2)
    planted_run(folder / "slower", seed=4, slowdown=1.11)
    write_report(folder / "first", folder / "baseline.csv")
    return folder


# What was read once is not read again: these tests hold the same few runs against each other.
read_once = functools.lru_cache(read_side)


@pytest.fixture(autouse=True)
def in_results(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(results))
    monkeypatch.chdir(results.parent)
    monkeypatch.setattr(comparing, "read_side", read_once)


def compare(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def test_no_regression_ends_with_0_and_says_how_far_that_reaches() -> None:
    done = compare("first", "again")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "BASE first"
    assert lines[-1] == "OK: no regression beyond noise and above 5 %"
    assert "coverage: custom, official: 2 of 2 shapes compared" in lines
    assert "time: 2 same (relative to the reference, unless marked *: latency alone)" in lines


def test_a_regression_ends_with_1_and_the_worst_row_stands_first(results: Path) -> None:
    done = compare(results / "baseline.csv", "slower")
    assert done.exit_code == 1, done.output
    lines = done.stdout.splitlines()
    assert lines[2].split() == ["workload", "contender", "BASE", "NEW", "time", "memory", "verdict"]
    assert "slower by 1" in lines[3]
    assert "[+" in lines[3]
    assert lines[5].split()[-1] == "yardstick"
    assert lines[-1] == "REGRESSION in 2 of 4 rows"


def test_the_threshold_decides() -> None:
    assert compare("first", "slower", "--fail-above", "0.15").exit_code == 0
    assert compare("first", "slower", "--fail-above", "8%").exit_code == 1


def test_json_is_one_object_whatever_the_answer() -> None:
    for arguments, exit_code in ((("first", "again"), 0), (("first", "slower"), 1)):
        done = compare(*arguments, "--json")
        assert done.exit_code == exit_code
        told = json.loads(done.stdout)
        assert len(told["rows"]) == 4
        assert bool(told["num_regressions"]) == bool(exit_code)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("first", "slower", "--fail-above", "5"), "fail_above must be a share"),
        (("first", "none"), "there is no run none in "),
        (("first", "no/such.csv"), "there is no run and no report 'no/such.csv'"),
        (("first", "again", "--contender", "mine"), "contender must be one of custom, official"),
        (("first",), "Missing argument 'NEW'"),
        (("first", "again", "--fail-abov", "5%"), "No such option"),
    ],
)
def test_where_nothing_is_compared_it_ends_with_2_and_one_sentence(arguments: tuple[str, ...], why: str) -> None:
    done = compare(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert why in done.stderr
    told = json.loads(compare(*arguments, "--json").stdout)
    assert why in told["error"]
    assert told["differences"] == []


def test_runs_that_were_not_measured_alike_are_refused_with_what_differs_and_a_way_on(results: Path) -> None:
    planted_run(results / "other", environment={"torch_version": "2.14.1"}, seed=5)
    done = compare("first", "other")
    assert done.exit_code == 2
    assert "torch_version: 2.13.0 in BASE, 2.14.1 in NEW; --anyway compares all the same" in done.stderr
    told = json.loads(compare("first", "other", "--json").stdout)
    assert told["differences"] == [{"field": "torch_version", "base": "2.13.0", "new": "2.14.1"}]
    done = compare("first", "other", "--anyway")
    assert done.exit_code == 0
    assert "note: made in spite of a difference in torch_version" in done.stdout
    assert json.loads(compare("first", "other", "--anyway", "--json").stdout)["is_marked"]


def test_what_could_not_be_read_is_warned_of(results: Path, tmp_path: Path) -> None:
    lines = (results / "baseline.csv").read_text(encoding="utf-8").splitlines()
    torn = tmp_path / "torn.csv"
    torn.write_text("\n".join([*lines[:2], lines[2].replace(",", ""), *lines[3:], ""]), encoding="utf-8")
    done = compare(torn, "again")
    assert done.exit_code == 0
    assert done.stderr == "warning: BASE: 1 line of torn.csv could not be read\n"


def wide_pair(folder: Path, num_points: int) -> list[Path]:
    """Two runs of so many points with one replicate, in which only one row is worse: that of the last point."""

    def run(name: str, **last: Any) -> Path:
        lengths = tuple(range(11, 11 + num_points))
        rows = [
            make_row("custom", point=point, seq_len=length, **(last if point == num_points else {}))
            for point, length in enumerate(lengths, start=1)
        ]
        grid = Grid(batch_size=(3,), seq_len=lengths, num_heads=(2,), d_model=10, device="cpu")
        settings = SweepSettings(contenders=("custom",), time_budget_s=0.02)
        return write_run(folder / name, rows, grid=grid, settings=settings)

    return [run("base"), run("new", peak_memory_mib=1.0)]


def test_of_many_rows_the_worst_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    found = compare_runs(*wide_pair(tmp_path, MAX_ROWS + 3))
    rows = worst_first(found)
    assert rows[0]["seq_len"] == 11 + MAX_ROWS + 2
    assert table_of(rows[:MAX_ROWS], found.names).row_count == MAX_ROWS
    lines = list(closing_lines(found, len(rows) - MAX_ROWS))
    assert lines[0] == "... and 3 more rows, none of them worse: --json has all"
    assert lines[-1] == f"REGRESSION in 1 of {MAX_ROWS + 3} rows"


def test_where_nothing_could_be_judged_the_answer_says_so(tmp_path: Path) -> None:
    base, _ = wide_pair(tmp_path, 2)
    *_, answer = closing_lines(compare_runs(base, base), 0)
    assert answer == "OK, as far as there are verdicts: no regression beyond noise and above 5 %"
