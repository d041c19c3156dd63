"""Whether two ways of measuring agree on what the machine can do: the ceilings of a sweep, and its latency code.

Run it on a machine that does nothing else: `python tests/benchmarks/machine_ceilings.py [THREADS]`. A bare product of
torch, timed as a contender is, must reach the ceiling of its element type and not pass it, and a bare copy that of
copying: exit status 1 where the best of its rounds is more than 10 % away.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from profiling.measuring.ceilings import measure_ceilings
from profiling.measuring.devices import find_device
from profiling.measuring.latency import measure_rounds, warm_up

DTYPES = ("float32", "bfloat16", "float64")
SIDE = 512
COPIED_BYTES = 128 * 2**20
TOLERANCE = 0.1


def main() -> int:
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else torch.get_num_threads())
    device = find_device("auto")
    first = measure_ceilings(device, DTYPES, budget_s=3.0)
    calls: dict[str, Callable[[], object]] = {}
    amounts: dict[str, float] = {}
    for name in DTYPES:
        a, b = (torch.randn(SIDE, SIDE, device=device.torch_device).to(getattr(torch, name)) for _ in range(2))
        calls[name], amounts[name] = partial(torch.mm, a, b, out=torch.empty_like(a)), 2 * SIDE**3
    source = torch.ones(COPIED_BYTES, dtype=torch.uint8, device=device.torch_device)
    calls["copy"], amounts["copy"] = partial(torch.empty_like(source).copy_, source), 2 * COPIED_BYTES
    call_s = {name: warm_up(call, device, 1.0) for name, call in calls.items()}
    rounds = measure_rounds(
        calls, {}, device, budget_s=1.0, rng=random.Random(0), call_s=call_s, on_sample=lambda _: None
    )
    last = measure_ceilings(device, DTYPES, budget_s=3.0)
    missed = 0
    print(f"{torch.get_num_threads()} threads, {device.description}: GFLOP/s, for the copy GB/s")
    for name, samples in rounds.samples.items():
        ceiling = max((each["matmul_gflop_per_s"] | {"copy": each["copy_gb_per_s"]})[name] for each in (first, last))
        best, median = (amounts[name] / seconds / 1e9 for seconds in (min(samples), statistics.median(samples)))
        missed += abs(best / ceiling - 1) > TOLERANCE
        print(f"{name:9} ceiling {ceiling:7.1f}   best round {best:7.1f} ({best / ceiling:.0%})   median {median:7.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
