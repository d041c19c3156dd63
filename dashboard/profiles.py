"""Has operators profiled and traced in the background, one process at a time, and keeps the newest answers.

The process stops by itself when this one ends: its standard input is a pipe that we hold open and never write to.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from dashboard.jobs import SAID_BEFORE, JobError, sweep_on
from profiling.charts.formatting import day_and_time
from profiling.operators.profiler import MAX_TRACE_CALLS
from profiling.operators.report_reading import profile_from_report
from profiling.operators.result import OperatorProfile

MOST_ANSWERS, MOST_TRACES = 16, 2
# Of one line that the process says beside its answer.
_LINE_LENGTH = 1000
_ANSWER, _ASIDE, _TRACE = "answer.json", "aside.txt", "trace.json"

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A profile to make.

    Attributes:
        arguments: the words after `python -m profiling`; those of the answer's form aside.
        contenders: in the order in which they are shown.
        device: where it runs.
        stamp: tells one state of the layers' files from another, so that an edit asks anew.
    """

    arguments: tuple[str, ...]
    contenders: tuple[str, ...]
    device: str
    stamp: tuple[object, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What a question came to: a profile, or the sentence that says why there is none."""

    profile: OperatorProfile | None = None
    error: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trace:
    """What a trace came to: its text for Chrome or Perfetto, or the sentence that says why there is none."""

    text: bytes = b""
    error: str = ""


class Running:
    """A profile, or a trace, that is being made."""

    def __init__(self, question: Question, *, is_trace: bool, command: Sequence[str]) -> None:
        self.question, self.is_trace, self.is_stopped = question, is_trace, False
        self._began = time.monotonic()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="mha-bench-profile-"))
        except OSError as error:
            raise JobError(f"Not started: no folder can be made for it: {error.strerror or error}.") from error
        asked = ["--iterations", str(MAX_TRACE_CALLS), "--trace", str(self._folder / _TRACE)]
        words = [*command, *question.arguments, *(asked if is_trace else ["--trace-size"]), "--json", "--stop-on-eof"]
        try:
            with (self._folder / _ANSWER).open("wb") as answer, (self._folder / _ASIDE).open("wb") as aside:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=answer,
                    stderr=aside,
                    start_new_session=True,  # and this folder, against which the paths of layers are meant
                )
        except OSError as error:  # no memory, no more processes, a full disk
            self._clear()
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
        """The last line that it said beside its answer: whom it waits for, how large a trace will be; or nothing."""
        try:
            lines = (self._folder / _ASIDE).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip()[:_LINE_LENGTH] for line in reversed(lines) if line.strip()), "")

    def stop(self) -> None:
        """Asks it to stop; there will be no answer."""
        self.is_stopped = True
        if self._process.poll() is None:
            self._process.terminate()

    def finish(self) -> Answer | Trace:
        """Waits for the end, and reads what came of it."""
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            return self._trace() if self.is_trace else self._profile()
        finally:
            self._clear()

    def _profile(self) -> Answer:
        try:
            return Answer(profile=profile_from_report(json.loads((self._folder / _ANSWER).read_bytes())))
        except (OSError, ValueError):
            return Answer(error=self._error())

    def _trace(self) -> Trace:
        try:
            return Trace(text=(self._folder / _TRACE).read_bytes())
        except OSError:
            return Trace(error=self._error())

    def _error(self) -> str:
        """Its last words, which are one sentence."""
        return self.aside.removeprefix(SAID_BEFORE) or f"the profile ended with status {self._process.returncode}"

    def _clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Profiles:
    """The profiles of this server: at most one being made, and what came of the last few questions.

    Args:
        command: what the arguments of a question are given to.
    """

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", "profiling")) -> None:
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._running: Running | None = None
        self._answers: OrderedDict[Question, Answer] = OrderedDict()
        self._traces: OrderedDict[Question, Trace] = OrderedDict()
        self._watcher: threading.Thread | None = None

    @property
    def running(self) -> Running | None:
        """What is being made now."""
        return self._running

    def answer_to(self, question: Question) -> Answer | None:
        """What a question came to; None where it was not asked yet, or so long ago that it is forgotten."""
        return self._known(self._answers, question)

    def trace_of(self, question: Question) -> Trace | None:
        """The trace of what was asked for, where one was made."""
        return self._known(self._traces, question)

    def was_edited(self, question: Question) -> bool:
        """Whether the same was profiled with files of another state."""
        with self._lock:
            return any(
                each.arguments == question.arguments and each.stamp != question.stamp and answer.profile is not None
                for each, answer in self._answers.items()
            )

    def start(self, question: Question, *, is_trace: bool = False) -> None:
        """Has it profiled, or traced.

        Raises:
            JobError: something is being profiled or measured already, or no process can be started.
        """
        with self._lock:
            if self._running is not None:
                what = " and ".join(self._running.question.contenders)
                raise JobError(f"Not started: {what} are being profiled; stop that or wait for its end.")
            holder = sweep_on(question.device)
            if holder is not None:
                since = day_and_time(holder.started_at)
                raise JobError(f"Not started: {holder.device} is busy since {since} with sweep {holder.run_id}.")
            self._running = running = Running(question, is_trace=is_trace, command=self._command)
        self._watcher = threading.Thread(target=self._watch, args=(running,), name="profile", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stops what is being made; what was known before stays."""
        running = self._running
        if running is not None:
            running.stop()

    def wait(self, timeout_s: float) -> bool:
        """Waits until nothing is being made; False where that has not come."""
        if self._watcher is not None:
            self._watcher.join(timeout_s)
        return self._running is None

    def close(self) -> None:
        """Ends what is being made, and waits a moment for that."""
        self.stop()
        self.wait(10)

    def _watch(self, running: Running) -> None:
        try:
            found = running.finish()
        finally:
            with self._lock:
                self._running = None
        with self._lock:
            if running.is_stopped:
                return
            if isinstance(found, Trace):
                _keep(self._traces, running.question, found, MOST_TRACES)
            else:
                _keep(self._answers, running.question, found, MOST_ANSWERS)
                self._traces.pop(running.question, None)  # of another profile by now

    def _known(self, kept: OrderedDict[Question, T], question: Question) -> T | None:
        with self._lock:
            if question in kept:
                kept.move_to_end(question)
            return kept.get(question)


def _keep(kept: OrderedDict[Question, T], question: Question, found: T, most: int) -> None:
    kept[question] = found
    kept.move_to_end(question)
    while len(kept) > most:
        kept.popitem(last=False)
