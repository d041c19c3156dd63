from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from made_up_runs import make_row, make_run, write_run

from profiling import run_list, runs
from profiling.columns import MEASUREMENT_COLUMNS
from profiling.run_list import Listing, list_runs
from profiling.run_writer import to_csv
from profiling.runs import (
    MEASUREMENTS_FILE,
    Run,
    RunError,
    find_run_folder,
    is_alive,
    new_run_id,
    read_rows,
    read_run,
    read_run_file,
    results_dir,
)
from profiling.table import load_run, report_csv


def edit_run(folder: Path, **changes: Any) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def test_a_run_survives_the_way_through_its_file(tmp_path: Path) -> None:
    run = make_run()
    assert Run.from_dict(json.loads(json.dumps(run.to_dict()))) == run
    assert read_run(write_run(tmp_path / "made-up", [])).grid == run.grid


def test_a_running_run_without_its_process_is_told_as_stopped(tmp_path: Path) -> None:
    write_run(tmp_path, [], state="running", pid=os.getpid(), process_started=1.0)
    assert read_run(tmp_path).state == "stopped"
    assert "--resume" in read_run(tmp_path).state_reason


def test_a_running_run_with_its_process_is_running(tmp_path: Path) -> None:
    me = psutil.Process()
    write_run(tmp_path, [], state="running", pid=me.pid, process_started=me.create_time())
    assert read_run(tmp_path).state == "running"


def test_a_later_process_with_the_same_number_is_another() -> None:
    me = psutil.Process()
    assert is_alive(me.pid, me.create_time())
    assert not is_alive(me.pid, me.create_time() - 60)
    assert not is_alive(-1, me.create_time())
    assert not is_alive(2**70, me.create_time())


def test_a_folder_without_a_run_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run: there is no run\.json in it"):
        read_run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1, 2", '{"a": 1'])
def test_a_half_file_is_told_as_unreadable(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match="cannot be read"):
        read_run(tmp_path)


def test_bytes_that_are_no_text_are_told_as_unreadable(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunError, match="cannot be read"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["[]", "3", "null", "{}", *(f'{{"schema_version": {version}}}' for version in ('"2"', "true", "2.0", "0", "[2]"))],
)
def test_what_is_no_schema_version_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match="this program reads versions 1 and 2"):
        read_run(tmp_path)


def test_a_run_of_a_later_schema_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    edit_run(write_run(tmp_path, [make_row()]), schema_version=3)
    told = r"was written by a later version of this program \(schema version 3\): update it to read this run"
    with pytest.raises(RunError, match=told):
        read_run(tmp_path)
    with pytest.raises(RunError, match=told):
        load_run(tmp_path)


def as_version_1(folder: Path, *, lacking: str | None = None) -> Path:
    """The folder as a program of schema version 1 would have written it."""
    edit_run(folder, schema_version=1)
    path = folder / MEASUREMENTS_FILE
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    kept = [column for column in MEASUREMENT_COLUMNS if column.since == 1 and column.name != lacking]
    path.write_text(to_csv(tuple(kept), rows, header=True), encoding="utf-8")
    return folder


def test_a_run_of_schema_version_1_is_read_with_the_later_columns_empty(tmp_path: Path) -> None:
    rows = [make_row(clone_speedup=1.25, waited_s=3.0, load_start=0.5), make_row("official")]
    as_version_1(write_run(tmp_path, rows))
    assert read_run(tmp_path).schema_version == 1
    read = read_rows(tmp_path / MEASUREMENTS_FILE, MEASUREMENT_COLUMNS)
    later = [column.name for column in MEASUREMENT_COLUMNS if column.since > 1]
    assert "clone_speedup" in later
    assert [row[name] for row in read for name in later] == [""] * 2 * len(later)
    assert [(row["contender"], row["latency_median_ms"]) for row in read] == [("custom", "2.0"), ("official", "2.0")]
    table = load_run(tmp_path)
    assert table[later].isna().all(axis=None)
    assert table["noise_floor"].tolist() == [0.01, pd.NA], "which was kept"
    assert table["speedup"].tolist() == [pytest.approx(1.5), pd.NA]


