from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from profiling import environment
from profiling.environment import commit, cpu_name, host_environment


def test_the_environment_names_the_machine_and_the_python() -> None:
    told = host_environment()
    assert told["python_version"] == platform.python_version()
    assert isinstance(told["memory_mib"], int)
    assert told["memory_mib"] > 100
    assert isinstance(told["num_threads"], int)
    assert told["cpu_name"] == cpu_name() != ""


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_the_commit_says_whether_files_differ_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    assert commit() is None, "no repository"
    git(tmp_path, "init", "-q")
    assert commit() is None, "no commit yet"
    (tmp_path / "file").write_text("one", encoding="utf-8")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    clean = commit()
    assert clean is not None
    assert len(clean) == 12
    (tmp_path / "new").write_text("untracked", encoding="utf-8")
    assert commit() == clean
    (tmp_path / "file").write_text("two", encoding="utf-8")
    assert commit() == clean + "-dirty"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit() is None
