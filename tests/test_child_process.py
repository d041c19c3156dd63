from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from made_up_runs import make_workload
from planted_layers import plant_environment
from real_faults import grandchildren

from profiling import child_process
from profiling.child_process import (
    PINNED_HEAP,
    ChildDied,
    ChildStopped,
    MeasuringChild,
    MeasuringError,
    can_pin_heap,
    child_environment,
)
from profiling.device_lock import DeviceLock, owner
from profiling.protocol import Marker

ENVIRONMENT = {"request": "environment", "device": "cpu"}


def measurement(seq_len: int, *contenders: str) -> dict[str, Any]:
    return {
        "request": "measure",
        "workload": make_workload(seq_len=seq_len).to_dict(),
        "contenders": list(contenders),
        "time_budget_s": 0.01,
        "order_seed": 7,
    }


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Children of this module have these faults, by contender and sequence length."""
    faults = {
        "official@3": "hang with child in check",
        "official@5": "print in check",
        "official@7": "close descriptors in check",
        "custom@5": "raise in check",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in plant_environment(tmp_path_factory.mktemp("plants"), faults).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def child(planted: None) -> Iterator[MeasuringChild]:
    """One child that answers; tests that end theirs start another."""
    with MeasuringChild() as shared:
        yield shared


def test_a_child_says_what_it_runs_on(child: MeasuringChild) -> None:
    answer = child.ask(ENVIRONMENT, limit_s=120)
    assert answer["device"] == "cpu"
    assert answer["devices"][-1]["name"] == "cpu"
    assert {"custom", "custom-fused", "official", "official-fused"} <= set(answer["sources"])


def test_a_request_that_cannot_be_served_is_answered_with_a_sentence(child: MeasuringChild) -> None:
    with pytest.raises(MeasuringError, match="one that torch finds here"):
        child.ask({"request": "environment", "device": "cuda:99"}, limit_s=120)
    assert child.is_alive()


def test_megabytes_and_forged_answers_on_standard_output_break_nothing(child: MeasuringChild) -> None:
    answer = child.ask(measurement(5, "custom", "official"), limit_s=120)
    assert answer["rows"]["official"]["status"] == "ok"
    assert answer["rows"]["custom"]["status"] == "error"
    assert answer["rows"]["custom"]["status_reason"].startswith("RuntimeError: planted [/red]")


def test_a_child_that_hangs_is_ended_after_its_limit_with_all_it_started(planted: None) -> None:
    child = MeasuringChild()
    child.ask(ENVIRONMENT, limit_s=120)
    started = time.monotonic()
    with pytest.raises(ChildDied, match=r"gave no answer within 1\.5 s and was ended") as caught:
        child.ask(measurement(3, "official"), limit_s=1.5)
    assert (caught.value.status, caught.value.running.phase) == ("timeout", "check")
    assert caught.value.running.contender == "official"
    assert time.monotonic() - started < 20
    assert not child.is_alive()
    assert not psutil.pid_exists(child.pid)
    assert grandchildren() == []


def test_the_limit_does_not_count_what_was_waited_for_a_quiet_machine(planted: None) -> None:
    child = MeasuringChild()
    child.ask(ENVIRONMENT, limit_s=120)
    marker = Marker(Path(child._folder.name) / "running")
    begun = threading.Timer(0.3, marker.write_waited, [1.25])  # in the place of a child that waits
    started = time.monotonic()
    begun.start()
    with pytest.raises(ChildDied, match=r"gave no answer within 0\.5 s and was ended"):
        child.ask(measurement(3, "official"), limit_s=0.5)
    assert time.monotonic() - started >= 1.75
    marker.close()


def test_a_layer_that_closes_every_descriptor_is_a_death_not_a_hang(
    planted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "EXIT_LIMIT_S", 0.5)
    with MeasuringChild() as child, pytest.raises(ChildDied) as caught:
        child.ask(measurement(7, "official"), limit_s=120)
    assert caught.value.status == "crashed"
    assert caught.value.running.contender == "official"


def test_a_request_to_stop_gives_up_what_is_in_flight(planted: None) -> None:
    child = MeasuringChild()
    child.ask(ENVIRONMENT, limit_s=120)
    threading.Timer(0.3, child.stop).start()
    with pytest.raises(ChildStopped):
        child.ask(measurement(3, "official"), limit_s=120)
    assert not psutil.pid_exists(child.pid)


def test_an_orphan_counts_as_busy_and_its_end_frees_the_device(planted: None) -> None:
    lock = DeviceLock("orphans")
    lock.acquire("sweep", run_id="dead-run")
    child = MeasuringChild(lock_fd=lock.fd)
    try:
        child.ask(ENVIRONMENT, limit_s=120)
        os.kill(child.pid, signal.SIGSTOP)  # so that it cannot notice that its supervisor is gone
        assert lock.fd is not None
        os.close(lock.fd)  # as the death of the supervisor does: without unlocking
        lock.fd = None
        holder = owner("orphans")
        assert holder is not None
        assert holder.run_id == "dead-run"
    finally:
        child.close()
    assert owner("orphans") is None


@pytest.mark.parametrize("is_loading", [False, True])
def test_a_child_whose_supervisor_is_gone_ends_itself_and_leaves_nothing(planted: None, is_loading: bool) -> None:
    child = MeasuringChild()
    if not is_loading:
        child.ask(ENVIRONMENT, limit_s=120)
    assert child._process.stdin is not None
    child._process.stdin.close()
    assert child._process.wait(timeout=30) == 3
    assert not Path(child._folder.name).exists()
    child.close()


def test_a_child_killed_between_two_requests_is_a_death_that_names_the_signal(planted: None) -> None:
    child = MeasuringChild()
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildDied, match=r"ended by signal 9 \(SIGKILL\)") as caught:
        child.ask(ENVIRONMENT, limit_s=120)
    assert caught.value.status == "crashed"
    assert caught.value.running.contender == ""


def test_a_childs_last_words_are_told(planted: None) -> None:
    with MeasuringChild() as child, pytest.raises(ChildDied, match="its last words: KeyError: 'no such request'"):
        child.ask({"request": "no such request"}, limit_s=120)


def test_closing_twice_is_closing_once(planted: None) -> None:
    child = MeasuringChild()
    child.close()
    child.close()
    assert not Path(child._folder.name).exists()


def test_the_heap_is_pinned_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    assert not PINNED_HEAP.keys() & child_environment("as-is").keys()
    if can_pin_heap():
        assert PINNED_HEAP.items() <= child_environment("pinned").items()
    monkeypatch.setattr(child_process.platform, "libc_ver", lambda: ("", ""))
    assert not PINNED_HEAP.keys() & child_environment("pinned").keys()
