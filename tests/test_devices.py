from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from profiling.measuring import devices
from profiling.measuring.devices import (
    PROBE_BYTES,
    Accelerator,
    Cpu,
    Device,
    UnavailableDevice,
    available_devices,
    find_device,
    memory_events,
    peak_of_events,
)


class FakeBackend:
    """An accelerator's module, run by a queue that only a synchronise empties.

    Reading a time or a peak while work is still queued fails the test, and so does asking about another device.
    """

    def __init__(self, name: str = "fake:1") -> None:
        self.name = name
        self.queue: deque[Callable[[], None]] = deque()
        self.clock_ms, self.live, self.peak = 1000.0, 700, 900
        self.selected = ""
        self.counts_allocations = True

    def launch(self, milliseconds: float, hold: int = 0) -> None:
        def work() -> None:
            self.clock_ms += milliseconds
            self.peak = max(self.peak, self.live + hold)

        self.queue.append(work)

    def set_device(self, device: object) -> None:
        self.selected = str(device)

    def synchronize(self, device: str) -> None:
        assert device == self.name
        while self.queue:
            self.queue.popleft()()

    def memory_allocated(self, device: str) -> int:
        assert device == self.name
        self.assert_idle()
        return self.live

    def max_memory_allocated(self, device: str) -> int:
        assert device == self.name
        self.assert_idle()
        return self.peak

    def reset_peak_memory_stats(self, device: str) -> None:
        assert device == self.name
        self.assert_idle()
        self.peak = self.live

    def assert_idle(self) -> None:
        assert not self.queue, "read before everything launched was done"

    def new_event(self) -> FakeEvent:
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, backend: FakeBackend) -> None:
        self.backend, self.at = backend, float("nan")

    def record(self) -> None:
        def work() -> None:
            self.at = self.backend.clock_ms

        self.backend.queue.append(work)

    def elapsed_time(self, end: FakeEvent) -> float:
        self.backend.assert_idle()
        return end.at - self.at


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    fake = FakeBackend()

    def empty(size: int, **_: Any) -> Any:
        if fake.counts_allocations:
            fake.peak = max(fake.peak, fake.live + size)
        return SimpleNamespace(zero_=lambda: fake.launch(5.0))

    monkeypatch.setattr(devices.torch, "empty", empty)
    monkeypatch.setattr(devices.torch, "device", lambda name: name)
    return fake


def accelerator(backend: FakeBackend) -> Accelerator:
    return Accelerator(backend.name, backend, backend.new_event)


# -- the CPU ----------------------------------------------------------------------------------------------------------


def test_the_cpu_tells_the_time_of_its_clock() -> None:
    ticks = itertools.count(start=1_000, step=7_000_000)
    calls: list[int] = []
    assert Cpu(clock=lambda: next(ticks)).time_calls(lambda: calls.append(1), 3) == 0.007
    assert len(calls) == 3


def test_the_clock_is_read_twice_whatever_the_number_of_calls() -> None:
    reads: list[int] = []
    Cpu(clock=lambda: reads.append(1) or 0).time_calls(lambda: None, 11)
    assert len(reads) == 2


def test_the_cpus_peak_is_that_of_the_tensors_that_are_live_at_once() -> None:
    b, s, d = 3, 17, 7
    x, w = torch.randn(b, s, d), torch.randn(4, d, d)

    def explicit() -> torch.Tensor:
        q, k, v = x @ w[0], x @ w[1], x @ w[2]  # 3 T
        scores = q @ k.transpose(-1, -2)  # + S
        attn_weights = scores.softmax(-1)  # + S
        context = attn_weights @ v  # + T
        return context @ w[3]  # + T, the most

    tokens, square = b * s * d * 4, b * s * s * 4
    with torch.inference_mode():
        explicit()
        assert Cpu().peak_bytes(explicit) == 2 * square + 5 * tokens


def test_the_peak_counts_what_was_freed_on_the_way_only_while_it_lived() -> None:
    def call() -> torch.Tensor:
        first = torch.empty(1009, dtype=torch.uint8)
        del first
        second = torch.empty(503, dtype=torch.uint8)
        return torch.cat([second, second])

    assert Cpu().peak_bytes(call) == 503 + 2 * 503


def test_the_sum_of_the_events_is_what_is_still_alive() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        kept = torch.empty(1013, dtype=torch.uint8)
        torch.empty(2003, dtype=torch.uint8)
    assert sum(size for _, size in memory_events(profile)) == kept.nbytes == 1013


def test_the_peak_of_events_is_the_highest_sum_on_the_way() -> None:
    assert peak_of_events([(1, 5), (2, 7), (3, -7), (4, 3), (5, -8)]) == 12
    assert peak_of_events([]) == 0