def test_a_table_of_schema_version_1_that_lacks_one_of_its_columns_is_refused(tmp_path: Path) -> None:
    as_version_1(write_run(tmp_path, [make_row()]), lacking="noise_floor")
    with pytest.raises(RunError, match="has no column noise_floor"):
        read_rows(tmp_path / MEASUREMENTS_FILE, MEASUREMENT_COLUMNS)
    with pytest.raises(RunError, match="has no column noise_floor"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": {"batch_size": [0]}},
        {"grid": None},
        {"settings": {"contenders": ["mine"]}},
        {"progress": {"percent": 3}},
        {"progress": [1]},
        {"state": "asleep"},
        {"pid": "one", "state": "running"},
        {"pid": None, "state": "running"},
        {"process_started": "yesterday", "state": "running"},
        {"started_at": 7},
        {"ended_at": 7},
        {"host": ["here"]},
        {"threads": True},
        {"threads": 10**4000},
        {"threads": 0},
        {"pid": 1.5},
        {"device": "../../etc"},
        {"environment": []},
        {"sources": None},
        {"progress": {"done": -1, "total": 4, "replicate": 1}},
        {"progress": {"done": 5, "total": 4, "replicate": 1}},
        {"progress": {"done": 1, "total": 10**400, "replicate": 1}},
        {"progress": {"done": 1, "total": 4, "replicate": 1, "label": 3}},
        {"progress": {"done": 1, "total": 4, "replicate": 1, "seconds_left": "3"}},
        {"progress": {"done": 1, "total": 4, "replicate": 1, "seconds_left": math.inf}},
        {"progress": {"done": 1, "total": 4, "replicate": 1, "seconds_left": 10**400}},
        {"progress": {"done": 1, "total": 4, "replicate": 1, "percent": 3}},
        {"settings": {"contenders": ["custom"], "replicates": 10**4000}},
        {"settings": {"contenders": [["custom"]]}},
        {"settings": {"contenders": ["custom-of-tomorrow"]}},
        {"settings": {"colour": "red"}},
        {"grid": {"dtype": ["float4"]}},
        {"grid": {"seq_len": 10**4000}},
        {"grid": {"seq_len": [[[]]]}},
    ],
)
def test_a_file_that_is_not_a_run_is_told_in_a_sentence(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_run(tmp_path, [])
    edit_run(tmp_path, **changes)
    with pytest.raises(RunError, match="is not a run as this program writes it") as found:
        read_run(tmp_path)
    assert len(str(found.value)) < 600, "a person reads it"


def test_lists_in_lists_beyond_all_measure_are_told(tmp_path: Path) -> None:
    write_run(tmp_path, [])
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    edit_run(tmp_path, environment={"ceilings": nested})
    with pytest.raises(RunError, match="more than 50 deep in each other"):
        read_run(tmp_path)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(RunError, match="it is no file"):
        read_run(tmp_path)


def test_a_file_larger_than_any_is_not_read(tmp_path: Path) -> None:
    write_run(tmp_path, [])
    os.truncate(tmp_path / "run.json", 2**40)  # a hole: it takes no room
    with pytest.raises(RunError, match=r"larger than any run\.json: 1,099,511,627,776 bytes"):
        read_run(tmp_path)


def test_halves_of_letters_in_an_environment_do_no_harm(tmp_path: Path) -> None:
    write_run(tmp_path, [make_row()])
    path = tmp_path / "run.json"
    path.write_text(path.read_text().replace("Made-up Processor", r"Made-up \ud800 Processor"))
    table = load_run(tmp_path)
    assert table["device_name"].tolist() == ["Made-up ? Processor"]
    assert report_csv(table).encode()


def test_a_file_that_lacks_a_field_is_told_in_a_sentence(tmp_path: Path) -> None:
    write_run(tmp_path, [])
    path = tmp_path / "run.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    for name in values.keys() - {"schema_version", "host"}:  # an earlier version did not keep the host
        path.write_text(json.dumps({key: value for key, value in values.items() if key != name}), encoding="utf-8")
        with pytest.raises(RunError):
            read_run(tmp_path)


def test_runs_are_listed_newest_first_and_what_is_none_is_passed_over(tmp_path: Path) -> None:
    write_run(tmp_path / "older", [], started_at="2026-01-01T00:00:00+00:00")
    write_run(tmp_path / "newer", [], started_at="2026-01-03T00:00:00+00:00")
    write_run(tmp_path / "broken", [])
    (tmp_path / "broken" / "run.json").write_text("{", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "with a space", [])
    (tmp_path / "file").write_text("", encoding="utf-8")
    found = list_runs(tmp_path)
    assert [run.run_id for run in found.runs] == ["newer", "older"]
    assert [name for name, _ in found.unreadable] == ["broken", "with a space"]


def test_a_folder_with_something_of_a_run_that_cannot_be_read_is_named_with_its_reason(tmp_path: Path) -> None:
    for name in ("cut", "later", "lost"):
        write_run(tmp_path / name, [make_row()])
    (tmp_path / "cut" / "run.json").write_text('{"schema_version": 2', encoding="utf-8")
    edit_run(tmp_path / "later", schema_version=7)
    (tmp_path / "lost" / "run.json").unlink()
    (tmp_path / "self-test-made-up").mkdir()
    (tmp_path / "self-test-made-up" / "self-test.json").write_text("{}", encoding="utf-8")
    found = dict(list_runs(tmp_path).unreadable)
    assert list(found) == ["cut", "later", "lost"]
    assert found["cut"].startswith("run.json cannot be read: Expecting")
    assert found["later"].startswith("run.json was written by a later version of this program (schema version 7)")
    assert found["lost"] == "holds no run: there is no run.json in it"


def test_a_run_that_does_not_say_when_it_began_is_the_oldest_and_time_zones_are_heeded(tmp_path: Path) -> None:
    moments = {"b": "2026-01-01T01:00:00+02:00", "a": "2025-12-31T23:30:00+00:00", "d": "yesterday", "c": "2024-01-01"}
    for name, moment in moments.items():
        write_run(tmp_path / name, [], started_at=moment)
    assert [run.run_id for run in list_runs(tmp_path).runs] == ["a", "b", "c", "d"]


def test_a_listed_run_is_read_once_until_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(run_list, "read_run_file", lambda path: read.append(path.parent.name) or read_run_file(path))
    me = psutil.Process()
    for name in ("one", "two"):
        write_run(tmp_path / name, [], state="running", pid=me.pid, process_started=me.create_time())
    (tmp_path / "two" / "run.json").write_text("{", encoding="utf-8")
    assert list_runs(tmp_path) == list_runs(tmp_path)
    assert sorted(read) == ["one", "two"]
    write_run(tmp_path / "two", [], state="stopped")
    assert {run.run_id: run.state for run in list_runs(tmp_path).runs} == {"one": "running", "two": "stopped"}
    monkeypatch.setattr(runs, "is_alive", lambda *_: False)
    assert {run.run_id: run.state for run in list_runs(tmp_path).runs} == {"one": "stopped", "two": "stopped"}
    assert sorted(read) == ["one", "two", "two"]


def test_no_more_files_are_remembered_than_are_meant_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "MAX_REMEMBERED", 3)
    monkeypatch.setattr(run_list, "_remembered", {})
    for number in range(7):
        write_run(tmp_path / f"run-{number}", [])
    for _ in range(2):
        assert len(list_runs(tmp_path).runs) == 7
        assert len(run_list._remembered) == 3


