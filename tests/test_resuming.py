from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import psutil
import pytest
from made_up_runs import ENVIRONMENT, lost_row, make_row, make_run, write_run

from profiling.measuring.torch_environment import torch_environment
from profiling.resuming import DECISIVE_FACTS, commits_measured_at, finished_steps, refuse_mismatch, stored_run
from profiling.runs import MEASUREMENTS_FILE, RunError
from profiling.settings import SweepSettings
from profiling.workload import Grid

CONTENDERS = ("custom", "official")


def test_a_run_as_it_began_can_go_on() -> None:
    refuse_mismatch(make_run(), make_run(state="running", pid=7))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"grid": dataclasses.replace(make_run().grid, seq_len=(5, 11))},
            "its grid had seq_len [5, 7], now [5, 11]",
        ),
        (
            {"settings": dataclasses.replace(make_run().settings, heap="as-is")},
            "its settings had heap 'pinned', now 'as-is'",
        ),
        ({"device": "cuda:0"}, "its device was 'cpu', now 'cuda:0'"),
        ({"threads": 7}, "its threads was 1, now 7"),
        ({"schema_version": 3}, "its schema version was 2, now 3"),
        (
            {"environment": ENVIRONMENT | {"device_name": "Another Processor"}},
            "its device name was 'Made-up Processor', now 'Another Processor'",
        ),
        (
            {"settings": dataclasses.replace(make_run().settings, time_budget_s=0.5, replicates=8)},
            "its settings had time_budget_s 0.02, now 0.5",
        ),
        (
            {"settings": dataclasses.replace(make_run().settings, replicates=1)},
            "replicates must be at least the 2 that it has, not 1",
        ),
        (
            {"environment": ENVIRONMENT | {"torch_version": "2.14.0"}},
            "its torch version was '2.13.0', now '2.14.0'",
        ),
        (
            {"sources": make_run().sources | {"custom": "edited"}},
            "its source of custom was 'hash of custom', now 'edited'",
        ),
    ],
)
def test_a_run_that_differs_is_refused_with_what_differs(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RunError) as caught:
        refuse_mismatch(make_run(), make_run(**changes))
    assert str(caught.value) == f"run made-up cannot be resumed: {words}"


def test_a_run_may_go_on_with_more_replicates() -> None:
    refuse_mismatch(make_run(), make_run(settings=dataclasses.replace(make_run().settings, replicates=3)))


@pytest.mark.parametrize("fact", DECISIVE_FACTS)
def test_a_run_is_not_gone_on_with_where_a_fact_that_decides_what_is_measured_differs(fact: str) -> None:
    then, here = ENVIRONMENT | {fact: "one"}, ENVIRONMENT | {fact: "other"}
    with pytest.raises(RunError, match=f"its {fact.replace('_', ' ')} was 'one', now 'other'"):
        refuse_mismatch(make_run(environment=then), make_run(environment=here))
    refuse_mismatch(make_run(environment=then), make_run(environment=then))


def test_a_fact_that_an_earlier_version_did_not_keep_is_no_difference() -> None:
    refuse_mismatch(make_run(), make_run(environment=ENVIRONMENT | {"heap_pinned": True, "blas": "MKL 2024.2"}))


def test_the_facts_that_decide_are_those_that_are_recorded() -> None:
    assert set(DECISIVE_FACTS) - {"torch_version", "device_name"} <= set(torch_environment("cpu"))


def test_another_commit_or_python_may_go_on() -> None:
    refuse_mismatch(make_run(), make_run(environment=ENVIRONMENT | {"commit": "other", "python_version": "3.12"}))


@pytest.mark.parametrize(
    ("before", "commit", "told"),
    [
        ("abc", "abc", "abc"),
        ("abc", "def-dirty", "abc, def-dirty"),
        ("abc, def", "abc", "abc, def"),
        ("abc", None, "abc"),
        (None, "abc", "abc"),
        (["abc"], "def", "def"),
        (None, None, None),
    ],
)
def test_a_run_that_was_gone_on_with_names_every_commit_it_was_measured_at(
    before: Any, commit: str | None, told: str | None
) -> None:
    assert commits_measured_at(make_run(environment=ENVIRONMENT | {"commit": before}), commit) == told


