"""A run named at the command line: to each command that reads one, a name means the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up_runs import write_run

from profiling.cli import main
from profiling.run_notes import name_run
from profiling.runs import RunError, run_folder

COMMANDS = {
    "export": ["export", "RUN"],
    "report": ["report", "RUN"],
    "laws": ["laws", "RUN"],
    "repeat": ["repeat", "RUN", "--point", "1", "--contender", "custom"],
    "fits": ["fits", "custom", "--device", "cpu", "--memory", "1000", "--run", "RUN"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("no/such", "there is no folder no/such"),
        ("none", "there is no run none in "),
        ("a name", "run id must consist of letters, digits, - and _, not 'a name', and no run has that for a name"),
    ],
)
def test_what_is_no_run_is_told_alike_by_each_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, given: str, why: str
) -> None:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    done = CliRunner().invoke(main, [given if word == "RUN" else word for word in COMMANDS[command]])
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith(f"error: {why}")


def test_a_run_is_a_folder_or_an_id_or_a_name_in_results(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "results" / "first", [])
    name_run(folder, "before the rewrite")
    for given in (folder, str(folder), "first", "before the rewrite"):
        assert run_folder(given, tmp_path / "results") == folder
    with pytest.raises(RunError, match="there is no folder"):
        run_folder(tmp_path / "results" / "second", tmp_path / "results")
