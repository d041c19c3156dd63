"""Starts, watches and stops sweeps. A sweep is a process of its own; all that lasts of it is its run folder.

The process stops by itself, cleanly, when this one ends: its standard input is a pipe that we hold open and never
write to. It has a session of its own, so that Ctrl+C in the server's terminal reaches it that way too.
"""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from profiling.charts.formatting import day_and_time
from profiling.device_lock import Owner, owner
from profiling.repeat import sweep_arguments
from profiling.runs import Run, RunError, is_alive, is_here, new_run_id, read_run, results_dir
from profiling.settings import SweepSettings
from profiling.stopping import PAGES_SIGNAL
from profiling.workload import Grid

# How the command line begins its last words.
SAID_BEFORE = "error: "
_STDERR_LINES = 40
_LINE_LENGTH = 1000


class JobError(Exception):
    """A sweep that was not started; the message says why in one sentence."""


class Job:
    """One sweep that this server started; `replicates` is what it is to bring a run to that is there already."""

    def __init__(self, run_id: str, arguments: list[str], replicates: int = 0) -> None:
        self.run_id = run_id
        self.replicates = replicates
        self.stop_requested = False
        self._said: collections.deque[str] = collections.deque(maxlen=_STDERR_LINES)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "profiling", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # and this folder, against which the paths of layers are meant
                text=True,
                errors="replace",
            )
        except OSError as error:  # no memory, no more processes, or this folder is gone
            raise JobError(f"Not started: no process can be started: {error}.") from error
        # Drains the pipe, so that the sweep never waits for us, and takes its exit status, so that no zombie stays.
        self._watcher = threading.Thread(target=self._watch, name=f"sweep-{run_id}", daemon=True)
        self._watcher.start()

    @property
    def pid(self) -> int:
        """The number of the sweep's process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the sweep still runs."""
        return self._watcher.is_alive()

    @property
    def error(self) -> str:
        """What the sweep said when it ended badly, one sentence; empty while it runs, ended well, or was stopped."""
        if self.is_alive or self.stop_requested or self._process.returncode == 0:
            return ""
        said = [line for line in self._said if line]
        return said[-1].removeprefix(SAID_BEFORE) if said else f"the sweep ended with status {self._process.returncode}"

    def stop(self) -> None:
        """Asks the sweep to stop after what it is writing; what it has measured stays."""
        self.stop_requested = True
        if self.is_alive:
            self._process.send_signal(PAGES_SIGNAL)

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end; False where it has not come."""
        self._watcher.join(timeout_s)
        return not self.is_alive

    def _watch(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line.strip()[:_LINE_LENGTH])
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


class Jobs:
    """The sweeps of this server, at most one alive: a second would only disturb the first.

    Args:
        others: why none is to begin now, as a sentence goes on; empty where one may.
    """

    def __init__(self, others: Callable[[], str] = str) -> None:
        self._others = others
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self.last: Job | None = None

    def start(self, grid: Grid, settings: SweepSettings, device: str) -> Job:
        """Starts a sweep into a new run folder.

        Raises:
            JobError: something measures on the device already.
        """
        run_id = new_run_id()
        return self._launch(run_id, [*sweep_arguments(grid, settings), "--out", str(results_dir() / run_id)], device)

    def resume(self, run: Run) -> Job:
        """Measures what a stopped run still lacks.

        Raises:
            JobError: something measures on its device already.
        """
        return self._launch(run.run_id, ["sweep", "--resume", "--out", str(results_dir() / run.run_id)], run.device)

    def add_replicates(self, run: Run, replicates: int) -> Job:
        """Goes on with a run until each point has that many replicates; whether it still fits is the sweep's to say.

        Raises:
            JobError: something measures on its device already.
        """
        folder = str(results_dir() / run.run_id)
        words = ["sweep", "--resume", "--out", folder, "--replicates", str(replicates)]
        return self._launch(run.run_id, words, run.device, replicates)

    def stop(self, run: Run) -> None:
        """Asks a sweep to stop, whoever started it; one that has ended meanwhile is stopped.

        Raises:
            JobError: it is not ours to stop: another user's, or another machine's.
        """
        job = self._jobs.get(run.run_id)
        if job is not None and job.is_alive:
            job.stop()
        elif not is_here(run):
            raise JobError("Not stopped: it is measured on another machine; stop it there.")
        elif is_alive(run.pid, run.process_started):
            try:
                os.kill(run.pid, signal.SIGTERM)
            except ProcessLookupError:
                return
            except PermissionError as error:
                raise JobError(f"Not stopped: process {run.pid} belongs to another user.") from error

    def of(self, run_id: str) -> Job | None:
        """This server's sweep into that run folder, alive or ended."""
        return self._jobs.get(run_id)

    def alive(self) -> Job | None:
        """This server's sweep that still runs."""
        return self.last if self.last is not None and self.last.is_alive else None

    def _launch(self, run_id: str, arguments: list[str], device: str, replicates: int = 0) -> Job:
        with self._lock:
            running = self.alive()
            if running is not None:
                raise JobError(f"Not started: run {running.run_id} is being measured; stop it or wait for its end.")
            others = self._others()
            if others:
                raise JobError(f"Not started: {others}.")
            holder = sweep_on(device)
            if holder is not None:
                raise JobError(f"Not started: {_busy(holder)}.")
            self.last = self._jobs[run_id] = Job(run_id, [*arguments, "--stop-on-eof"], replicates)
            return self.last


def sweep_on(device: str) -> Owner | None:
    """The sweep that holds the device, wherever it was started; a live check is none, a sweep waits for it."""
    holder = owner(device)
    return holder if holder is not None and holder.kind == "sweep" else None


def _busy(holder: Owner) -> str:
    """Who holds the device, since when, and how far it has come: `busy since …, 3/24`."""
    since = f"{holder.device} is busy since {day_and_time(holder.started_at)}"
    try:
        progress = read_run(Path(holder.folder or "")).progress
    except RunError:
        return f"{since} with sweep {holder.run_name} (process {holder.pid})"
    return f"{since}, {progress.done}/{progress.total}, with sweep {holder.run_name} (process {holder.pid})"
