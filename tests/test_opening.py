"""A sweep that the estimate speaks against: refused before anything is there, unless it is meant."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import FakeChild
from real_faults import join_group, make_memory_group

from profiling import estimate as module
from profiling.device_lock import owner
from profiling.runs import read_run
from profiling.sweep import sweep
from profiling.workload import GridError

# Scores of 1.75 GiB at seq_len 8192, of which an explicit layer holds four at once; of 33 KiB at 35.
LARGE: dict[str, Any] = {
    "batch_size": [1],
    "seq_len": [35, 8192],
    "num_heads": [7],
    "d_model": 14,
    "device": "cpu",
    "contenders": ("custom",),
}


@pytest.fixture
def fake(fake: type[FakeChild], monkeypatch: pytest.MonkeyPatch) -> type[FakeChild]:
    """The child of all, on a machine with 1 GiB left."""
    monkeypatch.setattr(module, "free_memory_mib", lambda _: 1024.0)
    return fake


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, r"1 of 2 points do not fit, .*seq_len 8192, .* of which 1\.00 GiB are free: shorten a list"),
        ({"seq_len": [35], "replicates": 10**9}, r"it would take about [\d,]+ years"),
    ],
)
def test_what_is_refused_leaves_no_folder_and_no_lock_and_measures_nothing(
    fake: type[FakeChild], tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(GridError, match=words):
        sweep({**LARGE, **changes}, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert owner("cpu") is None
    assert [request["request"] for request in fake.asked] == ["environment"]


def test_what_is_meant_is_measured_and_stays_meant_when_it_is_gone_on_with(
    fake: type[FakeChild], tmp_path: Path
) -> None:
    sweep({**LARGE, "anyway": True}, tmp_path / "run")
    assert read_run(tmp_path / "run").settings.anyway
    extended = sweep({"replicates": 2}, tmp_path / "run", resume=True)
    assert (extended.state, extended.progress.done) == ("finished", 4)


def test_a_run_with_nothing_left_to_measure_is_not_refused(
    fake: type[FakeChild], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "free_memory_mib", lambda _: 65_536.0)
        sweep(LARGE, tmp_path / "run")
    assert sweep({}, tmp_path / "run", resume=True).state == "finished"
    with pytest.raises(GridError, match="do not fit"):
        sweep({"replicates": 2}, tmp_path / "run", resume=True)
    assert read_run(tmp_path / "run").state == "finished"
    assert sweep({"replicates": 2, "anyway": True}, tmp_path / "run", resume=True).progress.done == 4


# -- a container with 900 MiB -----------------------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[Path]:
    yield from make_memory_group(900)


def test_a_sweep_that_a_containers_limit_has_no_room_for_is_refused(group: Path, tmp_path: Path) -> None:
    # Four times the scores of 245 MiB: little for a machine, too much for its group.
    words = "--batch-size 1 --seq-len 3001 --num-heads 7 --d-model 14 --device cpu --contenders custom"
    command = [sys.executable, "-m", "profiling", "sweep", *words.split(), "--out", str(tmp_path / "run")]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, preexec_fn=join_group(group)
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    found = re.search(r"needs about ([\d.]+) GiB of memory, of which (\d+) MiB are free: shorten a list", done.stderr)
    assert found, done.stderr
    assert float(found[1]) > 900 / 1024
    assert 0 < int(found[2]) < 900
    assert not (tmp_path / "run").exists()
    assert owner("cpu") is None
