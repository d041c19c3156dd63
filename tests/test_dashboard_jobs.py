import dataclasses
import os
import signal
import sys

import pytest
from dashboard_samples import make_run

from dashboard import jobs
from dashboard.jobs import Job, JobError, Jobs
from profiling.device_lock import DeviceLock
from profiling.settings import SweepSettings
from profiling.stopping import PAGES_SIGNAL
from profiling.workload import Grid


@pytest.fixture(autouse=True)
def own_device(tmp_path, monkeypatch):
    """Locks and results of our own."""
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def instead_of_a_sweep(monkeypatch, tmp_path):
    """Runs a few lines of Python where the sweep would run."""

    def put(code):
        (tmp_path / "stand_in").write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
        (tmp_path / "stand_in").chmod(0o755)
        monkeypatch.setattr(jobs.sys, "executable", str(tmp_path / "stand_in"))

    return put


def test_a_sweep_that_is_refused_is_told_in_its_own_words(instead_of_a_sweep):
    instead_of_a_sweep('import sys; sys.exit("error: cpu is busy since noon")')
    job = Job("r", ["sweep"])
    assert job.wait(10)
    assert job.error == "cpu is busy since noon"


def test_a_sweep_that_ends_without_a_word_is_told_with_its_status(instead_of_a_sweep):
    instead_of_a_sweep("import os; os._exit(3)")
    job = Job("r", ["sweep"])
    assert job.wait(10)
    assert job.error == "the sweep ended with status 3"


def test_a_sweep_that_ends_well_has_no_error(instead_of_a_sweep):
    instead_of_a_sweep("pass")
    job = Job("r", ["sweep"])
    assert job.wait(10)
    assert job.error == ""


def test_standard_input_stays_open_as_long_as_we_live_and_stop_is_no_error(instead_of_a_sweep):
    instead_of_a_sweep("import sys; sys.stdin.read(); sys.exit(5)")
    job = Job("r", ["sweep"])
    assert not job.wait(0.3)
    assert job.is_alive
    job.stop()
    assert job.wait(10)
    assert job.error == ""


def test_stop_asks_a_sweep_of_ours_by_a_signal_that_nobody_else_sends(instead_of_a_sweep, tmp_path):
    told = tmp_path / "told"
    instead_of_a_sweep(
        f'import pathlib, signal, sys; told = pathlib.Path("{told}"); '
        f'signal.signal({int(PAGES_SIGNAL)}, lambda number, _: sys.exit(told.write_text("asked"))); '
        'told.write_text("ready"); sys.stdin.read()'
    )
    job = Job("r", ["sweep"])
    while not told.exists() or not told.read_text():
        assert job.is_alive
    job.stop()
    assert job.wait(10)
    assert told.read_text() == "asked"


def test_a_talkative_sweep_never_waits_for_its_reader(instead_of_a_sweep):
    instead_of_a_sweep(
        'import sys; sys.stderr.write("x" * 70 + "\\n" * 1); sys.stderr.write(("y" * 99 + "\\n") * 9999)'
    )
    assert Job("r", ["sweep"]).wait(20)


def test_a_second_sweep_is_refused_while_the_first_runs(instead_of_a_sweep):
    instead_of_a_sweep("import sys; sys.stdin.read()")
    ours = Jobs()
    first = ours.start(Grid(), SweepSettings(), "cpu")
    with pytest.raises(JobError, match=f"run {first.run_id} is being measured"):
        ours.start(Grid(), SweepSettings(), "cpu")
    first.stop()
    assert first.wait(10)


def test_a_sweep_started_elsewhere_refuses_ours_with_its_name_and_how_far_it_is(tmp_path):
    make_run(tmp_path / "theirs", state="running", done=3)
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="theirs", folder=tmp_path / "theirs")
    try:
        with pytest.raises(JobError, match=r"cpu is busy since .*, 3/8, with sweep theirs"):
            Jobs().start(Grid(), SweepSettings(), "cpu")
    finally:
        lock.release()


def test_a_live_check_is_no_reason_to_refuse_a_sweep():
    lock = DeviceLock("cpu")
    lock.acquire("check")
    try:
        assert jobs.sweep_on("cpu") is None
    finally:
        lock.release()


def test_replicates_are_added_by_going_on_with_the_run(instead_of_a_sweep, tmp_path):
    run = make_run(tmp_path / "results" / "r")
    instead_of_a_sweep('import sys; sys.exit("error: " + " ".join(sys.argv[1:]))')
    job = Jobs().add_replicates(run, 5)
    assert job.wait(10)
    folder = tmp_path / "results" / "r"
    assert job.error == f"-m profiling sweep --resume --out {folder} --replicates 5 --stop-on-eof"
    assert (job.run_id, job.replicates) == ("r", 5)


def test_a_process_that_cannot_be_started_is_told_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(jobs.sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(JobError, match=r"^Not started: no process can be started: .*No such file or directory"):
        Jobs().start(Grid(), SweepSettings(), "cpu")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"host": "another"}, None, "Not stopped: it is measured on another machine"),
        ({}, PermissionError(), r"Not stopped: process \d+ belongs to another user"),
        ({}, ProcessLookupError(), None),  # it ended in this moment
    ],
)
def test_a_sweep_that_is_not_ours_to_stop_is_told(tmp_path, monkeypatch, changes, error, words):
    run = dataclasses.replace(make_run(tmp_path / "r", state="running"), **changes)
    asked = []

    def kill(pid, number):
        asked.append((pid, number))
        raise error

    monkeypatch.setattr(jobs.os, "kill", kill)
    if words is None:
        Jobs().stop(run)
    else:
        with pytest.raises(JobError, match=words):
            Jobs().stop(run)
    assert asked == ([(os.getpid(), signal.SIGTERM)] if error else [])
