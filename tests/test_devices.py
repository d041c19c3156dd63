from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_accelerators import FakeBackend

from profiling.measuring.devices import (
    Cpu,
    Device,
    UnavailableDevice,
    accelerators,
    available_devices,
    find_device,
    finding,
)
from profiling.measuring.devices.accelerators import Cuda

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


def test_the_clocks_step_is_the_smallest_that_was_seen() -> None:
    times = itertools.accumulate(itertools.cycle([0, 170, 0, 70, 1_300]))
    assert Cpu(clock=lambda: next(times)).clock_step_s == pytest.approx(70e-9)


def test_the_clocks_step_is_measured_once() -> None:
    reads = itertools.count(step=41)
    cpu = Cpu(clock=lambda: next(reads))
    assert cpu.clock_step_s == cpu.clock_step_s == pytest.approx(41e-9)
    after = next(reads)
    assert cpu.clock_step_s
    assert next(reads) == after + 41


def test_a_clock_that_does_not_move_has_the_step_that_the_system_states() -> None:
    assert Cpu(clock=lambda: 7).clock_step_s == time.get_clock_info("perf_counter").resolution


def test_the_real_clock_tells_less_than_a_millisecond_apart() -> None:
    assert 0 < Cpu().clock_step_s < 1e-3


@pytest.mark.parametrize(
    ("frequency", "mhz"),
    [
        (SimpleNamespace(current=2596.1), 2596.1),
        (SimpleNamespace(current=0.0), None),
        (SimpleNamespace(current=2_596_136.0), None),  # in kHz
        (None, None),
    ],
)
def test_the_clock_of_the_cpu_is_a_sensible_one_or_unknown(frequency: Any, mhz: float | None) -> None:
    assert Cpu(frequency=lambda: frequency).clock_mhz() == mhz


def test_a_system_without_that_counter_tells_no_clock() -> None:
    def absent() -> Any:
        raise NotImplementedError("can't find current frequency file")

    assert Cpu(frequency=absent).clock_mhz() is None


def test_throttling_of_the_cpu_is_told_by_cause() -> None:
    cpu = Cpu(counters={"heat": lambda: 3, "quota": lambda: 5})
    assert cpu.throttles() == {"heat": 3, "quota": 5}
    assert Cpu(counters={"heat": lambda: None, "quota": lambda: 0}).throttles() == {"quota": 0}


def test_throttling_that_is_not_counted_is_unknown_and_not_zero() -> None:
    cpu = Cpu(counters={"heat": lambda: None})
    assert cpu.throttles() == {}


def test_the_cpu_needs_no_waiting_and_tells_of_no_other_processes() -> None:
    cpu = Cpu()
    assert cpu.no_peak_reason is None
    assert cpu.torch_device == torch.device("cpu")
    assert cpu.description
    assert cpu.other_processes() is None
    cpu.select()
    cpu.synchronize()
    cpu.flush_cache()


# -- finding one ------------------------------------------------------------------------------------------------------


def module(count: int) -> Any:
    return SimpleNamespace(
        is_available=lambda: count > 0,
        device_count=lambda: count,
        Event=object,
        max_memory_allocated=lambda *_: pytest.fail("asked for a peak"),
    )


def test_devices_are_found_best_first_without_allocating_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    mps = SimpleNamespace(is_available=lambda: True)
    monkeypatch.setattr(accelerators, "torch", SimpleNamespace(cuda=module(2), xpu=module(1), mps=mps))
    found = available_devices()
    assert [device.name for device in found] == ["cuda:0", "cuda:1", "xpu:0", "mps", "cpu"]
    assert [type(device).__name__ for device in found] == ["Cuda", "Cuda", "Xpu", "Mps", "Cpu"]


def test_kinds_that_torch_lacks_or_cannot_use_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "torch", SimpleNamespace(xpu=module(0)))
    assert [device.name for device in available_devices()] == ["cpu"]


def test_a_device_is_found_by_name_by_kind_or_as_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [FakeBackend(name) for name in ("cuda:0", "cuda:1")]
    found: list[Device] = [Cuda(line.name, line, line.new_event) for line in lines]
    monkeypatch.setattr(finding, "available_devices", lambda: [*found, Cpu()])
    assert find_device("auto").name == "cuda:0"
    assert find_device("cuda").name == "cuda:0"
    assert find_device("cuda:1").name == "cuda:1"
    assert lines[1].selected == "cuda:1"
    assert find_device("cpu").name == "cpu"


def test_an_absent_device_is_told_with_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "available_devices", lambda: [Cpu()])
    for name in ("cuda:7", "", "CPU", "no such"):
        with pytest.raises(UnavailableDevice, match=r"one that torch finds here \(cpu\), not"):
            find_device(name)
