"""Page faults are counted where the system counts them, and told where they are a share of a call worth knowing."""

from __future__ import annotations

import itertools
import mmap

import pytest

from profiling.child_process import PINNED_HEAP
from profiling.measuring.disturbance import page_faults as module
from profiling.measuring.disturbance.page_faults import fault_seconds, fault_warning, heap_is_pinned, page_faults


def told(faults: float | None, call_s: float, *, is_pinned: bool = False, can_pin: bool = True) -> str | None:
    return fault_warning(faults, call_s, cost_s=lambda: 0.5e-6, is_pinned=lambda: is_pinned, can_pin=lambda: can_pin)


def test_fresh_pages_are_counted() -> None:
    pytest.importorskip("resource", reason="this system counts no page faults")
    before = page_faults()
    with mmap.mmap(-1, 64 * 2**20) as memory:
        memory[:: mmap.PAGESIZE] = b"x" * (64 * 2**20 // mmap.PAGESIZE)
        after = page_faults()
    assert before is not None
    assert after is not None
    assert after - before >= 32  # of 2 MiB each, where the kernel gives huge ones


def test_a_system_that_counts_none_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "resource", None)
    assert page_faults() is None


def test_what_a_fault_costs_is_the_quickest_try_less_the_touching(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two touches a try, the second without faults: 7, 3, 5, 4 and 9 ms for 1,000 of them.
    tries_ms = [7.0, 3.0, 5.0, 4.0, 9.0]
    moments = iter([moment for ms in tries_ms for moment in (0.0, ms * 1e-3 + 0.002, ms * 1e-3 + 0.004)])
    counts = itertools.count(500, 1000)
    monkeypatch.setattr(module, "page_faults", lambda: next(counts))
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(moments))
    assert fault_seconds.__wrapped__() == pytest.approx(3e-6)


def test_what_a_fault_costs_here_is_microseconds_at_most() -> None:
    assert 0 <= fault_seconds() < 1e-3


@pytest.mark.parametrize(("faults", "call_s"), [(None, 1e-6), (0.0, 1e-6), (0.0, 0.0), (790.0, 0.02)])
def test_few_faults_or_none_that_were_counted_are_not_told(faults: float | None, call_s: float) -> None:
    assert told(faults, call_s) is None


def test_faults_of_a_heap_as_it_comes_are_told_with_what_removes_them() -> None:
    warning = told(4000.0, 0.02)
    assert warning is not None
    assert warning.startswith("4,000 page faults a call, about 10 % of its time: fresh memory from the kernel")
    assert warning.endswith("--heap pinned removes it")
    assert "--heap" not in str(told(4000.0, 0.02, can_pin=False))


def test_faults_of_a_pinned_heap_point_at_the_layer() -> None:
    warning = told(900.0, 0.02, is_pinned=True)
    assert warning is not None
    assert warning.startswith("900 page faults a call, about 2 % of its time, though the heap is pinned")


def test_the_share_is_never_more_than_all() -> None:
    assert "about 100 % of its time" in str(told(7000.0, 1e-6))


def test_the_heap_is_pinned_where_all_settings_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PINNED_HEAP.items():
        monkeypatch.setenv(name, value)
    assert heap_is_pinned()
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    assert not heap_is_pinned()
