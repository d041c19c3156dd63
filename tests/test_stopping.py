from __future__ import annotations

import signal
import time

import pytest
from made_up_runs import FakeChild

from profiling.child_process import ChildStopped
from profiling.stopping import StopSwitch


def test_nothing_stops_without_a_request() -> None:
    stop = StopSwitch()
    stop.watch(FakeChild())  # type: ignore[arg-type]
    stop.pause(0.0)
    assert not stop.is_requested()


def test_a_request_reaches_the_child_that_is_watched() -> None:
    stop, first, second = StopSwitch(), FakeChild(), FakeChild()
    stop.watch(first)  # type: ignore[arg-type]
    stop.watch(second)  # type: ignore[arg-type]
    stop.request("enough")
    assert stop.is_requested()
    assert (first.is_stopped, second.is_stopped) == (False, True)


def test_a_request_made_before_reaches_the_child_that_comes() -> None:
    stop, child = StopSwitch(), FakeChild()
    stop.request("enough")
    stop.watch(child)  # type: ignore[arg-type]
    assert child.is_stopped


def test_the_first_reason_stands() -> None:
    stop = StopSwitch()
    stop.request("first")
    stop.request("second")
    assert stop.reason == "first"


def test_a_pause_ends_with_a_request() -> None:
    stop = StopSwitch()
    stop.request("enough")
    started = time.monotonic()
    with pytest.raises(ChildStopped):
        stop.pause(60.0)
    assert time.monotonic() - started < 10


def test_a_signal_in_the_middle_of_a_request_does_not_wait_for_it() -> None:
    stop = StopSwitch()

    class Interrupted(FakeChild):
        def stop(self) -> None:
            if not self.is_stopped:
                self.is_stopped = True
                signal.raise_signal(signal.SIGUSR1)  # its handler asks again, inside of this request

    before = signal.signal(signal.SIGUSR1, lambda *_: stop.request("again"))
    try:
        stop.watch(Interrupted())  # type: ignore[arg-type]
        stop.request("enough")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert stop.reason == "enough"
