"""Several runs a side: what whole runs differ by is estimated, told, and held by every interval."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from compared_runs import planted_run
from hypothesis import given, settings
from hypothesis import strategies as st

from profiling.cli import main
from profiling.compare import comparing
from profiling.compare.comparing import Comparison, ComparisonRefused, compare_runs, compare_sides
from profiling.compare.pooling import pool, require_apart
from profiling.compare.run_to_run import UNKNOWN, Runs, RunToRun, run_to_run
from profiling.compare.sides import CompareError, Side, read_side
from profiling.compare.spreads import change_half_widths
from profiling.compare.text import closing_lines
from profiling.table import write_report

sys.path.insert(0, str(Path(__file__).parent / "benchmarks"))
from compare_alarms import compare_once

ERROR = 0.01
# Of Student's t at 95 %, for so many degrees of freedom.
T = {1: 12.7062, 2: 4.30265, 8: 2.30600}


def runs(*means: list[float], error: float = ERROR, number: int = 5) -> Runs:
    found = np.array(means)
    return Runs(found, np.where(np.isfinite(found), error, np.nan), np.where(np.isfinite(found), float(number), np.nan))


def spread_of(base: Runs, new: Runs) -> RunToRun:
    return run_to_run((base, new), np.ones(base.means.shape[1], dtype=np.bool_))


# -- the spread ---


def test_what_all_rows_of_a_run_share_is_told_from_what_moves_row_by_row() -> None:
    new = runs([0.0, 0.0])
    shared = spread_of(runs([0.01, 0.05], [0.05, 0.09]), new)
    # Each run lies 0.02 from the middle: (0.0004 + 0.0004) / 1.
    assert (shared.of_runs, shared.of_rows) == (pytest.approx(math.sqrt(0.0008)), 0)
    assert (shared.freedom, shared.freedom_rows) == (1, 1)
    by_row = spread_of(runs([0.01, 0.05], [0.03, 0.03]), new)
    # Each row of each run lies 0.01 from its middle: 0.0004 / 1, of which the replicates explain 0.0001.
    assert (by_row.of_runs, by_row.of_rows) == (pytest.approx(0, abs=1e-12), pytest.approx(math.sqrt(0.0003)))


def test_both_sides_tell_of_it_together() -> None:
    spread = spread_of(runs([0.01, 0.05], [0.05, 0.09]), runs([0.1, 0.2], [0.1, 0.2], [0.1, 0.2]))
    assert spread.of_runs == pytest.approx(math.sqrt(0.0008 / 3))
    assert (spread.freedom, spread.freedom_rows) == (3, 3)


def test_rows_that_a_run_lacks_do_not_tell_and_without_any_nothing_is_known() -> None:
    lacking = runs([0.01, 0.05, 7.0], [0.05, 0.09, math.nan])
    assert spread_of(lacking, runs([0.0, 0.0, 0.0])) == spread_of(runs([0.01, 0.05], [0.05, 0.09]), runs([0.0, 0.0]))
    assert spread_of(runs([0.1, math.nan], [math.nan, 0.2]), runs([0.0, 0.0])) == UNKNOWN
    assert spread_of(runs([0.1, 0.2]), runs([0.0, 0.0])) == UNKNOWN, "one run a side"


def test_the_interval_holds_what_runs_differ_by() -> None:
    pair = runs([0.01], [0.05]), runs([0.0])
    spread = spread_of(*pair)
    (half,) = change_half_widths(pair, np.array([0.95]), spread)
    # Errors of 0.01 / 2, twice, and 0.01, of four degrees of freedom each: 0.00015² · 4 / (2 · 0.000025² + 0.0001²).
    within = T[8] * math.sqrt(0.00015)
    assert half == pytest.approx(math.hypot(within, T[1] * math.sqrt(0.0008) * math.sqrt(1.5)), rel=1e-4)
    (alone,) = change_half_widths(pair, np.array([0.95]))
    assert alone == pytest.approx(within, rel=1e-4)


def test_what_runs_differ_by_row_by_row_has_the_level_of_the_rows() -> None:
    pair = runs([0.01, 0.05], [0.03, 0.03], error=0.0), runs([0.0, 0.0], [0.0, 0.0], error=0.0)
    spread = spread_of(*pair)
    assert (spread.of_rows, spread.freedom_rows) == (pytest.approx(math.sqrt(0.0004 / 2)), 2)
    half = change_half_widths(pair, np.array([0.95, 0.95]), spread)
    assert half.tolist() == pytest.approx([T[2] * math.sqrt(0.0002)] * 2, rel=1e-4)


@settings(max_examples=20)
@given(st.lists(st.tuples(*[st.floats(-0.1, 0.1)] * 4), min_size=1, max_size=5))
def test_an_interval_is_the_same_whichever_side_comes_first_and_none_narrower_for_the_spread(
    rows: list[tuple[float, ...]],
) -> None:
    base, new = runs(*np.array(rows).T[:2].tolist()), runs(*np.array(rows).T[2:].tolist())
    levels = np.full(len(rows), 0.99)
    there, back = (change_half_widths(pair, levels, spread_of(*pair)) for pair in ((base, new), (new, base)))
    assert there.tolist() == pytest.approx(back.tolist())
    assert (there >= change_half_widths((base, new), levels) * (1 - 1e-9)).all() or spread_of(base, new).of_rows > 0


# -- false alarms ---


def alarms(of_runs: tuple[int, int], *, slow: float, tries: int, offset: float = 0.02) -> float:
    draw = np.random.default_rng(20261130)
    found = [
        compare_once(draw, runs=of_runs, rows=24, noise=0.006, offset=offset, shared=False, slow=slow)[0]
        for _ in range(tries)
    ]
    return sum(found) / tries


def test_an_offset_between_whole_runs_alarms_with_one_run_a_side_and_not_with_two() -> None:
    assert alarms((1, 1), slow=1.0, tries=60) > 0.3
    assert alarms((2, 2), slow=1.0, tries=60) <= 0.05
    assert alarms((2, 2), slow=1.2, tries=15) == 1


# -- sides of several runs ---


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of which two of a side differ by 2 % as a whole, and a report of one."""
    folder = tmp_path_factory.mktemp("results")
    for seed, (name, slowdown) in enumerate(
        {"base": 1.0, "base-2": 1.02, "new": 1.07, "new-2": 1.05, "slow": 1.3, "slow-2": 1.32}.items()
    ):
        planted_run(folder / name, slowdown=slowdown, seed=seed)
    for seed, name in enumerate(("lost", "lost-2"), start=11):
        planted_run(folder / name, seed=seed, lost={("custom", 2): "timeout"})
    write_report(folder / "base-2", folder / "base-2.csv")
    return folder


