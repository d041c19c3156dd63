"""Starts a measuring child, asks it, and notices when it dies, hangs or is to stop."""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import IO, Any

from profiling.environment import ROOT
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
STDERR_KEPT_LINES = 60
STDERR_KEPT_LINE_BYTES = 2000


class MeasuringError(Exception):
    """The child could not serve a request; the message is one sentence for a person."""


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

    Args:
        heap: `pinned` or `as-is`.
        lock_fd: the descriptor that holds the device's lock; the child inherits it, so that an orphan counts as busy.
    """

    def __init__(self, *, heap: str = "as-is", lock_fd: int | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mha-bench-child-", ignore_cleanup_errors=True)
        self._marker = Marker(Path(self._folder.name) / "running")
        self._inbox: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._stderr: deque[str] = deque(maxlen=STDERR_KEPT_LINES)
        self._oom_kills = oom_kill_count()
        self._is_closed = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD, "child", "--marker", str(Path(self._folder.name) / "running")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(heap),
            pass_fds=() if lock_fd is None or os.name != "posix" else (lock_fd,),
            # Its own session: an interrupt typed at the terminal is for the sweep, which stops the child in good order.
            start_new_session=True,
        )
        self._threads = [
            threading.Thread(target=self._read_answers, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._drain_stderr, args=(self._process.stderr,), daemon=True),
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
        if "answer" not in message:
            raise MeasuringError(
                str(message.get("error", "the measuring process answered with neither result nor reason"))
            )
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
        # A pipe that something outside of the group holds open is still being read: closing it would wait for that.
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
        counted_s = 0.0
        while True:
            try:
                return self._inbox.get(timeout=limit_s)
            except queue.Empty:
                waited_s = self._marker.read().waited_s
                if waited_s <= counted_s:
                    raise
                limit_s, counted_s = waited_s - counted_s, waited_s

    def _kill(self) -> None:
        # With what a layer started: its group goes as a whole, also when its leader is gone already.
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def _death(self) -> ChildDied:
        running = self._marker.read()
        try:
            code = self._process.wait(timeout=EXIT_LIMIT_S)
        except subprocess.TimeoutExpired:  # a layer closed the descriptor under the answers
            self._kill()
            code = self._process.wait()
        was_oom_killed = oom_kill_count() > self._oom_kills
        self._kill()
        for thread in self._threads:
            thread.join(timeout=2)
        status, reason = explain_exit(code, was_oom_killed=was_oom_killed)
        last_words = next((line for line in reversed(self._stderr) if line.strip()), "")
        self.close()
        return ChildDied(status, f"{reason}; its last words: {last_words}" if last_words else reason, running)

    def _read_answers(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._inbox.put(("answer", line))
        self._inbox.put(("end", b""))

    def _drain_stderr(self, stream: IO[bytes]) -> None:
        # readline with a cap: a child that prints megabytes, or a line without end, neither blocks nor fills memory.
        while line := stream.readline(STDERR_KEPT_LINE_BYTES):
            self._stderr.append(line.decode("utf-8", errors="replace").rstrip())


def child_environment(heap: str) -> dict[str, str]:
    """The environment of a child with the heap set so, as far as this platform's allocator can be told."""
    plain = {name: value for name, value in os.environ.items() if name not in PINNED_HEAP}
    if heap == "pinned" and can_pin_heap():
        return {**plain, **PINNED_HEAP}
    return plain


def can_pin_heap() -> bool:
    """Whether this platform's allocator is glibc's, which takes the setting."""
    return platform.libc_ver()[0] == "glibc"


def explain_exit(code: int, *, was_oom_killed: bool) -> tuple[str, str]:
    """The row status and the words for a child that ended with this exit status before it answered."""
    if code == -signal.SIGKILL and was_oom_killed:
        return "oom", "ended by the kernel's out-of-memory killer"
    if code < 0:
        return "crashed", f"ended by signal {-code} ({_signal_name(-code)})"
    if code == 0:
        return "crashed", "ended without an answer, though with exit status 0"
    return "crashed", f"ended with exit status {code}"


def oom_kill_count() -> int:
    """How many processes of this control group the kernel has ended for want of memory; 0 where it does not say."""
    try:
        text = Path("/sys/fs/cgroup/memory.events").read_text(encoding="ascii")
    except OSError:
        return 0
    counts = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
    return int(counts.get("oom_kill", 0))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
