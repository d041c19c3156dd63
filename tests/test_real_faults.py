"""Where real faults are required, a test that cannot have its own fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import real_faults
from real_faults import do_without, make_memory_group, small_disk

IS_ROOT_ON_LINUX = sys.platform == "linux" and os.geteuid() == 0


@pytest.mark.parametrize(("is_required", "outcome"), [(True, pytest.fail.Exception), (False, pytest.skip.Exception)])
def test_a_fault_that_cannot_be_had_is_a_failure_only_where_it_is_required(
    is_required: bool, outcome: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_faults, "MUST_HAVE", is_required)
    failed = subprocess.CompletedProcess[bytes]([], 32)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(outcome, match="no file system can be mounted here"), small_disk(tmp_path / "disk", "64k"):
        pass
    monkeypatch.setattr(real_faults, "Path", lambda _: tmp_path / "nowhere")
    with pytest.raises(outcome, match="no memory control group can be made here"):
        next(make_memory_group(97))
    with pytest.raises(outcome, match="planted"):
        do_without("planted")


@pytest.mark.parametrize(("value", "is_required"), [("1", IS_ROOT_ON_LINUX), ("", False)])
def test_faults_are_required_by_the_environment_and_of_root_on_linux_alone(value: str, is_required: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import real_faults; print(real_faults.MUST_HAVE)"],
        env={**os.environ, "MHA_BENCH_REQUIRE_FAULTS": value, "PYTHONPATH": str(Path(__file__).parent)},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{is_required}\n"