# What was read once is not read again.
read_once = functools.lru_cache(read_side)


@pytest.fixture(autouse=True)
def reads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "read_side", read_once)


def compare(results: Path, *arguments: str) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MHA_BENCH_RESULTS", str(results))
        patch.chdir(results)
        return CliRunner().invoke(main, ["compare", *arguments])


def of(results: Path, base: tuple[str, ...], new: tuple[str, ...]) -> Comparison:
    return compare_runs(base[0], new[0], base_also=base[1:], new_also=new[1:], results=results)


def test_with_one_run_a_side_it_is_told_that_the_spread_between_runs_is_unknown(results: Path) -> None:
    done = compare(results, "base", "new")
    assert done.exit_code == 1
    assert "run to run: unknown, with one run a side" in done.stdout
    told = json.loads(compare(results, "base", "new", "--json").stdout)["run_to_run"]
    assert (told["is_known"], told["run_percent"], told["row_percent"]) == (False, None, None)


def test_what_a_comparison_tells_names_no_option_for_a_page_has_none_and_the_command_adds_its_own(
    results: Path, tmp_path: Path
) -> None:
    few = planted_run(tmp_path / "few", replicates=2, noise=0.2)
    found = compare_runs("base", few, results=results)
    for needed in ("measure with at least 5 replicates", "a longer time budget"):
        assert any(needed in note for note in found.notes)
    told = [found.to_dict(), of(results, ("base", "base-2"), ("lost",)).to_dict()]
    assert re.findall(r"--\w+", json.dumps(told)) == []
    lines = "\n".join(closing_lines(found, 0))
    options = {name for parameter in main.commands["compare"].params for name in parameter.opts}
    named = set(re.findall(r"--[\w-]+", lines))
    assert named == {"--base-also", "--new-also"} <= options


def test_of_a_run_that_goes_on_and_will_have_enough_replicates_nobody_is_told_to_measure_more(
    results: Path, tmp_path: Path
) -> None:
    whole = read_once("base", results)
    few = read_side(planted_run(tmp_path / "few", replicates=2, noise=0.2))

    def notes(base: Side, state: str, replicates: int) -> str:
        assert few.run is not None
        planned = dataclasses.replace(few.run.settings, replicates=replicates)
        now = dataclasses.replace(few, run=dataclasses.replace(few.run, state=state, settings=planned))
        return "; ".join(compare_sides(base, now).notes)

    for base, state, replicates in itertools.product((whole, few), ("running", "stopped", "finished"), (4, 5)):
        told = notes(base, state, replicates)
        is_coming = base is whole and state == "running" and replicates >= 5
        assert ("2 of 2 rows are provisional as yet" in told) == is_coming
        assert ("measure with at least 5 replicates" in told) != is_coming
        assert ("half of the intervals" in told) == (state != "running")


