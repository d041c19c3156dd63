"""`python -m profiling repeat`: what it prints and writes, what it refuses, and that it measures the same again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_up_runs import FakeChild, lost_row, make_row, write_run
from own_layers import RIGHT, write_layer

from profiling.child_process import MeasuringError
from profiling.cli import main
from profiling.kept_sources import keep_source
from profiling.measured_point import find_point
from profiling.runs import read_run
from profiling.settings import SweepSettings
from profiling.sources import Source


def repeat(*words: object) -> Result:
    return CliRunner().invoke(main, ["repeat", *map(str, words)])


def test_a_row_is_measured_again_at_once_and_judged(
    fake: type[FakeChild], own_signals: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slower(FakeChild):
        times = 0.9

        def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
            answer = super().ask(request, limit_s=limit_s)
            for name, row in answer.get("rows", {}).items():
                if name != "official":
                    row |= {"speedup": self.times, "clone_speedup": 1.0, "max_abs_error": 0.0}
            return answer

    monkeypatch.setattr("profiling.measurer.MeasuringChild", Slower)
    row = make_row(speedup=0.91, latency_median_ms=2.0)
    folder = write_run(tmp_path / "run", [row, row | {"replicate": 2, "speedup": 0.92}, make_row("official")])
    done = repeat(folder, "--point", 1, "--contender", "custom", "--run", "--out", tmp_path / "again")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        # Two replicates of the row, ln(0.92/0.91) = 0.01093: 12.706 · 0.00773 / √2 = 0.06944; those of today are alike.
        "the row said 0.915 [0.854, 0.981], here 0.900 [0.900, 0.900]: they agree, within 7.2 % of noise",
        "max error: the row said 0.00e+00, here 0.00e+00",
        str(tmp_path / "again"),
    ]
    again = read_run(tmp_path / "again").settings
    assert (again.contenders, again.replicates) == (("custom", "official"), 2)

    Slower.times = 0.5
    done = repeat(folder, "--point", 1, "--contender", "custom", "--run", "--out", tmp_path / "other", "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["agrees"]) == (1, False)
    assert "they differ" in answer["words"]
    assert answer["max_abs_error"] == {"said": 0.0, "found": 0.0}


# -- printed and written ----------------------------------------------------------------------------------------------


@pytest.fixture
def edited(tmp_path: Path) -> tuple[Path, Path, str]:
    """A run of a layer of one's own, its file, and the hash of another source in it; the file has been edited since."""
    mine = write_layer(tmp_path / "code")
    spec = f"{mine}:Right"
    source = Source.of_layer(mine)
    row = make_row() | {"contender": spec, "source_hash": source.hash}
    settings = SweepSettings(contenders=(spec,), time_budget_s=0.02)
    folder = write_run(tmp_path / "run", [row, make_row("official")], settings=settings)
    keep_source(folder, source)
    mine.write_text(RIGHT.replace("math.sqrt", "math.log"))
    other = Source.of_layer(mine)
    keep_source(folder, other)
    mine.write_text(RIGHT + "# later\n")
    return folder, mine, other.hash


def test_an_edited_layer_is_told_and_its_source_is_shown_as_it_was(edited: tuple[Path, Path, str]) -> None:
    folder, mine, other = edited
    point = ["--point", 1, "--contender", "mine.py:Right"]
    asked = repeat(folder, *point)
    assert asked.stderr == (
        f"warning: {mine} is not what was measured any more: it was edited or is gone; --script has it as it was\n"
    )
    assert repeat(folder, *point, "--print-command").stdout == asked.stdout
    assert json.loads(repeat(folder, *point, "--json").stdout)["is_unchanged"] is False

    shown = repeat(folder, *point, "--source").stdout
    first, second, *text = shown.splitlines()
    hash_ = find_point(folder, 1, "mine.py:Right").row["source_hash"]
    assert first == f"# source {hash_}: 1 row of {mine}:Right, the first measured at 2026-01-02T03:05:05+00:00"
    assert second == "# -- mine.py"
    assert "\n".join(text) == RIGHT.rstrip()
    files = json.loads(repeat(folder, *point, "--source", "--json").stdout)["source"]["files"]
    assert files == {"mine.py": RIGHT}

    lines = repeat(folder, *point, "--diff", "now").stdout.splitlines()
    assert [line for line in lines if line.startswith("+") and "++" not in line] == ["+# later"]
    lines = repeat(folder, *point, "--diff", other).stdout.splitlines()
    assert [line for line in lines if line.startswith("+") and "++" not in line] == [
        "+        return 1 / math.sqrt(head_dim)"
    ]
    run = repeat(folder, *point, "--run")
    assert run.exit_code == 2
    assert run.stderr.endswith("put it back, or write the script, which has it as it was: --script FILE\n")


