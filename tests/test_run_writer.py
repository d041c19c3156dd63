from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import lost_row, make_row, make_run, write_run

from profiling.columns import MEASUREMENT_COLUMNS, SAMPLE_COLUMNS, SCHEMA_VERSION, Column
from profiling.run_writer import RunWriter, to_csv
from profiling.runs import MEASUREMENTS_FILE, SAMPLES_FILE, RunError, read_rows, read_run
from profiling.safe_files import write_aside

COLUMNS = (Column("text", "text", "awkward"), Column("number", "float", "exact"))


@given(st.lists(st.tuples(st.text(), st.floats(allow_nan=False)), max_size=5))
def test_a_table_survives_the_way_through_csv_with_awkward_text(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "awkward.csv"
    written = [{"text": text, "number": number} for text, number in rows]
    text = to_csv(COLUMNS, written, header=True)
    assert text.count("\n") == len(rows) + 1, "one line per row"
    path.write_bytes(text.encode("utf-8", errors="backslashreplace"))
    back = read_rows(path, COLUMNS)
    assert [float(row["number"]) for row in back] == [number for _, number in rows]
    # White space is collapsed, so that a row is a line; what is no text (half a surrogate pair) is spelled out.
    plain = [" ".join(text.split()).encode("utf-8", errors="backslashreplace").decode() for text, _ in rows]
    assert [row["text"] for row in back] == plain


def test_nothing_is_written_as_an_empty_cell_and_never_as_a_number() -> None:
    assert to_csv(COLUMNS, [{"text": "x", "number": None}, {"text": "y"}], header=False) == "x,\ny,\n"


def test_the_header_is_written_once(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, make_run())
    writer.append_measurements([make_row("custom")])
    writer.append_measurements([make_row("official")])
    lines = (tmp_path / MEASUREMENTS_FILE).read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in lines] == ["run_id", "made-up", "made-up"]


def test_an_update_keeps_the_rest_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, make_run(state="running"))
    writer.update(state="failed", state_reason="why")
    run = read_run(tmp_path)
    assert (run.state, run.state_reason, run.grid) == ("failed", "why", make_run().grid)
    assert run.updated_at > make_run().updated_at
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_text_that_is_none_costs_no_row(tmp_path: Path) -> None:
    broken = lost_row("custom", "error", "RuntimeError: \ud800 \x00 end")
    write_run(tmp_path, [broken, make_row("official")])
    rows = read_rows(tmp_path / MEASUREMENTS_FILE, MEASUREMENT_COLUMNS)
    assert [row["contender"] for row in rows] == ["custom", "official"]
    assert rows[0]["status_reason"].startswith("RuntimeError: \\ud800")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be made"):
        RunWriter(tmp_path / "file" / "run", make_run())


class TestAFullDisk:
    """`/dev/full` takes every byte and refuses to keep it, as a full disk does: at flush, not at write."""

    def test_at_an_append_is_told_and_the_earlier_rows_stand(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writer = RunWriter(tmp_path, make_run())
        writer.append_measurements([make_row("custom")])

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match=r"measurements\.csv cannot be written: .*No space left on device"):
            writer.append_measurements([make_row("official")])
        assert read_rows(tmp_path / MEASUREMENTS_FILE, MEASUREMENT_COLUMNS)[0]["contender"] == "custom"

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
    def test_behind_a_file_is_told(self, tmp_path: Path) -> None:
        writer = RunWriter(tmp_path, make_run())
        (tmp_path / SAMPLES_FILE).symlink_to("/dev/full")
        with pytest.raises(RunError, match=r"samples\.csv cannot be written: .*No space left on device"):
            writer.append_samples([{"replicate": 1, "point": 1, "contender": "custom", "round": 1, "latency_ms": 2.0}])

    def test_at_an_update_leaves_the_old_file_and_nothing_beside_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "file"
        write_aside(path, "old")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match="cannot be written"):
            write_aside(path, "new")
        assert path.read_text(encoding="utf-8") == "old"
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["", ".", "/", "folder", "pipe", "link"])
def test_what_is_no_file_is_told_in_a_sentence_and_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    Path("folder").mkdir()
    before = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
    with pytest.raises(RunError, match=r"cannot be written: "):
        write_aside(Path(place), "text")
    assert {path.name: path.lstat().st_mode for path in tmp_path.iterdir()} == before


def test_two_threads_that_write_one_file_each_write_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_aside(path, "a" * 50)
    faults: list[str] = []

    def write(letter: str) -> None:
        for _ in range(50):
            try:
                write_aside(path, letter * 50)
            except RunError as error:
                faults.append(str(error))
            found = path.read_text(encoding="utf-8")
            if found not in ("a" * 50, "b" * 50):
                faults.append(found)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert list(tmp_path.iterdir()) == [path]


def sample(replicate: Any, point: Any) -> dict[str, Any]:
    return {"run_id": "made-up", "replicate": replicate, "point": point, "contender": "custom", "round": 1}


def test_only_the_rows_of_finished_steps_are_kept(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, make_run())
    places = [(1, 1), (1, 2), (2, 1)]
    writer.append_samples([sample(*place) | {"latency_ms": 2.0} for place in places])
    writer.append_measurements([make_row(replicate=replicate, point=point) for replicate, point in places])
    with (tmp_path / MEASUREMENTS_FILE).open("ab") as stream:
        stream.write(b"made-up,2,2,torn")
    writer.keep_only({(1, 1), (2, 1)})
    for file, columns in ((MEASUREMENTS_FILE, MEASUREMENT_COLUMNS), (SAMPLES_FILE, SAMPLE_COLUMNS)):
        rows = read_rows(tmp_path / file, columns)
        assert [(row["replicate"], row["point"]) for row in rows] == [("1", "1"), ("2", "1")]
        assert (tmp_path / file).read_bytes().endswith(b"\n")


def test_a_row_whose_place_is_no_number_is_dropped(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, make_run())
    writer.append_samples([sample("x", 1) | {"latency_ms": 2.0}, sample(1, "²") | {"latency_ms": 2.0}])
    writer.keep_only({(1, 1)})
    assert read_rows(tmp_path / SAMPLES_FILE, SAMPLE_COLUMNS) == []


def test_what_is_written_is_json_that_says_its_version(tmp_path: Path) -> None:
    RunWriter(tmp_path, make_run())
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["schema_version"] == SCHEMA_VERSION


def test_a_file_of_which_all_is_kept_stays_as_it_is(tmp_path: Path) -> None:
    path = write_run(tmp_path, [make_row()]) / MEASUREMENTS_FILE
    lines = path.read_text().splitlines()
    path.write_text(f"{lines[0]},note\n{lines[1]},mine\n")
    before = path.read_bytes()
    RunWriter(tmp_path, make_run()).keep_only({(1, 1)})
    assert path.read_bytes() == before


def test_a_file_system_that_takes_nothing_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(RunError, match="Read-only file system"):
        write_aside(tmp_path / "report.csv", "text")
