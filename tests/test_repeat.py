from __future__ import annotations

import dataclasses
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from made_up_runs import make_row, make_run, make_workload, write_run

from profiling.cli import main
from profiling.layers import COMPILED, inner_of, is_compiled
from profiling.repeat import repeat_command, repeat_command_of_row, repeat_commands, repeat_sweep
from profiling.settings import HEAPS, OFFICIAL, REFERENCES, SweepSettings
from profiling.sweep import split_options
from profiling.table import load_run
from profiling.workload import DTYPES, MAX_SIZE, MODES, Grid, Workload

# Whatever a shell, an option parser or a list with commas might take for something else.
OWN = (
    "mine.py:Layer",
    "two words.py:A.B",
    "it's, odd.py:C",
    "$HOME;#.py:D",
    "./-x.py:E",
    "sub/ünï.py:F",
    "compiled:x y.py:G",
)
NAMES = (*REFERENCES, *(f"compiled:{name}" for name in REFERENCES), *OWN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working folder, with a file for each layer of one's own; signals as they were afterwards."""
    place, before = tmp_path_factory.mktemp("own"), os.getcwd()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    (place / "sub").mkdir()
    for name in OWN:
        (place / inner_of(name).rpartition(":")[0]).write_text("", encoding="utf-8")
    os.chdir(place)
    yield place
    os.chdir(before)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def parsed(command: str) -> tuple[Grid, SweepSettings]:
    """What the real command line would have measured, typed in another folder."""
    words = shlex.split(command)
    assert words[:4] == ["python", "-m", "profiling", "sweep"]
    asked: list[dict[str, Any]] = []

    def sweep(options: dict[str, Any], *_: object, **__: object) -> Any:
        asked.append(options)
        return SimpleNamespace(state="finished")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profiling.sweep.sweep", sweep)
        patch.chdir("/")
        result = CliRunner().invoke(main, words[3:])
        assert (result.exit_code, result.output) == (0, "")
        (options,) = asked
        return split_options(options)


def test_a_row_is_repeated_by_the_command_that_asks_for_it_and_nothing_else() -> None:
    workload = make_workload(batch_size=4, seq_len=256, num_heads=8, d_model=512, threads=2)
    assert repeat_command(workload, "custom", "official", SweepSettings(replicates=5)) == (
        "python -m profiling sweep --batch-size 4 --seq-len 256 --num-heads 8 --d-model 512 --dtype float32 "
        "--mode inference --contenders custom,official --device cpu --threads 2 --seed 42 --replicates 5 "
        "--time-budget 0.5 --quiet-wait 60 --heap pinned"
    )


def test_what_is_unusual_is_asked_for_too() -> None:
    workload = make_workload(bias=True, causal=True, mode="training", dtype="bfloat16", device="cuda:1")
    command = repeat_command(
        workload, "a b.py:C", "official-fused", SweepSettings(heap="as-is", time_limit_s=90.0, quiet_wait_s=0)
    )
    assert command == (
        "python -m profiling sweep --batch-size 3 --seq-len 7 --num-heads 2 --d-model 10 --dtype bfloat16 "
        "--mode training --bias yes --causal yes --contender 'a b.py:C' --reference official-fused --device cuda:1 "
        "--threads 1 --seed 42 --replicates 1 --time-budget 0.5 --time-limit 90 --quiet-wait 0 --heap as-is"
    )


sizes = st.integers(1, MAX_SIZE)
seconds = st.floats(1e-9, 1e6)
workloads = st.builds(
    Workload,
    batch_size=sizes,
    seq_len=sizes,
    num_heads=sizes,
    d_model=sizes,
    dtype=st.sampled_from(DTYPES),
    device=st.sampled_from(("cpu", "cuda:0", "cuda:7", "xpu:1", "mps")),
    mode=st.sampled_from(MODES),
    bias=st.booleans(),
    causal=st.booleans(),
    threads=st.integers(1, 1024),
    seed=st.integers(0, 2**63 - 1),
)
settings = st.builds(
    dict,
    replicates=sizes,
    time_budget_s=seconds | st.integers(1, 1000),
    time_limit_s=st.none() | seconds,
    quiet_wait_s=st.just(0) | seconds,
    heap=st.sampled_from(HEAPS),
    reference=st.sampled_from(OFFICIAL),
    anyway=st.booleans(),
)


@limits(max_examples=150, deadline=None)
@given(workloads, st.sampled_from(NAMES), settings)
@example(make_workload(), OWN[1], {"time_budget_s": 1e-05, "reference": OFFICIAL[-1]})
def test_the_command_gives_exactly_the_rows_workload_and_settings(
    folder: Path, workload: Workload, contender: str, how: dict[str, Any]
) -> None:
    run = SweepSettings(
        contenders=(contender, "official-fused", "custom") if contender in OWN else tuple(REFERENCES), **how
    )
    reference = run.reference_of(contender)
    grid, again = parsed(repeat_command(workload, contender, reference, run))
    assert list(grid.workloads()) == [workload]
    named = contender
    if contender in OWN:  # by its path, which means the same anywhere
        named = f"{COMPILED if is_compiled(contender) else ''}{folder / inner_of(contender).removeprefix('./')}"
    only = dataclasses.replace(run, contenders=(named,), layers={})
    if contender not in OWN:
        only = dataclasses.replace(only, reference=OFFICIAL[0])  # of no meaning without a layer of one's own
    assert again == only
    assert again.contenders[0] == named
    assert again.reference_of(named) == reference
    assert set(again.layers.values()) <= set(run.layers.values())


def test_a_fixed_head_dim_is_repeated_by_the_width_that_it_made(folder: Path) -> None:
    first, second = Grid(num_heads=(3, 5), head_dim=7, batch_size=(2,), seq_len=(11,), device="cpu").workloads(
        threads=2
    )
    assert (first.d_model, second.d_model) == (21, 35)
    grid, _ = parsed(repeat_command(second, "official", None, SweepSettings()))
    assert list(grid.workloads()) == [second]


def test_every_field_that_decides_what_is_measured_is_in_the_command(folder: Path) -> None:
    """A field that is added later has to be put into the command, and here."""
    asked = {"replicates", "time_budget_s", "time_limit_s", "quiet_wait_s", "heap", "anyway"}
    asked |= {"reference", "contenders"}
    found_by_name = {"layers"}
    assert {field.name for field in dataclasses.fields(SweepSettings)} == asked | found_by_name
    from_workload = {field.name for field in dataclasses.fields(Workload)}
    assert {field.name for field in dataclasses.fields(Grid)} == from_workload | {"head_dim"}


def test_each_row_of_a_table_carries_its_own_command(folder: Path, tmp_path: Path) -> None:
    rows = [make_row(point=point, replicate=r) for r in (1, 2) for point in (1, 2)]
    rows += [make_row("official", point=point) for point in (1, 2)]
    run = make_run(threads=1)
    table = load_run(write_run(tmp_path, rows))
    assert table["contender"].tolist() == ["custom", "official"] * 2
    for _, row in table.iterrows():
        grid, again = parsed(row["repeat_command"])
        (workload,) = grid.workloads()
        assert workload == make_workload(seq_len=row["seq_len"])
        assert (again.replicates, again.time_budget_s, again.heap) == (2, 0.02, run.settings.heap)
        assert again.contenders == (("custom", "official") if row["contender"] == "custom" else ("official",))


def test_a_row_whose_workload_someone_has_edited_away_has_no_command(tmp_path: Path) -> None:
    table = load_run(write_run(tmp_path, [make_row(), make_row("official", seed=None)]))
    assert table["repeat_command"].isna().tolist() == [False, True]
    row = make_row()
    assert repeat_command_of_row(row, make_run().settings) is not None
    assert repeat_command_of_row(row | {"threads": None}, make_run().settings) is None


kinds = st.builds(
    dict,
    batch_size=st.sampled_from((None, 0, -3, 1, 5, MAX_SIZE, MAX_SIZE + 1)),
    seq_len=st.integers(-1, 1000),
    num_heads=st.integers(0, 7),
    d_model=st.sampled_from((None, 1, 21, 64)),
    dtype=st.sampled_from((*DTYPES, "int8", None)),
    bias=st.sampled_from((True, False, None)),
    contender=st.sampled_from((*REFERENCES, *OWN, "nobody")),
    reference=st.sampled_from(("official", None)),
)


@given(st.lists(kinds, max_size=7))
def test_the_commands_of_a_table_are_those_of_its_rows_one_by_one(folder: Path, changes: list[dict[str, Any]]) -> None:
    rows = [make_workload().to_dict() | change for change in changes]
    table = pd.DataFrame(rows, columns=[*make_workload().to_dict(), "contender", "reference"], dtype=object)
    run = SweepSettings(replicates=3)
    assert repeat_commands(table, run) == [repeat_command_of_row(row, run) for row in rows]


def test_a_layer_is_named_as_it_was_where_no_command_line_takes_its_path() -> None:
    spec = {"mine.py:L": "/two  blanks/mine.py:L"}
    run = SweepSettings(contenders=("mine.py:L",), layers=spec)
    assert "--contender mine.py:L " in repeat_command(make_workload(), "mine.py:L", "official", run)
    run = SweepSettings(contenders=("mine.py:L",), layers={"mine.py:L": "/" + 400 * "x" + "/mine.py:L"})
    assert "--contender mine.py:L " in repeat_command(make_workload(), "mine.py:L", "official", run)


def test_a_caller_in_python_measures_what_the_command_measures() -> None:
    layers = {"mine.py:L": "/gone/mine.py:L", "b.py:L": "/gone/b.py:L"}
    run = SweepSettings(contenders=("mine.py:L", "custom", "b.py:L"), layers=layers, reference="official-fused")
    workload = make_workload(causal=True)
    grid, again = repeat_sweep(workload, "mine.py:L", "official-fused", run)
    assert list(grid.workloads()) == [workload]
    assert again.contenders == ("mine.py:L", "official-fused")
    assert again.layers == {"mine.py:L": "/gone/mine.py:L"}
    _, again = repeat_sweep(workload, "official", None, run)
    assert (again.contenders, dict(again.layers)) == (("official",), {})
