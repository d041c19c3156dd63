"""`python -m profiling runs`: what it prints, what it asks, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_up_runs import make_row, write_run

from profiling.cli import main
from profiling.run_names import NOTES_FILE, Notes, read_notes


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "older", [make_row()], started_at="2026-01-02T03:04:05+00:00")
    write_run(tmp_path / "newer", [make_row()], started_at="2026-02-02T03:04:05+00:00", state="stopped")
    return tmp_path


def runs(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(main, ["runs", *arguments], input=answer)


def test_the_runs_are_listed_the_newest_first_with_their_names(results: Path) -> None:
    assert runs("name", "older", "before [it]").exit_code == 0
    assert runs("note", "before [it]", "heap\nas it comes").exit_code == 0
    done = runs()
    assert done.exit_code == 0
    heading, newer, older = done.stdout.splitlines()
    assert heading.split() == ["run", "name", "state", "points", "contenders", "device", "note"]
    assert newer.split()[:2] == ["newer", "stopped"]
    for part in (
        "older",
        "before [it]",
        "finished",
        "2 × 2",
        "custom, official",
        "Made-up Processor",
        "heap as it comes",
    ):
        assert part in older


def test_as_json_it_is_one_object(results: Path) -> None:
    runs("name", "newer", "mine")
    (results / "torn").mkdir()
    (results / "torn" / "run.json").write_text("{", encoding="utf-8")
    told = json.loads(runs("--json").stdout)
    assert [(run["run_id"], run["name"], run["state"], run["num_points"]) for run in told["runs"]] == [
        ("newer", "mine", "stopped", 2),
        ("older", None, "finished", 2),
    ]
    assert [each["run_id"] for each in told["unreadable"]] == ["torn"]


def test_what_cannot_be_read_is_warned_of(results: Path) -> None:
    (results / "older" / NOTES_FILE).write_text("{", encoding="utf-8")
    (results / "newer" / "run.json").write_text("{", encoding="utf-8")
    done = runs()
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1].startswith("older")
    assert "warning: newer cannot be read" in done.stderr
    assert f"warning: older: {NOTES_FILE} cannot be read" in done.stderr


def test_no_runs_yet_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path / "none"))
    assert runs().stdout == "no runs yet: `python -m profiling sweep` measures one\n"
    assert json.loads(runs("--json").stdout) == {"runs": [], "unreadable": []}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "why"),
    [
        (("name", "none", "mine"), 2, "there is no run none"),
        (("name", "older", "a/b"), 2, "name must be one line"),
        (("name", "older", "newer"), 2, "name must be that of one run alone"),
        (("note", "older", "\x1b"), 2, "note must be a text without control characters"),
        (("delete", "../older", "--yes"), 2, "run id must consist of letters"),
        (("delete", "none", "--yes"), 2, "there is no run none"),
        (("delete",), 2, "Missing argument 'RUN'"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(
    results: Path, arguments: tuple[str, ...], exit_code: int, why: str
) -> None:
    done = runs(*arguments)
    assert done.exit_code == exit_code
    assert why in done.stderr
    assert read_notes(results / "older") == Notes()


def test_a_run_is_deleted_when_its_id_is_typed(results: Path) -> None:
    runs("name", "older", "mine")
    done = runs("delete", "mine", answer="older\n")
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith(f"deleted {results / 'older'}\n")
    assert "with 3 files" in done.stderr
    assert not (results / "older").exists()


@pytest.mark.parametrize("answer", ["y\n", "mine\n", "newer\n", "\n", ""])
def test_whatever_else_is_typed_deletes_nothing(results: Path, answer: str) -> None:
    runs("name", "older", "mine")
    done = runs("delete", "mine", answer=answer)
    assert done.exit_code == 1
    assert "older is not deleted: that was not its id" in done.stderr
    assert (results / "older" / "run.json").exists()


def test_with_yes_nobody_is_asked(results: Path) -> None:
    done = runs("delete", "older", "--yes")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"deleted {results / 'older'}\n", "")
    assert [path.name for path in results.iterdir()] == ["newer"]