def test_measured_once_more_what_was_the_run_is_no_regression(results: Path) -> None:
    done = compare(results, "base", "new", "--base-also", "base-2.csv", "--new-also", "new-2")
    assert done.exit_code == 0, done.output
    assert "BASE base, base-2.csv\nNEW  new, new-2\n" in done.stdout
    assert (
        "(2 of BASE, 2 of NEW); the intervals allow for it, known from 2 runs beyond the first of a side" in done.stdout
    )
    one_pair = compare(results, "base", "new", "--new-also", "new-2")
    assert "with one more they would be far narrower" in one_pair.stdout
    assert one_pair.stdout.splitlines()[-1].startswith("OK, as far as one pair of runs can tell: ")
    told = json.loads(compare(results, "base", "new", "--new-also", "new-2", "--json").stdout)["run_to_run"]
    assert (told["num_runs_base"], told["num_runs_new"], told["degrees_of_freedom"]) == (1, 2, 1)
    assert told["run_percent"] == pytest.approx(100 * math.log(1.07 / 1.05) / math.sqrt(2), abs=0.4)


def test_a_slow_down_well_beyond_what_runs_differ_by_stays_one(results: Path) -> None:
    found = of(results, ("base", "base-2"), ("slow", "slow-2"))
    own = found.rows[found.rows["contender"] == "custom"]
    assert own["verdict"].tolist() == ["slower", "slower"]
    middle = 100 * (math.sqrt(1.3 * 1.32 / 1.02) - 1)
    assert own["change_percent"].tolist() == pytest.approx([middle, middle], abs=0.8)
    assert own["speedup_new"].tolist() == pytest.approx([1.5 / math.sqrt(1.3 * 1.32)] * 2, rel=0.01)
    assert own["num_replicates"].tolist() == [5, 5], "of each run: a side is not the surer for runs of few"
    assert len(found.regressions) == 2


def test_what_fails_in_one_run_of_new_fails_and_what_one_run_of_base_could_was_possible(results: Path) -> None:
    found = of(results, ("base",), ("new-2", "lost"))
    assert found.broken["regression"].tolist() == ["lost: timeout in NEW"]
    assert of(results, ("lost", "base-2"), ("base",)).broken.empty
    assert len(of(results, ("base-2", "lost"), ("lost-2",)).broken) == 1


def test_a_run_is_not_counted_twice(results: Path) -> None:
    done = compare(results, "base", "new", "--base-also", "base-2", "--base-also", "base-2.csv")
    assert done.exit_code == 2
    assert "BASE must be different runs, not base-2 and base-2.csv, which are one" in done.stderr
    with pytest.raises(CompareError, match="NEW must be different runs"):
        pool([read_once("new", results)] * 2, is_new=True)


RUN_OF = {"base": "base", "base-2": "base-2", "base-2.csv": "base-2"}
SIDES = [*((name,) for name in RUN_OF), *itertools.product(RUN_OF, repeat=2)]


def pooled(results: Path, names: tuple[str, ...]) -> Side | None:
    """The runs as one side; None where they are refused."""
    try:
        return pool([read_once(str(results / name), results) for name in names], is_new=True)
    except CompareError:
        return None


def is_refused(base: Side | None, new: Side | None) -> bool:
    if base is None or new is None:
        return True
    try:
        require_apart(base, new)
    except CompareError:
        return True
    return False


def test_where_a_side_is_several_runs_whatever_stands_twice_anywhere_is_refused(results: Path) -> None:
    sides = {names: pooled(results, names) for names in SIDES}
    for base, new in itertools.product(SIDES, repeat=2):
        all_runs = [RUN_OF[name] for name in (*base, *new)]
        is_twice = len(set(all_runs)) < len(all_runs) and len(all_runs) > 2
        assert is_refused(sides[base], sides[new]) == is_twice, (base, new)


@pytest.mark.parametrize("further", [("--base-also", "new"), ("--new-also", "base"), ("--new-also", "new")])
def test_the_command_ends_with_2_where_a_run_is_given_twice_beside_others(
    results: Path, further: tuple[str, str]
) -> None:
    for more in ((), ("--anyway",)):
        done = compare(results, "base", "new", *further, *more)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.endswith(f", not {further[1]} twice\n")
    assert "BASE and NEW are the same run" in of(results, ("base",), ("base",)).notes, "alone it hides nothing"


def test_a_report_that_tells_of_no_run_and_no_time_is_known_by_its_file(results: Path) -> None:
    side = read_once(str(results / "base-2.csv"), results)
    untold = dataclasses.replace(side, table=side.table.assign(run_id=pd.NA, measured_at=pd.NA))
    with pytest.raises(CompareError, match=r"not .*base-2\.csv twice"):
        pool([untold, untold], is_new=True)


def test_runs_of_one_side_have_to_be_measured_alike_and_are_told_to_be_of_one_layer(
    results: Path, tmp_path: Path
) -> None:
    other = planted_run(tmp_path / "other", environment={"torch_version": "2.14.1"})
    with pytest.raises(ComparisonRefused, match=r"torch_version: 2\.13\.0, 2\.14\.1 in BASE, 2\.13\.0 in NEW"):
        compare_runs("base", "new", base_also=[other], results=results)
    edited = planted_run(tmp_path / "edited", cells={("custom", 1): {"source_hash": "another"}})
    notes = compare_runs("base", "new", new_also=[edited], results=results).notes
    assert "not of the same source in all runs of NEW: custom. They are no runs of one layer" in notes
