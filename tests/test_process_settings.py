from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiling.measuring.contenders import process_settings as module
from profiling.measuring.contenders.process_settings import (
    ProcessSpoiled,
    process_settings,
    processes_left,
    put_back,
    threads_now,
)
from profiling.measuring.roster import Roster


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Whatever a test leaves changed is put back."""
    folder, limit = os.getcwd(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_what_is_not_changed_is_not_told() -> None:
    assert put_back(process_settings()) == ""


def test_each_setting_is_told_with_its_name_and_put_back(tmp_path: Path) -> None:
    before = process_settings()
    os.chdir(tmp_path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (211, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    signal.signal(signal.SIGUSR2, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 600)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    told = put_back(before)
    for name in ("working folder", "RLIMIT_NOFILE", "SIGUSR2", "ITIMER_REAL", "blocked signals"):
        assert name in told
    assert process_settings() == before
    assert len(told) <= 500


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system tells no processors of a process")
def test_processors_that_were_taken_away_are_given_back() -> None:
    before = process_settings()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if len(before["processors"]) > 1:
        assert put_back(before).startswith("processors {")
    assert process_settings() == before


def test_what_cannot_be_put_back_is_said_and_goes_past_those_who_catch_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = tmp_path / "lost"
    lost.mkdir()
    os.chdir(lost)
    roster = Roster({"mine.py:X": None, "official": None}, ["mine.py:X"], lambda *_: None)

    def leave(name: str) -> None:
        os.chdir(tmp_path)
        lost.rmdir()

    with pytest.raises(ProcessSpoiled, match=r"cannot be put back \(working folder .*lost -> "):
        roster.attempt("build", "mine.py:X", leave)


def test_only_layers_of_ones_own_are_looked_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roster = Roster({"custom": None}, [], lambda *_: None)
    monkeypatch.setattr("profiling.measuring.roster.put_back", lambda _: pytest.fail("ours change nothing"))
    assert roster.attempt("build", "custom", lambda name: name) == "custom"


def test_a_change_is_told_once_in_the_row_of_who_made_it_and_a_late_one_in_every_row(tmp_path: Path) -> None:
    roster = Roster({"mine.py:X": None, "official": None}, ["mine.py:X"], lambda *_: None)
    for _ in range(3):
        roster.attempt("check", "mine.py:X", lambda _: os.chdir(tmp_path))
    assert roster.rows["mine.py:X"].cells["warnings"].count("changed its process") == 1
    assert "warnings" not in roster.rows["official"].cells
    os.chdir(tmp_path)
    roster.settle_all()
    for row in roster.rows.values():
        assert "a layer changed its process while it was timed (working folder" in row.cells["warnings"]


def test_a_thread_that_a_layer_leaves_is_told_once_in_every_row() -> None:
    roster = Roster({"mine.py:X": None, "official": None}, ["mine.py:X"], lambda *_: None)
    end = threading.Event()
    thread = threading.Thread(target=end.wait, daemon=True)
    roster.attempt("build", "mine.py:X", lambda _: thread.start())
    roster.attempt("check", "mine.py:X", lambda _: None)
    assert thread in threads_now()
    end.set()
    thread.join()
    for row in roster.rows.values():
        assert row.cells["warnings"].count("mine.py:X left 1 thread running") == 1


def test_outside_of_a_measuring_child_nothing_counts_as_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "started_by", lambda *_: [1, 2, os.getpid()])
    monkeypatch.delenv("MHA_BENCH_CHILD", raising=False)
    assert processes_left() == 0
    monkeypatch.setenv("MHA_BENCH_CHILD", "/a/mark")
    assert processes_left() == 2