def test_the_cpu_offers_a_peak_and_needs_no_waiting() -> None:
    cpu = Cpu()
    assert cpu.no_peak_reason is None
    assert cpu.torch_device == torch.device("cpu")
    assert cpu.description
    cpu.select()
    cpu.synchronize()
    cpu.flush_cache()


# -- accelerators -----------------------------------------------------------------------------------------------------


def test_an_accelerator_tells_the_devices_own_time(backend: FakeBackend) -> None:
    device = accelerator(backend)
    backend.launch(500.0)  # what was queued before is not the call's
    assert device.time_calls(lambda: backend.launch(7.0), 3) == pytest.approx(0.021)


def test_an_accelerator_waits_before_it_reads_a_peak(backend: FakeBackend) -> None:
    device = accelerator(backend)
    backend.launch(1.0, hold=99_991)
    assert device.peak_bytes(lambda: backend.launch(7.0, hold=1009)) == 1009


def test_an_accelerator_is_asked_by_its_own_number(backend: FakeBackend) -> None:
    device = accelerator(backend)
    device.select()
    assert backend.selected == "fake:1"
    device.synchronize()
    assert device.no_peak_reason is None  # the backend fails when asked about another


@pytest.mark.parametrize(
    "ask",
    [
        lambda device, call: device.time_calls(call, 3),
        lambda device, call: device._allocator_peak(call),
    ],
)
def test_the_fake_backend_catches_a_missing_synchronise(
    backend: FakeBackend, ask: Callable[[Accelerator, Callable[[], None]], object]
) -> None:
    class Forgetful(Accelerator):
        def synchronize(self) -> None:
            """Forgets to."""

    device = Forgetful(backend.name, backend, backend.new_event)
    with pytest.raises(AssertionError, match="before everything launched was done"):
        ask(device, lambda: backend.launch(7.0))


def test_a_device_without_a_true_peak_says_so_and_gives_none() -> None:
    class Mps:
        """As torch.mps: one device, no arguments, a pool instead of a peak."""

        def synchronize(self) -> None: ...

        def driver_allocated_memory(self) -> int:
            return 11_323 * 2**20

    device = Accelerator("mps", Mps(), FakeEvent)
    device.synchronize()
    device.select()
    assert device.no_peak_reason == "torch offers no true peak of memory on mps: a reserved pool is none"
    with pytest.raises(UnavailableDevice, match="no true peak"):
        device.peak_bytes(lambda: None)


def test_a_peak_that_does_not_move_is_not_believed(backend: FakeBackend) -> None:
    backend.counts_allocations = False
    assert "does not move with an allocation" in str(accelerator(backend).no_peak_reason)


def test_the_probe_allocates_when_asked_not_before(backend: FakeBackend) -> None:
    backend.peak = backend.live
    device = accelerator(backend)
    assert backend.peak == backend.live
    assert device.no_peak_reason is None
    assert backend.peak - backend.live == PROBE_BYTES


def test_the_cache_is_flushed_by_work_on_the_device(backend: FakeBackend) -> None:
    accelerator(backend).flush_cache()
    assert len(backend.queue) == 1


# -- finding one ------------------------------------------------------------------------------------------------------


def test_devices_are_found_best_first_without_allocating_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def module(kind: str, count: int) -> Any:
        return SimpleNamespace(
            is_available=lambda: count > 0,
            device_count=lambda: count,
            Event=object,
            max_memory_allocated=lambda *_: pytest.fail("asked for a peak"),
        )

    monkeypatch.setattr(devices, "torch", SimpleNamespace(cuda=module("cuda", 2), xpu=module("xpu", 0)))
    assert [device.name for device in available_devices()] == ["cuda:0", "cuda:1", "cpu"]


def test_a_device_is_found_by_name_by_kind_or_as_the_best(
    monkeypatch: pytest.MonkeyPatch, backend: FakeBackend
) -> None:
    found: list[Device] = [Accelerator(name, backend, backend.new_event) for name in ("fake:0", "fake:1")]
    monkeypatch.setattr(devices, "available_devices", lambda: [*found, Cpu()])
    assert find_device("auto").name == "fake:0"
    assert find_device("fake").name == "fake:0"
    assert find_device("fake:1").name == "fake:1"
    assert backend.selected == "fake:1"
    assert find_device("cpu").name == "cpu"


def test_an_absent_device_is_told_with_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "available_devices", lambda: [Cpu()])
    for name in ("cuda:7", "", "CPU", "no such"):
        with pytest.raises(UnavailableDevice, match=r"one that torch finds here \(cpu\), not"):
            find_device(name)
