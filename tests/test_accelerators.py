"""CUDA, XPU and MPS by fakes that fail whatever reads before it waited; the real ones by `accelerator_checks.py`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_accelerators import FLUSH_MS, FakeBackend, FakeMps

from profiling.measuring.devices import accelerators
from profiling.measuring.devices.accelerators import (
    MAX_AHEAD_S,
    MAX_FLUSHES,
    PROBE_BYTES,
    Accelerator,
    Cuda,
    Mps,
    UnavailableDevice,
    Xpu,
)

Truth = Callable[[Accelerator, FakeBackend], None]
NAMES = {Cuda: "cuda:1", Xpu: "xpu:1", Mps: "mps"}


@pytest.fixture(params=list(NAMES), ids=lambda kind: kind.kind)
def kind(request: pytest.FixtureRequest) -> type[Accelerator]:
    """Each kind of accelerator in turn."""
    return request.param


def make(
    kind: type[Accelerator], monkeypatch: pytest.MonkeyPatch, launch_ms: float = 0.0
) -> tuple[Accelerator, FakeBackend]:
    """A device of that kind, or a planted variant, and the time line behind it."""
    name = NAMES[next(base for base in NAMES if issubclass(kind, base))]
    line = FakeBackend(name, launch_ms)
    monkeypatch.setattr(accelerators, "torch", SimpleNamespace(empty=line.empty, int8=torch.int8))
    return kind(name, FakeMps(line) if name == "mps" else line, line.new_event, line.host_clock), line


# -- what must be true of every one -----------------------------------------------------------------------------------


def the_time_is_the_devices(device: Accelerator, line: FakeBackend) -> None:
    line.launch(500.0)  # what was queued before is not the calls'
    assert device.time_calls(lambda: line.launch(7.0), 3) == pytest.approx(0.021)


def the_time_is_without_the_flush(device: Accelerator, line: FakeBackend) -> None:
    device.flush_cache()
    assert device.time_calls(lambda: line.launch(7.0), 3) == pytest.approx(0.021)


def the_peak_is_the_calls(device: Accelerator, line: FakeBackend) -> None:
    line.launch(1.0, hold=99_991)
    assert device._allocator_peak(lambda: line.launch(7.0, hold=1009)) == 1009


def the_peak_is_read_after_the_flush(device: Accelerator, line: FakeBackend) -> None:
    device.flush_cache()
    assert device._allocator_peak(lambda: line.launch(7.0, hold=1013)) == 1013


TIMES: list[Truth] = [the_time_is_the_devices, the_time_is_without_the_flush]
PEAKS: list[Truth] = [the_peak_is_the_calls, the_peak_is_read_after_the_flush]


@pytest.mark.parametrize("truth", TIMES)
def test_a_time_is_that_of_the_calls_on_the_device(
    kind: type[Accelerator], truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth(*make(kind, monkeypatch))


@pytest.mark.parametrize("kind", [Cuda, Xpu])
@pytest.mark.parametrize("truth", PEAKS)
def test_a_peak_is_read_once_all_is_done(
    kind: type[Accelerator], truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth(*make(kind, monkeypatch))


def forgetting(kind: type[Accelerator], which: int | None) -> type[Accelerator]:
    """That kind of device with a synchronise left out: the first (0), the second (1), or every one (None)."""

    class Forgetful(kind):  # type: ignore[misc, valid-type] # the base is the parameter
        asked = 0

        def synchronize(self) -> None:
            self.asked += 1
            if which is not None and self.asked != which + 1:
                super().synchronize()

    return Forgetful


@pytest.mark.parametrize("truth", TIMES)
@pytest.mark.parametrize("which", [1, None])
def test_a_missing_synchronise_is_caught_when_a_time_is_read(
    kind: type[Accelerator], truth: Truth, which: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match="before everything launched was done"):
        truth(*make(forgetting(kind, which), monkeypatch))


@pytest.mark.parametrize("kind", [Cuda, Xpu])
@pytest.mark.parametrize("truth", PEAKS)
@pytest.mark.parametrize("which", [0, 1, None])
def test_a_missing_synchronise_is_caught_when_a_peak_is_read(
    kind: type[Accelerator], truth: Truth, which: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match="before everything launched was done"):
        truth(*make(forgetting(kind, which), monkeypatch))


@pytest.mark.parametrize("waits", ["never", "after", "before"])
@pytest.mark.parametrize("truth", TIMES)
def test_a_host_clock_that_does_not_wait_on_both_sides_is_caught(
    kind: type[Accelerator], waits: str, truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ByTheHostsClock(kind):  # type: ignore[misc, valid-type] # the base is the parameter
        def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
            if waits == "before":
                self.synchronize()
            start = line.host_ms
            for _ in range(num_calls):
                call()
            if waits == "after":
                self.synchronize()  # what was queued before, a flush of the cache, is in the time
            return (line.host_ms - start) / 1e3

    device, line = make(ByTheHostsClock, monkeypatch)
    with pytest.raises(AssertionError, match="comparison failed"):
        truth(device, line)


# -- launches hidden --------------------------------------------------------------------------------------------------


def test_gaps_between_launches_are_not_in_the_time(kind: type[Accelerator], monkeypatch: pytest.MonkeyPatch) -> None:
    device, line = make(kind, monkeypatch, launch_ms=0.03)
    assert device.is_ahead is None
    assert device.time_calls(lambda: line.launch(0.002), 101) == pytest.approx(101 * 0.002e-3)
    assert device.is_ahead


def test_a_long_call_is_timed_at_the_first_try(kind: type[Accelerator], monkeypatch: pytest.MonkeyPatch) -> None:
    device, line = make(kind, monkeypatch, launch_ms=0.03)
    ran: list[int] = []
    device.time_calls(lambda: (ran.append(1), line.launch(7.0)), 3)
    assert len(ran) == 3


def test_how_far_to_be_ahead_is_learnt_once(kind: type[Accelerator], monkeypatch: pytest.MonkeyPatch) -> None:
    device, line = make(kind, monkeypatch, launch_ms=0.03)
    ran: list[int] = []

    def call() -> None:
        ran.append(1)
        line.launch(0.002)

    device.time_calls(call, 101)
    assert len(ran) > 101
    ran.clear()
    device.time_calls(call, 101)
    assert len(ran) == 101


def test_a_call_that_waits_for_the_device_is_timed_with_its_gaps_and_told(
    kind: type[Accelerator], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, line = make(kind, monkeypatch, launch_ms=0.03)

    def call() -> None:
        line.launch(0.002)
        line.wait()

    # Each call starts on an idle device: the launch, then the work. The first is launched while it is busy.
    assert device.time_calls(call, 11) == pytest.approx((10 * 0.032 + 0.002) * 1e-3, rel=0.02)
    assert not device.is_ahead
    assert device._num_flushes * FLUSH_MS / 1e3 < 2 * MAX_AHEAD_S


def test_a_call_on_which_the_host_works_long_is_timed_once_with_that_work(
    kind: type[Accelerator], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, line = make(kind, monkeypatch)
    ran: list[int] = []

    def compile_and_run() -> None:
        ran.append(1)
        line.host_ms += 5000.0
        line.launch(7.0)

    # What the device did before it had to wait, the flush, is not the call's.
    assert device.time_calls(compile_and_run, 1) == pytest.approx(5.007 - FLUSH_MS / 1e3)
    assert len(ran) == 1
    assert not device.is_ahead


def test_a_flush_that_takes_no_time_ends_too(kind: type[Accelerator], monkeypatch: pytest.MonkeyPatch) -> None:
    device, line = make(kind, monkeypatch, launch_ms=0.03)
    monkeypatch.setattr("fake_accelerators.FLUSH_MS", 0.0)
    device.time_calls(line.wait, 3)
    assert device._num_flushes == MAX_FLUSHES == 1024


# -- the rest of the seam ---------------------------------------------------------------------------------------------


def test_an_accelerator_is_asked_by_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Cuda, Xpu):
        device, line = make(kind, monkeypatch)
        device.select()
        assert line.selected == device.name
        device.synchronize()
        assert device.description == "Fake 7"
        assert device.no_peak_reason is None  # the fake fails when asked about another


def test_mps_is_asked_without_a_number_and_has_no_true_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    device, _ = make(Mps, monkeypatch)
    device.select()
    device.synchronize()
    assert device.description.endswith(" (mps)")
    assert device.no_peak_reason == "torch offers no true peak of memory on mps: a reserved pool is none"
    with pytest.raises(UnavailableDevice, match="no true peak"):
        device.peak_bytes(lambda: None)


def test_a_peak_that_does_not_move_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    device, line = make(Xpu, monkeypatch)
    line.counts_allocations = False
    assert "does not move with an allocation" in str(device.no_peak_reason)


def test_the_probe_allocates_when_asked_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    device, line = make(Cuda, monkeypatch)
    line.peak = line.live
    assert device.no_peak_reason is None
    assert line.peak - line.live == PROBE_BYTES
    assert device.peak_bytes(lambda: line.launch(1.0, hold=5003)) == 5003


def test_the_cache_is_flushed_by_work_on_the_device(kind: type[Accelerator], monkeypatch: pytest.MonkeyPatch) -> None:
    device, line = make(kind, monkeypatch)
    device.flush_cache()
    device.flush_cache()
    assert line.num_launches == 2


def test_what_no_one_tells_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Xpu, Mps):
        device, _ = make(kind, monkeypatch)
        assert (device.clock_mhz(), device.throttles(), device.other_processes()) == (None, {}, None)
        assert device.clock_step_s == 1e-6


# -- what the driver's tool tells -------------------------------------------------------------------------------------


def cuda(line: FakeBackend, answers: dict[str, str]) -> tuple[Cuda, list[list[str]]]:
    """A CUDA device whose tool answers a question that holds such words, and what it was asked."""
    asked: list[list[str]] = []

    def run(arguments: Any) -> str | None:
        asked.append(list(arguments))
        return next((answer for words, answer in answers.items() if words in arguments[0]), None)

    return Cuda(line.name, line, line.new_event, run=run), asked


def test_cuda_asks_the_tool_about_its_own_device() -> None:
    device, asked = cuda(FakeBackend("cuda:1"), {"clocks.sm": "1980\n"})
    assert device.clock_mhz() == 1980.0
    assert asked == [["--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-i", "GPU-0a1b"]]


def test_cuda_without_a_uuid_is_asked_about_by_its_number() -> None:
    line = FakeBackend("cuda:1")
    line.get_device_properties = lambda device: SimpleNamespace()  # type: ignore[method-assign] # an older torch
    device, asked = cuda(line, {"clocks.sm": "1980"})
    device.clock_mhz()
    assert asked[0][-2:] == ["-i", "1"]


def test_the_clock_that_torch_tells_comes_first() -> None:
    line = FakeBackend("cuda:1")
    line.clock_rate = lambda device: 1755  # type: ignore[attr-defined] # where its package is installed
    device, asked = cuda(line, {"clocks.sm": "1980"})
    assert device.clock_mhz() == 1755.0
    assert asked == []


def test_cuda_without_the_tool_tells_none() -> None:
    device, _ = cuda(FakeBackend("cuda:1"), {})
    assert (device.clock_mhz(), device.throttles(), device.other_processes()) == (None, {}, None)
    assert device.throttles() == {}


def test_cuda_counts_others_only_where_it_finds_itself() -> None:
    line = FakeBackend("cuda:1")  # on which this process holds memory
    device, _ = cuda(line, {"compute-apps": "4294967291\n4294967295\n"})
    assert device.other_processes() is None
    line.live = 0
    assert device.other_processes() == 2
