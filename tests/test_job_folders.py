"""What a command in the background writes lies in a folder that goes with it, or with the next one's begin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.job_folders import PREFIX, JobFolder

HOLDS = (
    "import tempfile, time, sys; tempfile.tempdir = sys.argv[1]\n"
    "from dashboard.job_folders import JobFolder\n"
    "folder = JobFolder(); (folder.path / 'answer.json').write_text('{}'); print(folder.path, flush=True)\n"
    "time.sleep(60)"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def other(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another server, with a folder that it has held for an hour."""
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            folder = Path(process.stdout.readline().strip())
            make_old(folder)
            yield process, folder
        finally:
            process.kill()


def make_old(folder: Path) -> None:
    hour_ago = folder.stat().st_mtime - 3600
    os.utime(folder, (hour_ago, hour_ago))


def test_a_folder_is_removed_with_what_is_in_it(tmp_path: Path) -> None:
    folder = JobFolder()
    (folder.path / "answer.json").write_text("{}")
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_a_server_that_was_killed_goes_and_one_of_a_server_that_lives_stays(
    other: tuple[subprocess.Popen[str], Path],
) -> None:
    process, folder = other
    JobFolder().remove()
    assert (folder / "answer.json").exists(), "its server holds it"
    process.send_signal(signal.SIGKILL)
    process.wait()
    JobFolder().remove()
    assert not folder.exists()


def test_only_folders_of_this_kind_go_and_only_where_they_are_not_young(tmp_path: Path) -> None:
    young, foreign, file = tmp_path / f"{PREFIX}young", tmp_path / "mha-bench-child-7", tmp_path / f"{PREFIX}file"
    young.mkdir()
    foreign.mkdir()
    file.write_text("no folder")
    for each in (foreign, file):
        make_old(each)
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(outside)
    make_old(outside)
    JobFolder().remove()
    assert {each.name for each in tmp_path.iterdir()} == {
        young.name,
        foreign.name,
        file.name,
        "outside",
        f"{PREFIX}link",
    }
