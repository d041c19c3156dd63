"""Starts a measuring child, asks it, and notices when it dies, hangs or is to stop."""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO, Any

from profiling.cgroup_limits import oom_kills
from profiling.child_exits import explain_exit, with_last_words
from profiling.environment import ROOT
from profiling.leftovers import FOLDER_PREFIX, MARK, end_started, start_watcher
from profiling.protocol import Marker, Running, decode, encode

# Keeps freed tensors in the process instead of handing them back to the kernel, to be faulted in again at the next
# call: without it the order in which layers run can turn a verdict round. glibc only.
PINNED_HEAP = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_TOP_PAD_": "67108864",
}
# Not `-m profiling`, which would look in the working folder first: there a file such as a person's own mha.py would
# stand in for ours.
_CHILD = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from profiling.cli import main; main()"
# From the end of a child's answers to its end.
EXIT_LIMIT_S = 10.0
# An answer is waited for in turns of so long; one that takes so much longer shows a suspension.
TURN_S = 5.0
SUSPENDED_S = 1.0
STDERR_KEPT_LINES = 200
STDERR_KEPT_LINE_BYTES = 2000
# Tens of bytes for each raw sample; more is no answer, but something that a layer wrote in its place.
ANSWER_MAX_BYTES = 2**28


class MeasuringError(Exception):
    """The child could not serve a request; the message is one sentence for a person.

    Attributes:
        status: the row status that this means.
    """

    status = "unavailable"


class ChildNotStarted(MeasuringError):
    """No child can be started: no room for its folder, or no more processes. Nothing can be measured as it is."""


class ChildStopped(Exception):
    """The request was given up because someone asked to stop."""


class ChildDied(MeasuringError):
    """The child ended, or was ended after its time limit, before it answered.

    Attributes:
        status: the row status that this death means: `crashed`, `timeout` or `oom`.
        reason: what happened, in words.
        running: what it was doing.
    """

    def __init__(self, status: str, reason: str, running: Running) -> None:
        super().__init__(reason)
        self.status, self.reason, self.running = status, reason, running


