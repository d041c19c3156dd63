"""The switch by which a person, a signal or a closed pipe ends a sweep in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

from profiling.child_process import ChildStopped, MeasuringChild

# By which the page's Stop asks what the page has started, so that it can be told from a signal that anyone may send.
# What does not listen to it yet is ended by it, as by SIGTERM.
PAGES_SIGNAL = getattr(signal, "SIGUSR1", signal.SIGTERM)


class StopSwitch:
    """Asks a sweep to stop: from another thread, or from a signal handler. What is measured stays."""

    def __init__(self) -> None:
        # A plain flag: an Event takes a lock, which a second signal inside the first one's handler would wait for.
        self._asked = False
        self._child: MeasuringChild | None = None
        self._may_interrupt = False
        self.reason = ""

    def request(self, reason: str) -> None:
        """Stops the sweep now; the workload in flight is dropped and can be resumed."""
        self.reason = self.reason or reason
        self._asked = True
        if self._child is not None:
            self._child.stop()

    def is_requested(self) -> bool:
        """Whether someone asked."""
        return self._asked

    def pause(self, seconds: float) -> None:
        """Waits for a moment; raises ChildStopped where someone asked to stop by then."""
        if not self._asked:
            time.sleep(seconds)
        if self._asked:
            raise ChildStopped

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """Within it a signal ends by ChildStopped what the main thread does: for what can be left undone."""
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    def watch(self, child: MeasuringChild) -> None:
        """From now on a request interrupts this child."""
        self._child = child
        if self.is_requested():
            child.stop()

    def on_signals(self) -> None:
        """From now on the signals that ask a program to end ask this switch."""
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                self._on_signal(getattr(signal, name), f"stopped by {name}")

    def on_end_of_input(self) -> None:
        """From now on the end of standard input asks this switch: whoever started this program and held it is gone.

        It is the page that holds it, and the page's Stop asks too.
        """
        self._on_signal(PAGES_SIGNAL, "stopped on the page")

        def wait() -> None:
            # os.read, not sys.stdin: a thread inside a buffered read aborts Python when it exits.
            with contextlib.suppress(OSError):  # closed from the start
                while os.read(0, 4096):
                    pass
            self.request("stopped by whoever started it")

        threading.Thread(target=wait, daemon=True).start()

    def _on_signal(self, number: int, reason: str) -> None:
        def handle(*_: object) -> None:
            self.request(reason)
            if self._may_interrupt:
                raise ChildStopped

        signal.signal(number, handle)
