from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fake_accelerators import FakeBackend, FakeMps

from profiling.measuring.devices import Cpu
from profiling.measuring.devices.accelerators import Accelerator, Cuda, Mps, Xpu
from profiling.measuring.devices.process_memory import status_bytes
from profiling.measuring.failures import asked_mib
from profiling.parsing import parse_mib
from profiling.workload import GridError

GIB = 2**30


class LimitedBackend(FakeBackend):
    """With a driver that tells what is free of 7 GiB, and an allocator that can be told how much to take."""

    fraction: float | None = None
    tells = True

    def mem_get_info(self, device: str) -> tuple[int, int]:
        self.assert_own(device)
        if not self.tells:
            raise RuntimeError("the driver does not tell")
        return 5 * GIB, 7 * GIB

    def set_per_process_memory_fraction(self, fraction: float, device: str) -> None:
        self.assert_own(device)
        self.fraction = fraction


def device(kind: type[Accelerator], backend: FakeBackend) -> Accelerator:
    return kind(backend.name, backend, backend.new_event, backend.host_clock)


@pytest.mark.parametrize("kind", [Cuda, Xpu])
def test_an_accelerator_tells_what_is_free_of_its_own_memory_and_limits_its_allocator(kind: type[Accelerator]) -> None:
    backend = LimitedBackend(f"{kind.kind}:3")
    mine = device(kind, backend)
    backend.launch(5.0)
    assert (mine.free_bytes(), mine.held_bytes()) == (5 * GIB, backend.live)
    assert mine.limit_bytes(2 * GIB)
    assert backend.fraction == pytest.approx(2 / 7)
    assert mine.limit_bytes(9 * GIB)
    assert backend.fraction == 1.0
    assert mine.limit_bytes(None)
    assert backend.fraction == 1.0


def test_an_accelerator_that_does_not_tell_is_unknown_and_not_limited() -> None:
    backend = LimitedBackend("xpu:3")
    backend.tells = False
    silent = device(Xpu, backend)
    assert (silent.free_bytes(), silent.limit_bytes(2 * GIB), backend.fraction) == (None, False, None)
    old = device(Xpu, FakeBackend("xpu:3"))
    assert (old.free_bytes(), old.limit_bytes(2 * GIB)) == (None, False)
    # Its memory is the machine's own.
    line = FakeBackend("mps")
    apple = Mps("mps", FakeMps(line), line.new_event, line.host_clock)
    assert (apple.free_bytes(), apple.held_bytes(), apple.limit_bytes(GIB)) == (None, None, False)
    assert Cpu().free_bytes() is None


def test_a_status_file_is_read_as_linux_writes_it(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmData:\t     237 kB\nVmHWM:\tunknown\n")
    assert status_bytes("VmData", status) == 237 * 1024
    assert status_bytes("VmHWM", status) is None
    assert status_bytes("VmPeak", status) is None
    assert status_bytes("VmData", tmp_path / "none") is None


@pytest.mark.parametrize(
    ("error", "mib"),
    [
        (RuntimeError("can't allocate memory: you tried to allocate 3145728 bytes."), 3.0),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.50 GiB. GPU 0 has"), 20.5 * 1024),
        (MemoryError("Unable to allocate 512.0 KiB for an array"), 0.5),
        (MemoryError(), None),
        (ValueError("my own"), None),
    ],
)
def test_what_was_refused_is_read_from_what_was_raised(error: BaseException, mib: float | None) -> None:
    assert asked_mib(error) == mib


@pytest.mark.parametrize(
    ("text", "mib"),
    [("600", 600), ("600MiB", 600), (" 1.5 GiB ", 1536), ("2gib", 2048), ("3TiB", 3 * 2**20), ("512KiB", 0.5)],
)
def test_an_amount_of_memory_is_read_as_people_write_it(text: str, mib: float) -> None:
    assert parse_mib("memory", text) == mib


@pytest.mark.parametrize("text", ["0", "-1", "abc", "2GB", "2G", "GiB", "", "nan", "1e400", "1_000", "1 2MiB", "0MiB"])
def test_what_is_no_amount_of_memory_is_refused(text: str) -> None:
    with pytest.raises(GridError, match="memory must be an amount above 0 such as 600MiB"):
        parse_mib("memory", text)
