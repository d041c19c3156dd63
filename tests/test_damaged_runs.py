"""Whatever befell a run's files, reading them ends in a table or in a sentence, and what is undamaged is as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from damaged_files import FILES, damaged, edited_json, edited_lines, good_run
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import make_row

from dashboard.sample_store import SampleFile
from profiling.cli import main
from profiling.columns import MEASUREMENT_COLUMNS, SAMPLE_COLUMNS
from profiling.resuming import finished_steps, stored_run
from profiling.run_list import list_runs
from profiling.run_writer import RunWriter
from profiling.runs import Run, RunError, read_rows, read_run, step_of
from profiling.table import load_measurements, load_samples, load_table, report_csv

KEY = ["replicate", "point", "contender"]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return good_run(tmp_path_factory.mktemp("damage") / "good")


@pytest.fixture(scope="module")
def results(good: Path) -> Path:
    return good.parent / "results"


def fresh(good: Path, results: Path) -> Path:
    """A copy of the good run in a results folder of its own."""
    shutil.rmtree(results, ignore_errors=True)
    return Path(shutil.copytree(good, results / "made-up"))


def outcome(read: Callable[[], Any]) -> Any:
    """What a reader gives, or the sentence in which it refuses."""
    try:
        return read()
    except RunError as error:
        told = str(error)
    assert 20 < len(told) < 1500, "a person reads it"
    return told


def read_everything(folder: Path) -> None:
    """Every way in which a run's files are read. Whatever they hold, nothing but RunError may come out."""
    run = outcome(lambda: read_run(folder))
    found = list_runs(folder.parent)
    assert len(found.runs) + len(found.unreadable) == 1
    assert bool(found.runs) == isinstance(run, Run)
    outcome(lambda: report_csv(load_table(folder)[0]).encode())
    outcome(lambda: load_samples(folder))
    outcome(lambda: stored_run(folder, resume=True))
    outcome(lambda: finished_steps(folder, ("custom", "official"), num_replicates=2, num_points=2))
    outcome(lambda: read_rows(folder / "samples.csv", SAMPLE_COLUMNS))
    for point in (1, 2):
        outcome(lambda point=point: SampleFile(folder).of_point(point))


@pytest.mark.parametrize("file", FILES)
def test_a_good_run_is_read_whole(good: Path, results: Path, file: str) -> None:
    folder = fresh(good, results)
    read_everything(folder)
    table, problems = load_table(folder)
    assert (len(table), problems) == (4, [])
    (folder / file).unlink()
    read_everything(folder)


@pytest.mark.parametrize("file", FILES)
@settings(max_examples=25)
@given(data=st.data())
def test_no_damage_to_a_file_raises_anything_but_a_sentence(
    good: Path, results: Path, file: str, data: st.DataObject
) -> None:
    folder = fresh(good, results)
    (folder / file).write_bytes(data.draw(damaged((good / file).read_bytes())))
    read_everything(folder)


@settings(max_examples=50)
@given(data=st.data())
def test_no_edit_of_run_json_raises_anything_but_a_sentence(good: Path, results: Path, data: st.DataObject) -> None:
    folder = fresh(good, results)
    (folder / "run.json").write_text(data.draw(edited_json((good / "run.json").read_text())))
    read_everything(folder)


def untouched(rows: pd.DataFrame, touched: pd.DataFrame) -> pd.DataFrame:
    """The rows whose place is none of those touched."""
    places = set(touched[KEY].itertuples(index=False, name=None))
    return rows[[place not in places for place in rows[KEY].itertuples(index=False, name=None)]].reset_index(drop=True)


@settings(max_examples=30)
@given(data=st.data())
def test_undamaged_rows_come_out_unchanged_and_none_is_made_up(good: Path, results: Path, data: st.DataObject) -> None:
    folder = fresh(good, results)
    text, hit = data.draw(edited_lines((good / "measurements.csv").read_text()))
    (folder / "measurements.csv").write_text(text, newline="")
    before, after = load_measurements(good), load_measurements(folder)
    lines = text.split("\n")
    # The damaged lines alone: a place that one of them claims now may be that of a whole row.
    alone = folder / "alone"
    alone.mkdir()
    (alone / "measurements.csv").write_text(
        "\n".join([lines[0], *(lines[number] for number in sorted(hit))]) + "\n", newline=""
    )
    claimed = load_measurements(alone)
    touched = pd.concat([before.iloc[[number - 1 for number in sorted(hit)]], claimed])
    pd.testing.assert_frame_equal(untouched(after, touched), untouched(before, touched))
    assert len(after) <= len(before)
    assert not after.duplicated(KEY).any()
    assert read_steps(folder) >= {(row.replicate, row.point) for row in untouched(before, touched).itertuples()}


def read_steps(folder: Path) -> set[tuple[int, int] | None]:
    """Where the rows belong that a resumed sweep finds."""
    return {step_of(row) for row in read_rows(folder / "measurements.csv", MEASUREMENT_COLUMNS)}


@pytest.mark.parametrize(
    ("name", "value"), [("status", "tired"), ("seq_len", "0"), ("d_model", ""), ("num_heads", "-2")]
)
def test_a_row_that_no_reader_shows_is_measured_again(good: Path, results: Path, name: str, value: str) -> None:
    folder = fresh(good, results)
    path = folder / "measurements.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    lines[3][lines[0].index(name)] = value
    path.write_text("".join(",".join(cells) + "\n" for cells in lines))
    assert len(load_measurements(folder)) == 7
    steps = finished_steps(folder, ("custom", "official"), num_replicates=2, num_points=2)
    assert steps == {(1, 1), (2, 1), (2, 2)}


def test_an_export_tells_what_it_could_not_read(good: Path, results: Path) -> None:
    folder = fresh(good, results)
    with (folder / "measurements.csv").open("a") as stream:
        stream.write("short,row\n")
    done = CliRunner().invoke(main, ["export", str(folder)])
    assert done.exit_code == 0
    assert done.stdout == f"{folder / 'report.csv'}\n"
    assert done.stderr == "warning: 1 row of measurements.csv could not be read: line 10\n"


def test_a_run_to_whose_table_a_column_was_added_can_be_gone_on_with(good: Path, results: Path) -> None:
    folder = fresh(good, results)
    path = folder / "measurements.csv"
    header, *lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in [f"{header},remark", *(f"{line},mine" for line in lines[:-2])]))
    writer = RunWriter(folder, read_run(folder))
    writer.keep_only(finished_steps(folder, ("custom", "official"), num_replicates=2, num_points=2))
    writer.append_measurements([make_row("custom", replicate=2, point=2), make_row("official", replicate=2, point=2)])
    assert path.read_text().count(",mine\n") == 6, "what was added stays"
    table, problems = load_table(folder)
    assert (len(table), problems) == (4, [])
    pd.testing.assert_frame_equal(load_measurements(folder)[KEY], load_measurements(good)[KEY])
