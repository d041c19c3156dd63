"""A command of ours that runs in the background: started, watched, stopped; one at a time, and none beside a sweep.

The process stops by itself when this one ends: its standard input is a pipe that we hold open and never write to.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from dashboard.job_folders import JobFolder
from dashboard.jobs import SAID_BEFORE, JobError, sweep_on
from profiling.charts.formatting import day_and_time
from profiling.stopping import PAGES_SIGNAL

PROGRAM = (sys.executable, "-m", "profiling")
# Of one line that the process says beside its answer.
_LINE_LENGTH = 1000
_ANSWER, _ASIDE = "answer.json", "aside.txt"


class Background:
    """A command that runs, and the folder for what it says and writes.

    Args:
        program: what the arguments are given to.
        arguments: of the command, given its folder; `--json --stop-on-eof` come to them.
        what: it does, as a sentence goes on: `custom and official are being profiled`.
        noun: what it is: `the profile`.

    Raises:
        JobError: no process can be started.
    """

    def __init__(
        self, program: Sequence[str], arguments: Callable[[Path], Sequence[str]], *, what: str, noun: str
    ) -> None:
        self.what, self._noun, self.is_stopped = what, noun, False
        self._began = time.monotonic()
        try:
            self._folder = JobFolder()
        except OSError as error:
            raise JobError(f"Not started: no folder can be made for it: {error.strerror or error}.") from error
        self.folder = self._folder.path
        words = [*program, *arguments(self.folder), "--json", "--stop-on-eof"]
        try:
            with (self.folder / _ANSWER).open("wb") as answer, (self.folder / _ASIDE).open("wb") as aside:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=answer,
                    stderr=aside,
                    start_new_session=True,  # and this folder, against which the paths of layers are meant
                )
        except OSError as error:  # no memory, no more processes, a full disk
            self.clear()
            raise JobError(f"Not started: no process can be started: {error.strerror or error}.") from error

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._began

    @property
    def aside(self) -> str:
        """The last line that it said beside its answer: whom it waits for, what it has found; or nothing."""
        try:
            lines = (self.folder / _ASIDE).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip()[:_LINE_LENGTH] for line in reversed(lines) if line.strip()), "")

    @property
    def last_words(self) -> str:
        """What it said last, once it has ended; without a word, with which status it did."""
        return self.aside.removeprefix(SAID_BEFORE) or f"{self._noun} ended with status {self._process.returncode}"

    def answer(self) -> bytes:
        """What it has printed; raises OSError where that cannot be read."""
        return (self.folder / _ANSWER).read_bytes()

    def stop(self) -> None:
        """Asks it to stop."""
        self.is_stopped = True
        if self._process.poll() is None:
            self._process.send_signal(PAGES_SIGNAL)

    def wait(self) -> None:
        """Waits for the end."""
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def clear(self) -> None:
        """Removes its folder."""
        self._folder.remove()


B = TypeVar("B", bound=Background)


class Slot:
    """Room for one command in the background: a second would only disturb the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Background | None = None
        self._watcher: threading.Thread | None = None

    @property
    def running(self) -> Background | None:
        """What runs now."""
        return self._running

    def start(self, make: Callable[[], B], device: str, keep: Callable[[B], None]) -> None:
        """Starts what `make` makes.

        Args:
            make: starts the command.
            device: that it will measure on.
            keep: takes what came of it, as soon as it has ended.

        Raises:
            JobError: something runs or measures already, or no process can be started.
        """
        with self._lock:
            if self._running is not None:
                raise JobError(f"Not started: {self._running.what}; stop that or wait for its end.")
            holder = sweep_on(device)
            if holder is not None:
                since = day_and_time(holder.started_at)
                raise JobError(f"Not started: {holder.device} is busy since {since} with sweep {holder.run_name}.")
            self._running = running = make()
        what_came = functools.partial(keep, running)
        self._watcher = threading.Thread(target=self._watch, args=(running, what_came), name="background", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stops what runs."""
        running = self._running
        if running is not None:
            running.stop()

    def wait(self, timeout_s: float) -> bool:
        """Waits until nothing runs; False where that has not come."""
        if self._watcher is not None:
            self._watcher.join(timeout_s)
        return self._running is None

    def close(self) -> None:
        """Ends what runs, and waits a moment for that."""
        self.stop()
        self.wait(10)

    def _watch(self, running: Background, keep: Callable[[], None]) -> None:
        running.wait()
        try:
            keep()
        finally:
            running.clear()
            with self._lock:
                self._running = None


class Tenant(Generic[B]):
    """One of those that share a slot: of what runs there it sees and stops its own kind alone.

    Args:
        kind: of its commands.
        slot: where they run; shared with whatever else measures in the background.
    """

    def __init__(self, kind: type[B], slot: Slot | None) -> None:
        self._kind, self._slot = kind, slot or Slot()

    @property
    def running(self) -> B | None:
        """What runs now, where it is of its kind."""
        running = self._slot.running
        return running if isinstance(running, self._kind) else None

    def stop(self) -> None:
        """Stops what runs, where it is of its kind; what was known before stays."""
        if self.running is not None:
            self._slot.stop()

    def wait(self, timeout_s: float) -> bool:
        """Waits until nothing runs; False where that has not come."""
        return self._slot.wait(timeout_s)