class MeasuringChild:
    """One measuring process. Not thread-safe but for `stop`, which any thread or signal handler may call.

    It leads a session and a process group of its own. What a layer starts ends with it, whether it is closed, dies or
    loses its asker, as `profiling.leftovers` tells; on POSIX a small process stands by for that, which outlives both.
    (The kernel's own signal at a parent's death would not do: it comes when the *thread* that started the child ends,
    and leaves no time to tidy up.)

    Args:
        heap: `pinned` or `as-is`.
        lock_fd: the descriptor that holds the device's lock; the child inherits it, so that an orphan counts as busy.
    """

    def __init__(self, *, heap: str = "as-is", lock_fd: int | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True)
        self._marker = Marker(Path(self._folder.name) / "running")
        self._inbox: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._stderr: deque[str] = deque(maxlen=STDERR_KEPT_LINES)
        self._oom_kills = oom_kills()
        self._is_closed = False
        self._process = subprocess.Popen(
            [
                # In UTF-8 whatever the language: torch's compiler reads sources, ours too, in the language's encoding.
                *(sys.executable, "-P", "-X", "utf8", "-c", _CHILD, "child"),
                *("--marker", str(Path(self._folder.name) / "running")),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**child_environment(heap), MARK: self._folder.name},
            pass_fds=() if lock_fd is None or os.name != "posix" else (lock_fd,),
            # Its own session: an interrupt typed at the terminal is for the sweep, which stops the child in good order.
            start_new_session=True,
        )
        self._watcher = start_watcher(self._folder.name, self._process.pid)
        self._threads = [
            threading.Thread(target=self._read_answers, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._drain_stderr, args=(self._process.stderr,), daemon=True),
            threading.Thread(target=self._await_end, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the child can still be asked."""
        return self._process.poll() is None

    def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
        """Sends one request and waits for its answer; what the child waits for a quiet machine is not counted.

        Raises:
            ChildDied: the child ended first, or did not answer within `limit_s` seconds and was ended.
            ChildStopped: `stop` was called.
            MeasuringError: the child could not serve the request; the message says why.
        """
        self._marker.begin()
        if (
            self.is_alive()
        ):  # what was said before, or befell a process that a layer had started, is not of this request
            self._oom_kills = oom_kills()
            self._stderr.clear()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(encode(request))
            self._process.stdin.flush()
        except OSError:  # it is gone already: the end of its answers says so below
            pass
        try:
            kind, line = self._receive(limit_s)
        except queue.Empty:
            running = self._marker.read()
            self.close()
            raise ChildDied("timeout", f"gave no answer within {limit_s:g} s and was ended", running) from None
        if kind == "stop":
            self.close()
            raise ChildStopped
        if kind == "end":
            raise self._death()
        try:
            message = decode(line)
        except ValueError as error:
            self.close()
            raise ChildDied(
                "crashed", f"answered with something else than JSON: {error}", self._marker.read()
            ) from None
        if message.get("is_out_of_memory"):
            running = self._marker.read()
            self.close()
            raise ChildDied("oom", "had no memory left to go on or to answer, and was ended", running)
        if "answer" not in message:
            words = str(message.get("error", "the measuring process answered with neither result nor reason"))
            refused = MeasuringError(words)
            refused.status = message.get("status", refused.status)
            raise refused
        answer: dict[str, Any] = message["answer"]
        return answer

    def stop(self) -> None:
        """Gives up the request in flight, or the next one. Safe in a signal handler."""
        self._inbox.put(("stop", b""))

    def close(self) -> None:
        """Ends the child at once and waits for it. What it has answered is safe; what it was doing is lost."""
        if self._is_closed:
            return
        self._is_closed = True
        self._kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(timeout=2)
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
        # A pipe that something unmarked outside of the group holds open is being read: closing it would wait for that.
        busy = any(thread.is_alive() for thread in self._threads)
        for pipe in (self._process.stdin, *(() if busy else (self._process.stdout, self._process.stderr))):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._folder.cleanup()

    def __enter__(self) -> MeasuringChild:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self, limit_s: float | None) -> tuple[str, bytes]:
        if limit_s is None:
            return self._inbox.get()
        left_s, counted_s = limit_s, 0.0
        while True:
            turn_s, began = min(left_s, TURN_S), time.monotonic()
            try:
                return self._inbox.get(timeout=turn_s)
            except queue.Empty:
                # A turn that took far longer than it should was none: this process, or the machine, was suspended, and
                # the answer may have come meanwhile.
                if time.monotonic() - began < turn_s + SUSPENDED_S:
                    left_s -= turn_s
                waited_s = self._marker.read().waited_s
                left_s, counted_s = left_s + waited_s - counted_s, waited_s
                if left_s <= 0:
                    raise

    def _kill(self) -> None:
        # With what a layer started: its group goes as a whole, also when its leader is gone already.
        end_started(self._folder.name, self._process.pid)
        if os.name != "posix":
            self._process.kill()

    def _death(self) -> ChildDied:
        running = self._marker.read()
        try:
            code = self._process.wait(timeout=EXIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            status, reason = "crashed", "closed the pipe for its answers, and was ended"
        else:
            status, reason = explain_exit(code, before=self._oom_kills, after=oom_kills())
        self._kill()
        for thread in self._threads:
            thread.join(timeout=2)
        reason = with_last_words(reason, tuple(self._stderr))
        self.close()
        return ChildDied(status, reason, running)

    def _read_answers(self, stream: IO[bytes]) -> None:
        while line := stream.readline(ANSWER_MAX_BYTES):
            self._inbox.put(("answer", line))
        self._inbox.put(("end", b""))

    def _drain_stderr(self, stream: IO[bytes]) -> None:
        # readline with a cap: a child that prints megabytes, or a line without end, neither blocks nor fills memory.
        while line := stream.readline(STDERR_KEPT_LINE_BYTES):
            self._stderr.append(line.decode("utf-8", errors="replace").rstrip())

    def _await_end(self) -> None:
        """Ends what a layer started as soon as the child has ended: it may hold the pipe of the answers open."""
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):  # someone else has taken note of its end
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        end_started(self._folder.name, self._process.pid)
        self._threads[0].join(timeout=2)
        self._inbox.put(("end", b""))


def child_environment(heap: str) -> dict[str, str]:
    """The environment of a child with the heap set so, as far as this platform's allocator can be told."""
    plain = {name: value for name, value in os.environ.items() if name not in PINNED_HEAP}
    if heap == "pinned" and can_pin_heap():
        return {**plain, **PINNED_HEAP}
    return plain


def can_pin_heap() -> bool:
    """Whether this platform's allocator is glibc's, which takes the setting."""
    return platform.libc_ver()[0] == "glibc"
