from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up_runs import make_row, write_run

from profiling import run_deletion, run_notes
from profiling.folder_lock import FolderLock, turn_in
from profiling.run_deletion import ASIDE, delete_run, find_deletable
from profiling.run_list import list_runs
from profiling.run_names import MAX_NAME, MAX_NOTE, NOTES_FILE, Notes, name_fault, note_fault, read_notes
from profiling.run_notes import NoteRefused, name_run, note_run
from profiling.runs import MEASUREMENTS_FILE, RUN_FILE, RunError, find_run_folder
from profiling.safe_files import remove_left_over


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with two runs, beside a run that is none of it."""
    for name in ("one", "two"):
        write_run(tmp_path / "results" / name, [make_row()])
    write_run(tmp_path / "outside", [make_row()])
    return tmp_path / "results"


# -- names and notes ---


def test_a_run_keeps_its_name_and_its_note_apart_from_what_the_sweep_writes(results: Path) -> None:
    before = (results / "one" / RUN_FILE).read_bytes()
    assert read_notes(results / "one") == Notes()
    name_run(results / "one", "before the rewrite")
    note_run(results / "one", "two lines,\nof which one is [bold]")
    assert read_notes(results / "one") == Notes("before the rewrite", "two lines,\nof which one is [bold]")
    name_run(results / "one", " before ")
    assert read_notes(results / "one").note is not None, "the other is kept"
    assert (results / "one" / RUN_FILE).read_bytes() == before
    name_run(results / "one", "")
    note_run(results / "one", " ")
    assert read_notes(results / "one") == Notes()


def test_a_run_is_found_by_its_unique_name(results: Path) -> None:
    name_run(results / "one", "große Fassung, 2")
    assert find_run_folder("große Fassung, 2", results) == results / "one"
    assert find_run_folder("one", results) == results / "one"
    with pytest.raises(RunError, match="no run has that for a name"):
        find_run_folder("große Fassung", results)


def test_a_name_is_that_of_one_run_alone(results: Path) -> None:
    name_run(results / "one", "mine")
    name_run(results / "one", "mine")
    with pytest.raises(NoteRefused, match="name must be that of one run alone, and 'mine' is what one is called"):
        name_run(results / "two", "mine")
    with pytest.raises(NoteRefused, match="'one' is what one is called"):
        name_run(results / "two", "one")
    name_run(results / "one", "one")
    # Someone has copied a folder.
    shutil.copytree(results / "one", results / "three")
    name_run(results / "one", "")
    (results / "one" / NOTES_FILE).write_text('{"name": "copy"}', encoding="utf-8")
    (results / "three" / NOTES_FILE).write_text('{"name": "copy"}', encoding="utf-8")
    with pytest.raises(RunError, match="2 runs are called 'copy': give the id of one, such as one or three"):
        find_run_folder("copy", results)


def test_an_id_goes_before_a_name(results: Path) -> None:
    (results / "one" / NOTES_FILE).write_text('{"name": "two"}', encoding="utf-8")
    assert find_run_folder("two", results) == results / "two"


def test_a_run_outside_the_results_is_not_found_by_its_name(results: Path) -> None:
    name_run(results.parent / "outside", "outer")
    (results / "link").symlink_to(results.parent / "outside")
    with pytest.raises(RunError, match="there is no run outer"):
        find_run_folder("outer", results)


@pytest.mark.parametrize(
    "name", ["x" * (MAX_NAME + 1), "a\nb", "a/b", "a\\b", "-rf", ".", "..", "\ud800", "a\0b", "\x1b[2J"]
)
def test_a_text_that_can_be_no_name_is_refused(results: Path, name: str) -> None:
    with pytest.raises(NoteRefused, match="name must be "):
        name_run(results / "one", name)
    assert not (results / "one" / NOTES_FILE).exists()


@pytest.mark.parametrize("note", ["x" * (MAX_NOTE + 1), "\x1b[2J", "\0", "\ud800"])
def test_a_text_that_can_be_no_note_is_refused(results: Path, note: str) -> None:
    with pytest.raises(NoteRefused, match="note must be a text"):
        note_run(results / "one", note)


@given(st.text(max_size=MAX_NAME + 5), st.text(max_size=99))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@pytest.mark.usefixtures("unsynced")
def test_what_is_taken_is_read_again_as_it_was(results: Path, name: str, note: str) -> None:
    if name_fault(name) is not None or note_fault(note) is not None or (results / name).exists():
        return
    name_run(results / "one", name)
    note_run(results / "one", note)
    assert read_notes(results / "one") == Notes(name, note.strip() or None)
    assert find_run_folder(name, results) == results / "one"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b"", Notes()),
        (b"{", Notes()),
        (b"\xff", Notes()),
        (b"[" * 5_000, Notes()),
        (b"[]", Notes()),
        (b'{"name": 3, "note": "kept"}', Notes(None, "kept")),
        (b'{"name": "kept", "note": ["x"]}', Notes("kept")),
        (b'{"name": "a\\nb"}', Notes()),
        (b'{"note": "\\ud800"}', Notes()),
        (b'{"name": "kept"}' + b" " * 2**17, Notes()),
    ],
)
def test_damaged_notes_are_none_and_told(results: Path, text: bytes, kept: Notes) -> None:
    (results / "one" / NOTES_FILE).write_bytes(text)
    found = read_notes(results / "one")
    assert (found.name, found.note) == (kept.name, kept.note)
    assert found.problem is not None
    assert found.problem.startswith(NOTES_FILE)
    name_run(results / "one", "mended")
    assert read_notes(results / "one") == Notes("mended", kept.note)


def test_notes_that_lead_elsewhere_are_not_read(results: Path) -> None:
    name_run(results / "two", "secret")
    (results / "one" / NOTES_FILE).symlink_to(results / "two" / NOTES_FILE)
    assert read_notes(results / "one") == Notes(problem=f"{NOTES_FILE} is no file")
    (results / "one" / NOTES_FILE).unlink()
    os.mkfifo(results / "one" / NOTES_FILE)
    assert read_notes(results / "one").problem == f"{NOTES_FILE} is no file"


@pytest.mark.usefixtures("unsynced")
def test_a_name_and_a_note_that_are_written_at_once_are_both_kept(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, noting = run_notes.write_aside, []

    def meanwhile(path: Path, text: str) -> None:
        if not noting:  # the other has read the notes as they are now, unless it waits
            noting.append(threading.Thread(target=note_run, args=(results / "one", "kept")))
            noting[0].start()
            time.sleep(0.05)
        real(path, text)

    monkeypatch.setattr(run_notes, "write_aside", meanwhile)
    name_run(results / "one", "mine")
    noting[0].join(20)
    assert read_notes(results / "one") == Notes("mine", "kept")


def test_two_runs_do_not_get_one_name_at_once(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, refused, other = run_notes.write_aside, [], []

    def name_the_other() -> None:
        try:
            name_run(results / "two", "mine")
        except NoteRefused as error:
            refused.append(error)

    def meanwhile(path: Path, text: str) -> None:
        if not other:
            other.append(threading.Thread(target=name_the_other))
            other[0].start()
            time.sleep(0.05)
        real(path, text)

    monkeypatch.setattr(run_notes, "write_aside", meanwhile)
    name_run(results / "one", "mine")
    other[0].join(20)
    assert len(refused) == 1
    assert read_notes(results / "two").name is None


def test_who_waits_for_ever_is_told(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_notes, "MOST_WAIT_S", 0.03)
    with turn_in(results, 1), pytest.raises(RunError, match=r"is held by another process for 0\.03 s"):
        note_run(results / "one", "never written")
    note_run(results / "one", "written")
    assert read_notes(results / "one").note == "written"


def test_what_holds_no_run_is_not_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        name_run(tmp_path, "mine")
    assert not list(tmp_path.iterdir())


def test_what_a_killed_writer_left_is_tidied_up_like_any_other(results: Path) -> None:
    left = results / "one" / f".{NOTES_FILE}.999999999.tmp"
    left.touch()
    remove_left_over(results / "one")
    assert not left.exists()


# -- deletion ---


def test_a_deleted_run_is_gone_and_nothing_else_is(results: Path) -> None:
    (results / "one" / "traces").mkdir()
    (results / "one" / "traces" / "trace.json").write_text("x" * 100, encoding="utf-8")
    found = find_deletable("one", results)
    assert (found.folder, found.num_files) == (results / "one", 3)
    assert found.num_bytes > 100
    assert delete_run("one", results) == results / "one"
    assert [path.name for path in results.iterdir()] == ["two"]
    assert (results.parent / "outside" / RUN_FILE).exists()


def test_a_run_is_deleted_by_its_name(results: Path) -> None:
    name_run(results / "two", "no longer needed")
    delete_run("no longer needed", results)
    assert [path.name for path in results.iterdir()] == ["one"]


@pytest.mark.parametrize("run_id", ["..", ".", "", "../outside", "/etc", "one/../two", "one/", "none", ASIDE])
def test_nothing_outside_of_the_results_is_deleted(results: Path, run_id: str) -> None:
    with pytest.raises(RunError):
        delete_run(run_id, results)
    assert sorted(path.name for path in results.parent.iterdir()) == ["outside", "results"]
    assert sorted(path.name for path in results.iterdir()) == ["one", "two"]


def test_a_link_is_not_deleted_nor_is_what_it_leads_to(results: Path) -> None:
    (results / "out").symlink_to(results.parent / "outside")
    (results / "within").symlink_to(results / "one")
    with pytest.raises(RunError, match="there is no run out"):
        delete_run("out", results)
    with pytest.raises(RunError, match="is a link, and not a run"):
        delete_run("within", results)
    # A link inside a run goes, and what it leads to stays.
    (results / "two" / "link").symlink_to(results.parent / "outside")
    delete_run("two", results)
    assert (results.parent / "outside" / MEASUREMENTS_FILE).exists()
    assert (results / "one" / MEASUREMENTS_FILE).exists()


def test_a_link_in_the_place_of_what_is_set_aside_is_refused(results: Path) -> None:
    (results / ASIDE).symlink_to(results.parent / "outside")
    with pytest.raises(RunError, match="is a link: nothing is deleted"):
        delete_run("one", results)
    assert (results / "one" / RUN_FILE).exists()
    assert (results.parent / "outside" / RUN_FILE).exists()


def test_a_running_run_is_not_deleted(results: Path) -> None:
    me = psutil.Process()
    write_run(results / "busy", [], state="running", pid=me.pid, process_started=me.create_time())
    with pytest.raises(RunError, match="run busy is still running, since 2026"):
        delete_run("busy", results)
    # One that claims to be, of a process that is gone, is not.
    write_run(results / "left", [], state="running", pid=2**22 + 1, process_started=1.0)
    delete_run("left", results)
    assert sorted(path.name for path in results.iterdir()) == ["busy", "one", "two"]


def test_a_run_that_a_sweep_has_locked_is_not_deleted(results: Path) -> None:
    lock = FolderLock(results / "one")
    lock.acquire()
    with pytest.raises(RunError, match="is being written by another sweep"):
        delete_run("one", results)
    lock.release()
    delete_run("one", results)


def test_the_example_is_not_deleted(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_deletion.EXAMPLE.parts[-2:] == ("results", "example")
    monkeypatch.setattr(run_deletion, "EXAMPLE", results / "one")
    with pytest.raises(RunError, match="the example belongs to the project"):
        delete_run("one", results)


def test_a_damaged_run_can_be_deleted_and_what_is_no_run_cannot(results: Path) -> None:
    (results / "one" / RUN_FILE).write_text("{", encoding="utf-8")
    delete_run("one", results)
    (results / "mine").mkdir()
    (results / "mine" / "thesis.txt").touch()
    with pytest.raises(RunError, match="holds no run: nothing is deleted"):
        delete_run("mine", results)
    assert (results / "mine" / "thesis.txt").exists()


def test_a_run_that_cannot_be_set_aside_stands_as_it_was(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    before = {path: path.read_bytes() for path in (results / "one").iterdir()}
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(RunError, match="cannot be deleted, and stands as it was: Permission denied"):
        delete_run("one", results)
    assert {path: path.read_bytes() for path in (results / "one").iterdir()} == before


def test_a_deletion_that_was_ended_in_the_middle_shows_no_half_run_and_is_ended_by_the_next(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", fail)
        with pytest.raises(
            RunError, match=r"run one is gone from the list, but what is left of it in .* cannot be removed"
        ):
            delete_run("one", results)
    found = list_runs(results)
    assert ([run.run_id for run in found.runs], found.unreadable) == (["two"], ())
    assert list((results / ASIDE).iterdir())
    delete_run("two", results)
    assert list(results.iterdir()) == []


def test_what_the_notes_file_holds_is_plain_json(results: Path) -> None:
    name_run(results / "one", "größer")
    assert json.loads((results / "one" / NOTES_FILE).read_text(encoding="utf-8")) == {"name": "größer"}


def test_two_deletions_at_once_both_succeed(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.rmtree
    others = ["two"]

    def meanwhile(path: Path, **options: bool) -> None:
        if others:  # ends while this one is removing, and clears what it finds
            delete_run(others.pop(), results)
        real(path, **options)

    monkeypatch.setattr(shutil, "rmtree", meanwhile)
    assert delete_run("one", results) == results / "one"
    assert not (results / "one").exists()
    assert not (results / "two").exists()
    assert not (results / ASIDE).exists()