def test_no_results_folder_means_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == Listing()


def test_a_run_is_found_by_its_name(tmp_path: Path) -> None:
    write_run(tmp_path / "mine", [])
    assert find_run_folder("mine", tmp_path) == tmp_path / "mine"


@pytest.mark.parametrize("run_id", ["..", ".", "", "../outside", "a/b", "/etc", "mine\n", "a\\b", "x" * 101, "mi\0ne"])
def test_a_run_id_cannot_leave_the_results_folder(tmp_path: Path, run_id: str) -> None:
    results = tmp_path / "results"
    write_run(results / "mine", [])
    write_run(tmp_path / "outside", [])
    with pytest.raises(RunError, match="run id must consist of letters"):
        find_run_folder(run_id, results)


def test_a_link_out_of_the_results_folder_is_not_followed(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    write_run(tmp_path / "outside", [])
    (results / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match="there is no run link"):
        find_run_folder("link", results)
    assert list_runs(results) == Listing(unreadable=(("link", "it is a link out of this folder"),))
    (results / "link").unlink()
    (results / "link").symlink_to(results / "link")
    with pytest.raises(RunError, match="there is no run link"):
        find_run_folder("link", results)
    assert list_runs(results) == Listing()


def test_run_ids_are_plain_names_and_differ(tmp_path: Path) -> None:
    first, second = new_run_id(), new_run_id()
    assert first != second
    (tmp_path / first).mkdir()
    assert find_run_folder(first, tmp_path)


def test_the_results_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    assert results_dir() == tmp_path
    write_run(tmp_path / "mine", [])
    assert find_run_folder("mine") == tmp_path / "mine"
    assert [run.run_id for run in list_runs().runs] == ["mine"]
    monkeypatch.delenv("MHA_BENCH_RESULTS")
    assert results_dir().name == "results"


def test_without_a_checkout_the_runs_lie_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MHA_BENCH_RESULTS", raising=False)
    monkeypatch.setattr("profiling.runs.RESULTS_DIR", tmp_path / "site-packages" / "results")
    monkeypatch.chdir(tmp_path)
    assert results_dir() == tmp_path / "results"


def test_a_missing_table_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "none.csv", MEASUREMENT_COLUMNS) == []


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, [make_row("custom"), make_row("official")])
    path = tmp_path / MEASUREMENTS_FILE
    whole = path.read_bytes()
    # Cut at every byte of the last line, its line end too: the row before stands, the torn one is never half there.
    for cut in range(whole[:-1].rfind(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:cut])
        assert [row["contender"] for row in read_rows(path, MEASUREMENT_COLUMNS)] == ["custom"]


