"""Accelerators without an accelerator: a host that launches, and a device that works it off at a pace of its own.

Both have a time line, so that launch gaps, and reads that came too early, show as on a real one: to read a time or a
statistic while launched work has not been waited for fails the test.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

FLUSH_MS = 0.5


class FakeBackend:
    """As `torch.cuda` and `torch.xpu`: every function is told which device, and must be told the right one.

    Args:
        name: the device's name.
        launch_ms: what the host needs to launch one piece of work.
    """

    def __init__(self, name: str, launch_ms: float = 0.0) -> None:
        self.name, self.launch_ms = name, launch_ms
        self.host_ms, self.free_at_ms, self.is_pending = 1000.0, 0.0, False
        self.live, self.peak = 700, 900
        self.selected = ""
        self.counts_allocations = True
        self.num_launches = 0

    def launch(self, milliseconds: float, hold: int = 0) -> None:
        """Queues work of so long that holds so many bytes meanwhile."""
        self.num_launches += 1
        self.host_ms += self.launch_ms
        self.free_at_ms = max(self.free_at_ms, self.host_ms) + milliseconds
        self.peak = max(self.peak, self.live + hold)
        self.is_pending = True

    def wait(self) -> None:
        self.host_ms, self.is_pending = max(self.host_ms, self.free_at_ms), False

    def assert_idle(self) -> None:
        assert not self.is_pending, "read before everything launched was done"

    def assert_own(self, device: object) -> None:
        assert str(device) == self.name, "asked about another device"

    def empty(self, size: int, **_: Any) -> Any:
        """As `torch.empty` on this device."""
        if self.counts_allocations:
            self.peak = max(self.peak, self.live + size)
        return SimpleNamespace(zero_=lambda: self.launch(FLUSH_MS))

    def new_event(self) -> FakeEvent:
        return FakeEvent(self)

    def host_clock(self) -> float:
        """The host's own time in seconds."""
        return self.host_ms / 1e3

    # -- torch's functions --------------------------------------------------------------------------------------------

    def set_device(self, device: object) -> None:
        self.selected = str(device)

    def get_device_name(self, device: object) -> str:
        self.assert_own(device)
        return "Fake 7"

    def get_device_properties(self, device: object) -> Any:
        self.assert_own(device)
        return SimpleNamespace(uuid="0a1b")

    def synchronize(self, device: str) -> None:
        self.assert_own(device)
        self.wait()

    def memory_allocated(self, device: str) -> int:
        self.assert_own(device)
        self.assert_idle()
        return self.live

    memory_reserved = memory_allocated

    def max_memory_allocated(self, device: str) -> int:
        self.assert_own(device)
        self.assert_idle()
        return self.peak

    def reset_peak_memory_stats(self, device: str) -> None:
        self.assert_own(device)
        self.assert_idle()
        self.peak = self.live


class FakeMps:
    """As `torch.mps`: one device, no arguments, a pool instead of a peak. Runs on the time line of another fake."""

    def __init__(self, line: FakeBackend) -> None:
        self.synchronize = line.wait

    def driver_allocated_memory(self) -> int:
        return 11_323 * 2**20


class FakeEvent:
    """An event on the device's stream: done once the device comes to it."""

    def __init__(self, backend: FakeBackend) -> None:
        self.backend, self.at_ms = backend, float("nan")

    def record(self) -> None:
        self.at_ms = max(self.backend.free_at_ms, self.backend.host_ms)
        self.backend.is_pending = True

    def query(self) -> bool:
        return self.at_ms <= self.backend.host_ms

    def elapsed_time(self, end: FakeEvent) -> float:
        self.backend.assert_idle()
        return end.at_ms - self.at_ms
