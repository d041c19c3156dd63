"""One tiny point, measured for real, and measured again by its command and by its script."""

from __future__ import annotations

import ast
import math
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from own_layers import RIGHT, write_layer
from script_names import namespace, settings_of_torch

from profiling import run_sweep
from profiling.cli import main
from profiling.measured_point import find_point
from profiling.sources import Source
from profiling.standalone.writing import script_text
from profiling.table import load_run

HELPED = "from .helper import split\n" + RIGHT.replace("self.split(project(x))", "split(self, project(x))")
HELPER = "def split(layer, t):\n    return layer.split(t)\n"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tiny point, measured for real, with a layer in a package that imports a file beside it."""
    folder = tmp_path_factory.mktemp("standalone")
    package = folder / "code" / "pack"
    mine = write_layer(package, text=HELPED)
    write_layer(package, "helper.py", HELPER)
    write_layer(package, "__init__.py", "")
    run_sweep(
        batch_size=[3],
        seq_len=[7],
        num_heads=[2],
        d_model=10,
        device="cpu",
        threads=1,
        contenders=["custom", "custom-fused", f"{mine}:Right"],
        time_budget_s=0.02,
        quiet_wait_s=0,
        out=folder / "run",
    )
    return folder / "run"


@pytest.fixture
def without_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No layer's file can be read any more, nor our own; torch is put back afterwards."""

    def gone(*_: object) -> Source:
        raise AssertionError("the run has kept it")

    monkeypatch.setattr(Source, "of_layer", gone)
    monkeypatch.setattr(Source, "of_ours", gone)
    with settings_of_torch():
        yield


@pytest.mark.parametrize("contender", ["custom", "custom-fused", "mine.py:Right", "official"])
def test_a_script_measures_what_the_row_measured(measured: Path, without_files: None, contender: str) -> None:
    point = find_point(measured, 1, contender)
    found = namespace(script_text(point))["measure"](1)
    assert found["error"] == point.row["max_abs_error"]
    names = {point.contender, point.reference or point.contender, "clone"}
    assert found["ms"].keys() == names
    assert all(0 < time < math.inf for time in found["ms"].values())
    assert math.isfinite(found["log_speedup"])
    assert math.isfinite(found["log_clone"])


def test_a_script_runs_where_nothing_of_ours_can_be_imported(
    measured: Path, without_files: None, tmp_path: Path
) -> None:
    point = find_point(measured, 1, "mine.py:Right")
    text = script_text(point, "again.py")
    assert {name.partition(".")[0] for name in imported(text)} <= {*sys.stdlib_module_names, "torch"}
    forbidden = "\nfor ours in ('mha', 'profiling', 'dashboard'):\n    sys.modules[ours] = None\n"
    script = tmp_path / "again.py"
    script.write_text(text.replace("\nB, S, H, E = ", f"{forbidden}\nB, S, H, E = ", 1))
    assert forbidden in script.read_text()
    done = subprocess.run([sys.executable, "-I", script, "1"], capture_output=True, text=True, cwd=tmp_path, check=True)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == [point.contender, "official", "clone"]
    assert lines[4].startswith(f"speed-up of {point.contender} over official: ")
    assert lines[5] == f"max error {point.row['max_abs_error']:.2e} (the row said {point.row['max_abs_error']:.2e})"
    assert lines[6].startswith("the row said ")
    assert list(tmp_path.iterdir()) == [script]


def imported(text: str) -> set[str]:
    """The modules that a script imports at its top; those of the layer's files stand in a literal."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_the_command_measures_the_same_point_again_from_another_folder(
    measured: Path, tmp_path: Path, own_signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = CliRunner().invoke(main, ["repeat", str(measured), "--point", "1", "--contender", "mine.py:Right"])
    assert asked.stdout in [f"{command}\n" for command in load_run(measured)["repeat_command"]]
    words = shlex.split(asked.stdout)
    assert words[:3] == ["python", "-m", "profiling"]
    assert CliRunner().invoke(main, [*words[3:], "--out", "again"]).exit_code == 0
    said, found = (find_point(folder, 1, "mine.py:Right") for folder in (measured, tmp_path / "again"))
    assert found.workload == said.workload
    assert (found.contender, found.reference) == (said.contender, said.reference)
    for fact in ("max_abs_error", "max_abs_error_oracle", "error_ratio", "source_hash", "kernel", "peak_memory_mib"):
        assert found.row[fact] == said.row[fact]
    assert 0 < found.row["speedup"] < math.inf
