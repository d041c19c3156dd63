from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from profiling.child_process import child_environment
from profiling.costs import MIB
from profiling.environment import ROOT
from profiling.measuring import ceilings as module
from profiling.measuring.answers import Answerer
from profiling.measuring.ceilings import BLOCK_BYTES, SIDES, copy_rate, matmul_rate, measure_ceilings
from profiling.measuring.devices import Cpu
from profiling.protocol import Marker, Running, encode

# 2 · 256³: the operations of the smallest product.
SMALLEST_FLOP = 33_554_432


class Machine(Cpu):
    """A machine of known rates: a call takes as long as these say, and nothing is run.

    Args:
        gflop_per_s: rate of a product by its side, or one for all.
        gb_per_s: rate of a copy by the MiB that it moves, or one for all.
        slowness: factors on the time of the samples in turn, the last one for ever.
    """

    def __init__(
        self,
        gflop_per_s: dict[int, float] | float = 50.0,
        gb_per_s: dict[int, float] | float = 10.0,
        slowness: tuple[float, ...] = (1.0,),
    ) -> None:
        super().__init__()
        self.gflop_per_s, self.gb_per_s, self.slowness = gflop_per_s, gb_per_s, list(slowness)
        self.spent_s = 0.0
        self.sides: list[int] = []

    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        slow = self.slowness.pop(0) if len(self.slowness) > 1 else self.slowness[0]
        seconds = slow * num_calls * self._seconds(call)
        self.spent_s += seconds
        return seconds

    def _seconds(self, call: Any) -> float:
        assert isinstance(call, partial)
        if call.func is torch.mm:
            rows, side = call.args[0].shape
            self.sides.append(side)
            flop = 2 * rows * side * call.args[1].shape[1]
            return flop / (1e9 * (self.gflop_per_s if isinstance(self.gflop_per_s, float) else self.gflop_per_s[side]))
        moved = 2 * call.args[0].nbytes
        rate = self.gb_per_s if isinstance(self.gb_per_s, float) else self.gb_per_s[moved // MIB]
        return float(moved / (1e9 * rate))


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of which no memory is touched."""
    monkeypatch.setattr(module, "_fill", lambda numbers: None)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which real products and copies take no time."""
    monkeypatch.setattr(module, "SIDES", (6, 12))
    monkeypatch.setattr(module, "COPY_BYTES", (2 * 8192,))
    monkeypatch.setattr(module, "BLOCK_BYTES", 8192)


# -- rates ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("light")
def test_a_machine_of_known_rates_is_found_to_have_them() -> None:
    found = measure_ceilings(Machine(47.0, 13.0), ["float32", "bfloat16"], budget_s=0.9)
    assert found["matmul_gflop_per_s"] == {"float32": pytest.approx(47.0), "bfloat16": pytest.approx(47.0)}
    assert found["copy_gb_per_s"] == pytest.approx(13.0)


@pytest.mark.usefixtures("light")
def test_a_rate_is_operations_by_seconds_and_bytes_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIDES", (256,))
    # 33,554,432 operations in 4 ms, and 64 MiB read and written in 8 ms.
    monkeypatch.setattr(Machine, "_seconds", lambda _, call: 0.004 if call.func is torch.mm else 0.008)
    assert (
        matmul_rate("float32", Machine(), 0.5) == pytest.approx(SMALLEST_FLOP / 0.004 / 1e9) == pytest.approx(8.388608)
    )
    assert copy_rate(Machine(), 0.5) == pytest.approx(67_108_864 / 0.008 / 1e9) == pytest.approx(8.388608)


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("best", [0, 1, 2, 4, 7])  # the second go begins at 3, with an untimed call of its own
def test_the_best_sample_speaks_wherever_it_comes_and_never_the_untimed_call(best: int) -> None:
    # The first call of a kind is untimed: that it was four times as fast must not count.
    slowness = [0.25, *(1.5 for _ in range(best)), 1.0, 1.5]
    assert copy_rate(Machine(gb_per_s=20.0, slowness=tuple(slowness)), 0.2) == pytest.approx(20.0)


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("fastest", SIDES[:4])
def test_the_best_side_speaks(fastest: int) -> None:
    rates = dict.fromkeys(SIDES, 500.0) | {fastest: 700.0}
    assert matmul_rate("float32", Machine(rates), 5.0) == pytest.approx(700.0)


@pytest.mark.usefixtures("light")
def test_a_copy_that_may_lie_in_a_cache_does_not_count() -> None:
    # 64 MiB at 100 GB/s take 0.67 ms: so fast that they may never have left the processor.
    assert copy_rate(Machine(gb_per_s={64: 100.0, 256: 31.0}), 0.2) == pytest.approx(31.0)
    # At 60 GB/s they take 1.1 ms, and a larger copy is not asked for.
    assert copy_rate(Machine(gb_per_s={64: 60.0}), 0.2) == pytest.approx(60.0)


@pytest.mark.usefixtures("light")
def test_a_slow_element_type_is_not_tried_at_sides_that_take_too_long() -> None:
    machine = Machine(1.0)
    assert matmul_rate("float16", machine, 0.3) == pytest.approx(1.0)
    assert set(machine.sides) == {256}
    quick = Machine(2000.0)
    matmul_rate("float32", quick, 1.0)
    assert set(quick.sides) == set(SIDES)


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("budget_s", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("rate", [20.0, 300.0, 9000.0])
def test_the_time_is_that_of_the_budget(rate: float, budget_s: float) -> None:
    machine = Machine(rate, rate / 5)
    measure_ceilings(machine, ["float32", "float64"], budget_s=budget_s)
    assert budget_s <= machine.spent_s <= 1.1 * budget_s + 0.2


# -- what cannot be measured ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"),
        RuntimeError("can't allocate memory: you tried to allocate 67108864 bytes"),
        TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64"),
        MemoryError(),
    ],
)
def test_what_torch_cannot_do_is_empty_and_the_rest_is_there(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module._tensors

    def refuse(dtype: str, *arguments: Any) -> Any:
        if dtype in ("float16", "uint8"):
            raise error
        return real(dtype, *arguments)

    monkeypatch.setattr(module, "_tensors", refuse)
    found = measure_ceilings(Machine(47.0), ["float16", "float32"], budget_s=0.02)
    assert found["matmul_gflop_per_s"]["float16"] is None
    assert found["matmul_gflop_per_s"]["float32"] == pytest.approx(47.0)
    assert found["copy_gb_per_s"] is None


@pytest.mark.usefixtures("light")
def test_a_side_for_which_there_is_no_memory_leaves_what_the_smaller_ones_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    real = module._tensors

    def refuse(dtype: str, device: Any, *shapes: tuple[int, ...]) -> Any:
        if max(shapes[0]) >= 1024:
            raise RuntimeError("can't allocate memory: you tried to allocate 67108864 bytes")
        return real(dtype, device, *shapes)

    monkeypatch.setattr(module, "_tensors", refuse)
    assert matmul_rate("float32", Machine({256: 300.0, 512: 400.0, 1024: 500.0}), 0.5) == pytest.approx(400.0)


@pytest.mark.usefixtures("small")
def test_a_bug_is_not_taken_for_a_machine_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "matmul_rate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        measure_ceilings(Machine(), ["float32"], budget_s=0.02)


# -- what is really run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_the_products_are_products_of_as_many_operations_as_are_counted(dtype: str) -> None:
    for call in module._products(26, dtype, Cpu()):
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            out = call()
        assert counter.get_total_flops() == 2 * 26**3
        assert isinstance(call, partial)
        first, second = (tensor.double() for tensor in call.args)
        assert isinstance(out, torch.Tensor)
        torch.testing.assert_close(out.double(), first @ second, rtol=0.02, atol=0.1)
        assert out.dtype == getattr(torch, dtype)


@pytest.mark.usefixtures("small")
def test_real_rates_are_numbers_above_nothing() -> None:
    found = measure_ceilings(Cpu(), ["float32", "float64"], budget_s=0.01)
    assert all(0 < rate < math.inf for rate in (*found["matmul_gflop_per_s"].values(), found["copy_gb_per_s"]))


def test_a_copy_copies_all_of_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[Any] = []

    class Recording(Machine):
        def time_calls(self, call: Any, num_calls: int) -> float:
            copies.append((call.args[0], call.func.__self__))
            call()
            return super().time_calls(call, num_calls)

    monkeypatch.setattr(module, "COPY_BYTES", (2 * 3001,))
    copy_rate(Recording(gb_per_s={0: 10.0}), 0.001)
    source, target = copies[0]
    assert source.nbytes == target.nbytes == 3001
    assert torch.equal(source, target)
    assert source.data_ptr() != target.data_ptr()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_what_is_multiplied_is_normal_numbers_in_one_block_of_its_own(dtype: str) -> None:
    one, other = module._tensors(dtype, Cpu(), (307, 401), (113, 7))
    assert (one.shape, other.shape) == ((307, 401), (113, 7))
    assert one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    # Smaller ones would teach glibc's heap what to keep, and so change what is measured after them.
    assert one.untyped_storage().nbytes() == BLOCK_BYTES
    assert one.double().std().item() == pytest.approx(1.0, abs=0.02)
    assert one.double().mean().item() == pytest.approx(0.0, abs=0.02)


HEAP_SCRIPT = """
import ctypes, torch
from profiling.measuring import ceilings
from profiling.measuring.devices import Cpu

class Heap(ctypes.Structure):
    # What glibc's mallinfo2 tells, in bytes; hblkhd: of blocks that are mapped on their own.
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    _fields_ = [(name, ctypes.c_size_t) for name in names]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Heap

def is_mapped():
    before = libc.mallinfo2().hblkhd
    block = torch.empty(2**20, dtype=torch.uint8)  # the smallest that is mapped once torch is loaded
    return libc.mallinfo2().hblkhd - before >= block.nbytes

torch.set_num_threads(1)
ceilings.SIDES = (512,)
ceilings.measure_ceilings(Cpu(), ["float32", "float64"], budget_s=0.05)
print(is_mapped())
torch.empty(30 * 2**20, dtype=torch.uint8)  # the control: freed at once, and of a size that glibc learns from
print(is_mapped())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="only glibc from 2.33 on tells of its heap so")
def test_they_leave_no_trace_in_a_heap_as_it_comes() -> None:
    environment = child_environment("as-is") | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", HEAP_SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]


# -- the request -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_the_child_answers_the_ceilings_with_the_threads_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", threads.append)
    child = Answerer(Marker(tmp_path / "running"))
    request = {"request": "ceilings", "device": "cpu", "dtypes": ["bfloat16"], "threads": 2, "budget_s": 0.01}
    answer = child.answer(encode(request))["answer"]
    assert threads == [2]
    assert answer["matmul_gflop_per_s"].keys() == {"bfloat16"}
    assert answer["copy_gb_per_s"] > 0
    assert Marker(tmp_path / "running").read() == Running("ceilings", "")