def test_a_row_of_another_width_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, [make_row("custom")])
    path = tmp_path / MEASUREMENTS_FILE
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole + "short,row\n" + "x," * 60 + "\n" + "\0\0\0\n", encoding="utf-8")
    assert [row["contender"] for row in read_rows(path, MEASUREMENT_COLUMNS)] == ["custom"]


def test_a_table_that_is_none_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / MEASUREMENTS_FILE
    path.write_text("x" * 200_000 + "\n" + "y" * 200_000 + "\n", encoding="utf-8")
    with pytest.raises(RunError, match="is not a table"):
        read_rows(path, MEASUREMENT_COLUMNS)
    path.unlink()
    path.mkdir()
    with pytest.raises(RunError, match="cannot be read"):
        read_rows(path, MEASUREMENT_COLUMNS)


@pytest.mark.parametrize(
    "damage", [lambda text: text.replace(",", ";"), lambda text: text.replace("seq_len", "length")]
)
def test_a_table_with_another_header_is_refused_not_taken_for_empty(tmp_path: Path, damage: Any) -> None:
    path = write_run(tmp_path, [make_row()]) / MEASUREMENTS_FILE
    path.write_text(damage(path.read_text()))
    with pytest.raises(RunError, match="has no column"):
        read_rows(path, MEASUREMENT_COLUMNS)


def test_a_byte_order_mark_of_a_spreadsheet_is_no_harm(tmp_path: Path) -> None:
    path = write_run(tmp_path, [make_row()]) / MEASUREMENTS_FILE
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_rows(path, MEASUREMENT_COLUMNS)) == 1


@pytest.mark.parametrize("text", ["[" * 200_000, '{"schema_version": ' + "9" * 5000 + "}"])
def test_json_beyond_all_measure_is_told_as_unreadable(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunError, match="cannot be read"):
        read_run(tmp_path)


@pytest.mark.parametrize("done", ["3", None, 1.5, True])
def test_progress_that_is_no_count_is_told_in_a_sentence(tmp_path: Path, done: Any) -> None:
    path = write_run(tmp_path, []) / "run.json"
    values = json.loads(path.read_text())
    values["progress"]["done"] = done
    path.write_text(json.dumps(values))
    with pytest.raises(RunError, match="whole number done"):
        read_run(tmp_path)