def test_a_script_is_written_to_a_new_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "again.py"
    folder = write_run(tmp_path / "run", [make_row(source_hash=Source.of_ours().hash), make_row("official")])
    point = [folder, "--point", 1, "--contender", "custom"]
    assert repeat(*point, "--script", file).stdout == f"{file}\n"
    text = file.read_text(encoding="utf-8")
    assert "    python again.py N " in text
    assert repeat(*point, "--script", "-").stdout == text.replace("again.py", "repeat.py")
    assert json.loads(repeat(*point, "--script", tmp_path / "b.py", "--json").stdout)["script"] == str(
        tmp_path / "b.py"
    )
    refused = repeat(*point, "--script", file)
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"error: {file} is there already: give the name of a new file\n",
    )
    assert file.read_text(encoding="utf-8") == text
    (tmp_path / "link.py").symlink_to(tmp_path / "nowhere.py")
    assert repeat(*point, "--script", tmp_path / "link.py").exit_code == 2
    assert repeat(*point, "--script", "-", "--json").exit_code == 2
    found = repeat(*point, "--diff", "now", "--json")
    assert json.loads(found.stdout)["diff"] == "", "ours as they are now are what was measured"


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--point", "9", "--contender", "custom"], 2, "has no point 9: it has rows of points up to 2"),
        (["--point", "1e3", "--contender", "custom"], 2, "point must be a whole number, not '1e3'"),
        (
            ["--point", "1", "--contender", "x.py:Y"],
            2,
            "contender must be one of those at this point, custom, official",
        ),
        (["--point", "1", "--contender", "custom", "--source"], 2, "the row has no hash of a source"),
        (["--point", "1", "--contender", "official", "--source"], 2, "its source is that of torch 2.13.0"),
        (["--point", "1", "--contender", "custom", "--script", "no/x.py"], 2, "the row has no hash of a source"),
        (["--point", "1", "--contender", "official", "--script", "no/x.py"], 74, "no/x.py cannot be written"),
        (["--point", "1", "--contender", "custom", "--source", "--run"], 2, "exclude each other: give one of them"),
        (["--point", "1", "--contender", "custom", "--out", "x"], 2, "--out needs --run"),
        (["--point", "2", "--contender", "custom"], 2, "d_model 10 is not divisible by num_heads 3"),
        (["--point", "1", "--contender", "custom", "--script", ""], 2, "'--script': it is empty, which names nothing"),
        (["--point", "1", "--contender", "custom", "--diff", ""], 2, "'--diff': it is empty, which names nothing"),
        (
            ["--point", "1", "--contender", "custom", "--run", "--out", ""],
            2,
            "'--out': it is empty, which names nothing",
        ),
        (["--contender", "custom"], 2, "Missing option '--point'"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_cannot_be_is_told_in_a_sentence(
    words: list[str], status: int, sentence: str, as_json: bool, tmp_path: Path
) -> None:
    invalid = lost_row("custom", "invalid", "heads", point=2) | {"num_heads": 3}
    folder = write_run(tmp_path / "run", [make_row(), make_row("official"), invalid])
    done = repeat(folder, *words, *(["--json"] if as_json else []))
    assert done.exit_code == status
    assert sentence in done.stderr
    if as_json:
        assert sentence in json.loads(done.stdout)["error"]


@pytest.mark.parametrize("run", ["../outside", "no such run", "/nowhere/at/all"])
def test_a_run_that_is_not_there_is_told(run: str) -> None:
    assert repeat(run, "--point", 1, "--contender", "custom").exit_code == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_a_row_that_could_not_be_measured_again_is_no_wrong_option(
    own_signals: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise MeasuringError("the cpu is busy since noon")

    monkeypatch.setattr("profiling.sweep.sweep", busy)
    row = make_row(source_hash=Source.of_ours().hash)
    folder = write_run(tmp_path / "run", [row, make_row("official")])
    words = ["--json"] if as_json else []
    done = repeat(folder, "--point", 1, "--contender", "custom", "--run", "--out", tmp_path / "again", *words)
    assert (done.exit_code, done.stderr) == (1, "error: the cpu is busy since noon\n")
    if as_json:
        assert json.loads(done.stdout) == {"error": "the cpu is busy since noon"}


def test_a_contender_by_the_end_of_its_name_is_one_alone(tmp_path: Path) -> None:
    names = [f"{write_layer(tmp_path / folder)}:Right" for folder in ("a", "b")]
    rows = [make_row() | {"contender": name} for name in names]
    folder = write_run(tmp_path / "run", rows, settings=SweepSettings(contenders=tuple(names)))
    assert repeat(folder, "--point", 1, "--contender", "a/mine.py:Right").exit_code == 0
    assert repeat(folder, "--point", 1, "--contender", "mine.py:Right").exit_code == 2


def test_a_place_that_could_steer_a_terminal_is_none(tmp_path: Path) -> None:
    settings = SweepSettings(contenders=("x.py:Right",), layers={"x.py:Right": "/\x1b[2J/x.py:Right"})
    folder = write_run(tmp_path / "run", [make_row() | {"contender": "x.py:Right"}], settings=settings)
    done = repeat(folder, "--point", 1, "--contender", "x.py:Right")
    assert (done.exit_code, done.stderr) == (2, "error: run made-up does not say where 'x.py:Right' lay\n")
