"""What worked in BASE and no longer does, and what NEW does not hold at all: never silently green."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from compared_runs import planted_run
from made_up_runs import lost_row, make_row, write_run

from profiling.cli import main
from profiling.compare import comparing
from profiling.compare.comparing import compare_runs
from profiling.compare.missing import Missing
from profiling.compare.sides import read_side
from profiling.settings import SweepSettings
from profiling.table import write_report
from profiling.workload import Grid

# What was read once is not read again.
read_once = functools.lru_cache(read_side)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_run(tmp_path_factory.mktemp("results") / "base")


@pytest.fixture(autouse=True)
def reads_once(monkeypatch: pytest.MonkeyPatch, unsynced: None) -> None:
    monkeypatch.setattr(comparing, "read_side", read_once)


def part_of(folder: Path, *, lengths: tuple[int, ...] = (5, 7), **fields: Any) -> Path:
    """A run that holds the first point alone, of those that its grid asks for."""
    grid = Grid(batch_size=(3,), seq_len=lengths, num_heads=(2,), d_model=10, device="cpu")
    return write_run(folder, [make_row("custom"), make_row("official")], grid=grid, **fields)


def compare(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.mark.parametrize("status", ["crashed", "unavailable"])
def test_a_layer_that_worked_and_now_breaks_ends_with_1_and_a_sentence_of_its_own(
    base: Path, tmp_path: Path, status: str
) -> None:
    done = compare(base, planted_run(tmp_path / "new", lost={("custom", 2): status}))
    assert done.exit_code == 1
    broken, answer = done.stdout.splitlines()[-2:]
    assert broken == f"BROKEN: custom worked in BASE at 1 shape and no longer does: lost: {status} in NEW"
    assert answer == "REGRESSION in 1 of 4 rows, 1 of which worked in BASE and no longer does"


def test_a_check_that_fails_is_broken_as_well_and_what_is_slower_is_not(base: Path, tmp_path: Path) -> None:
    cells = {("custom", 1): {"check_verdict": "fail"}, ("custom", 2): {"peak_memory_mib": 1.0}}
    found = compare_runs(base, planted_run(tmp_path / "new", cells=cells))
    assert found.regressions["is_broken"].tolist() == [True, False]
    assert found.to_dict()["num_broken"] == 1


def test_a_layer_that_breaks_in_some_replicates_alone_is_broken_though_it_was_measured(
    base: Path, tmp_path: Path
) -> None:
    def run(name: str, *lost: int) -> Path:
        rows = [
            row
            for number in range(1, 6)
            for row in (
                lost_row("custom", "crashed", "signal 11", replicate=number)
                if number in lost
                else make_row("custom", replicate=number),
                make_row("official", replicate=number),
            )
        ]
        return write_run(tmp_path / name, rows)

    found = compare_runs(base, run("now and then", 2, 5))
    assert found.broken["regression"].tolist() == ["breaks now and then: crashed in 2 of 5 replicates of NEW"]
    assert compare_runs(run("before"), run("whole again")).broken.empty
    assert compare_runs(tmp_path / "now and then", run("still", 3)).broken.empty, "no worse than it was"


def test_what_was_asked_for_and_never_measured_is_no_pass(base: Path, tmp_path: Path) -> None:
    done = compare(base, part_of(tmp_path / "new", state="stopped"))
    assert done.exit_code == 1
    told, answer = done.stdout.splitlines()[-2:]
    assert told == "MISSING: custom: 1 of 2 shapes of BASE asked for in NEW and not measured: NEW is stopped"
    assert answer == "INCOMPLETE: 1 row of BASE is missing in NEW"


def test_what_is_still_being_measured_is_told_and_no_failure(base: Path, tmp_path: Path) -> None:
    import psutil

    me = psutil.Process()
    new = part_of(tmp_path / "new", state="running", pid=me.pid, process_started=me.create_time())
    done = compare(base, new)
    assert done.exit_code == 0
    assert "NOT YET: custom: 1 of 2 shapes of BASE not measured yet: NEW is running" in done.stdout


def test_what_was_not_asked_for_is_told_and_fails_where_all_is_required(base: Path, tmp_path: Path) -> None:
    new = part_of(tmp_path / "new", lengths=(5,))
    done = compare(base, new)
    assert done.exit_code == 0
    told, answer = done.stdout.splitlines()[-2:]
    assert told == "NOT COMPARED: custom: 1 of 2 shapes of BASE not asked for in NEW"
    assert answer.endswith("no regression beyond noise and above 5 %; 1 row of BASE not compared")
    done = compare(base, new, "--require-all")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "INCOMPLETE: 1 row of BASE is missing in NEW"
    told_json = json.loads(compare(base, new, "--require-all", "--json").stdout)
    assert told_json["is_failure"] is True
    assert told_json["missing"][0]["was_asked_for"] is False
    assert compare(base, planted_run(tmp_path / "whole", seed=3), "--require-all").exit_code == 0


def test_a_contender_that_is_gone_is_told_and_one_that_is_not_looked_at_is_not(base: Path, tmp_path: Path) -> None:
    rows = [make_row(name, point=point) for point in (1, 2) for name in ("custom-fused", "official")]
    settings = SweepSettings(contenders=("custom-fused", "official"), time_budget_s=0.02)
    new = write_run(tmp_path / "new", rows, settings=settings)
    (gone,) = compare_runs(base, new).missing
    assert gone.sentence == "custom: 2 of 2 shapes of BASE not asked for in NEW"
    assert compare_runs(base, new, contenders=["official"]).missing == ()


def test_a_report_does_not_tell_what_was_asked_for(base: Path, tmp_path: Path) -> None:
    report = write_report(part_of(tmp_path / "new"), tmp_path / "new.csv")
    (gone,) = compare_runs(base, report).missing
    assert (gone.was_asked_for, gone.is_failure) == (None, False)
    assert gone.sentence == "custom: 1 of 2 shapes of BASE not in the report that is NEW"


def test_only_what_was_asked_for_and_is_over_is_a_failure() -> None:
    def is_failure(was_asked_for: bool | None, state: str | None) -> bool:
        return Missing(
            contender="custom", num_shapes=1, num_measured=2, was_asked_for=was_asked_for, state=state
        ).is_failure

    assert [is_failure(True, state) for state in ("stopped", "failed", "finished", "running")] == [
        True,
        True,
        True,
        False,
    ]
    assert not is_failure(False, None)
    assert not is_failure(None, None)