def test_a_new_run_names_its_own_commit() -> None:
    assert commits_measured_at(None, "abc") == "abc"
    assert commits_measured_at(None, None) is None


def test_a_new_run_takes_a_new_or_an_empty_folder(tmp_path: Path) -> None:
    assert stored_run(tmp_path / "new", resume=False) is None
    assert stored_run(tmp_path, resume=False) is None


def test_a_new_run_leaves_what_is_there_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="is not empty and holds no run"):
        stored_run(tmp_path, resume=False)
    with pytest.raises(RunError, match="is not empty and holds no run"):
        stored_run(tmp_path / "thesis.txt", resume=False)


def test_an_existing_run_is_gone_on_with_only_when_asked(tmp_path: Path) -> None:
    write_run(tmp_path, [])
    with pytest.raises(RunError, match="already holds run made-up: give --resume"):
        stored_run(tmp_path, resume=False)
    assert stored_run(tmp_path, resume=True) is not None


def test_nothing_to_resume_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        stored_run(tmp_path / "none", resume=True)


def test_a_run_that_is_still_running_cannot_be_resumed(tmp_path: Path) -> None:
    other = psutil.Process().parent()
    assert other is not None
    write_run(tmp_path, [], state="running", pid=other.pid, process_started=other.create_time())
    with pytest.raises(RunError, match=rf"is still running \(process {other.pid}, since 2026-01-02T03:04:05\+00:00\)"):
        stored_run(tmp_path, resume=True)


def test_a_step_is_finished_once_every_contender_has_a_row(tmp_path: Path) -> None:
    rows = [
        make_row("custom", point=1),
        make_row("official", point=1),
        make_row("custom", point=2),
        lost_row("custom", "oom", "x", point=1, replicate=2),
        lost_row("official", "invalid", "x", point=1, replicate=2),
    ]
    write_run(tmp_path, rows)
    assert finished_steps(tmp_path, CONTENDERS, num_replicates=2, num_points=2) == {(1, 1), (2, 1)}
    assert finished_steps(tmp_path, ("custom",), num_replicates=2, num_points=2) == {(1, 1), (1, 2), (2, 1)}


def test_a_torn_row_does_not_finish_its_step(tmp_path: Path) -> None:
    write_run(tmp_path, [make_row("custom"), make_row("official")])
    path = tmp_path / MEASUREMENTS_FILE
    path.write_bytes(path.read_bytes()[:-3])
    assert finished_steps(tmp_path, CONTENDERS, num_replicates=2, num_points=2) == set()


def test_a_row_outside_of_the_grid_finishes_nothing(tmp_path: Path) -> None:
    places = [{"point": 3}, {"point": 0}, {"replicate": 3}, {"replicate": 0}]
    write_run(tmp_path, [make_row(name) | place for place in places for name in CONTENDERS])
    assert finished_steps(tmp_path, CONTENDERS, num_replicates=2, num_points=2) == set()


def test_a_row_whose_place_is_no_number_finishes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, [make_row("custom") | {"point": "²"}, make_row("official") | {"replicate": "x"}])
    assert finished_steps(tmp_path, CONTENDERS, num_replicates=2, num_points=2) == set()


def test_what_is_compared_is_what_a_run_is_made_of() -> None:
    """Every field of the grid and the settings counts: one that is added later is compared as well."""
    for field in dataclasses.fields(Grid):
        assert field.name in make_run().grid.to_dict()
    for field in dataclasses.fields(SweepSettings):
        assert field.name in make_run().settings.to_dict()


@pytest.mark.parametrize("cell", ["", "nan", "inf", "-2.5", "0", "0x10", "fast"])
def test_a_measured_row_whose_time_is_none_does_not_finish_its_step(tmp_path: Path, cell: str) -> None:
    write_run(tmp_path, [make_row(point=1), make_row(point=2, latency_median_ms=cell)])
    assert finished_steps(tmp_path, ["custom"], num_replicates=1, num_points=2) == {(1, 1)}
