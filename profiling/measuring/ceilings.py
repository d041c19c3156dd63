"""What the machine can do at best: its rate of matrix products for each element type, and its rate of copying memory.

A ceiling is the best of what was seen, since everything that disturbs a measurement makes it lower. It is measured with
the program that layers use, torch's own product, not with one that is tuned for the occasion.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from profiling.costs import MIB
from profiling.measuring.devices import Device

# Sides of the products, each with eight times the operations of the one before, tried in turn as far as the budget
# reaches: a small product pays for its start, and a large one takes long on a slow machine.
SIDES = (256, 512, 1024, 2048, 4096)
# Read and written together. More than today's caches hold: a copy that takes less than LONG_COPY_S may still lie in
# one, so then the next size is tried, and what the smaller one gave does not count.
COPY_BYTES = (64 * MIB, 256 * MIB)
LONG_COPY_S = 1e-3
# Well above the clock's resolution.
SAMPLE_S = 2e-3
MIN_SAMPLES = 3
MAX_SAMPLES = 1000
# Blocks of at least this size leave no trace in a heap as it comes: glibc maps them on their own, gives them back, and
# does not learn from them what to keep, as it does from smaller ones. The layers come after.
BLOCK_BYTES = 64 * MIB
# Drawn numbers; small enough for the same reason, and a prime, so that the rows of a matrix differ.
NUM_RANDOM = 16_381
# What torch and devices raise where they cannot: also for no memory, and TypeError where MPS refuses float64.
CANNOT = (RuntimeError, MemoryError, TypeError)

Call = Callable[[], object]


def measure_ceilings(device: Device, dtypes: Sequence[str], *, budget_s: float) -> dict[str, Any]:
    """The ceilings of a device, with the threads that torch computes with at the moment.

    Args:
        device: where.
        dtypes: names of element types.
        budget_s: seconds to spend, shared equally by the types and the copy. A machine so slow that it takes longer
            for the least that has to be done takes longer.

    Returns:
        `matmul_gflop_per_s` (element type → 10^9 operations per second) and `copy_gb_per_s` (10^9 bytes per second,
        read and written both counted). What could not be measured is None.
    """
    share = budget_s / (len(dtypes) + 1)
    with torch.inference_mode():
        return {
            "matmul_gflop_per_s": {name: _if_possible(partial(matmul_rate, name, device, share)) for name in dtypes},
            "copy_gb_per_s": _if_possible(partial(copy_rate, device, share)),
        }


def matmul_rate(dtype: str, device: Device, budget_s: float) -> float:
    """The best rate of a matrix product, in GFLOP/s: square ones, and ones like a layer's projections."""
    best, spent = None, 0.0
    for side in SIDES:
        try:
            calls = _products(side, dtype, device)
        except CANNOT:
            if best is None:
                raise
            break
        tried = [_try(call, 2 * side**3, device, budget_s / 4 / len(SIDES)) for call in calls]
        best = max([best, *tried] if best else tried, key=lambda trial: trial.rate)
        spent += sum(trial.spent_s for trial in tried)
        seconds = min(trial.call_s for trial in tried)
        next_s = 8 * seconds * len(tried) * (1 + MIN_SAMPLES)
        if spent + next_s > budget_s:
            break
    assert best is not None, "there is a first side"
    again = _try(best.call, best.amount, device, budget_s - spent)
    return max(best.rate, again.rate) / 1e9


def copy_rate(device: Device, budget_s: float) -> float:
    """The best rate of a copy that no cache holds, in GB/s, bytes read and bytes written both counted."""
    for moved in COPY_BYTES:
        source, target = _tensors("uint8", device, (moved // 2,), (moved // 2,))
        first = _try(partial(target.copy_, source), moved, device)
        if first.call_s < LONG_COPY_S and moved != COPY_BYTES[-1]:
            continue  # so quick that a cache may hold it
        again = _try(first.call, moved, device, budget_s - first.spent_s)
        if again.call_s >= LONG_COPY_S:
            break
    return max(first.rate, again.rate) / 1e9


@dataclasses.dataclass(frozen=True)
class _Trial:
    """What a call did: `amount` (operations or bytes) in `call_s` seconds at best; trying took `spent_s`."""

    call: Call
    amount: int
    call_s: float
    spent_s: float

    @property
    def rate(self) -> float:
        """Amount per second."""
        return self.amount / self.call_s


def _try(call: Call, amount: int, device: Device, budget_s: float = 0.0) -> _Trial:
    """The best of several samples of a call: of `MIN_SAMPLES` after an untimed one, and of more within the budget."""
    best = spent = device.time_calls(call, 1)
    samples: list[float] = []
    while len(samples) < MIN_SAMPLES or (spent < budget_s and len(samples) < MAX_SAMPLES):
        num_calls = max(1, math.ceil(SAMPLE_S / max(best, 1e-7)))
        seconds = device.time_calls(call, num_calls)
        spent += seconds
        samples.append(seconds / num_calls)
        best = min(samples)
    return _Trial(call, amount, best, spent)


def _products(side: int, dtype: str, device: Device) -> list[Call]:
    """Products of 2·side³ operations each: a square one, and fewer tokens by a transposed block of weights."""
    a, b, out = _tensors(dtype, device, (side, side), (side, side), (side, side))
    tokens, weights, projected = _tensors(dtype, device, (side // 2, side), (2 * side, side), (side // 2, 2 * side))
    return [partial(torch.mm, a, b, out=out), partial(torch.mm, tokens, weights.t(), out=projected)]


def _tensors(dtype: str, device: Device, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Tensors of normal numbers, side by side in one block."""
    kind: torch.dtype = getattr(torch, dtype)
    sizes = [math.prod(shape) for shape in shapes]
    block = torch.empty(max(sum(sizes) * kind.itemsize, BLOCK_BYTES), dtype=torch.uint8, device=device.torch_device)
    numbers = block.view(kind)[: sum(sizes)]
    _fill(numbers)
    return [part.view(shape) for part, shape in zip(torch.split(numbers, sizes), shapes, strict=True)]


def _fill(numbers: Tensor) -> None:
    """Random numbers, some drawn and then copied on and on: zeros would heat the device less than a layer's numbers."""
    drawn = torch.randn(min(NUM_RANDOM, numbers.numel()), generator=torch.Generator().manual_seed(0))
    known = drawn.numel()
    numbers[:known].copy_(drawn)
    while known < numbers.numel():
        more = min(known, numbers.numel() - known)
        numbers[known : known + more].copy_(numbers[:more])
        known += more


def _if_possible(measure: Callable[[], float]) -> float | None:
    """What is measured, or None where torch or the device cannot: no memory, or no such element type there."""
    try:
        return measure()
    except CANNOT:
        return None
