"""The layers against the official one: time ratio and peak memory ratio, at seven points, in several processes.

    python tests/benchmarks/layer_ratios.py [--processes 5] [--heap as-is|pinned] [--budget 1.0] [--threads 2]

Explicit stands beside ``official(x, x, x)``, fused beside ``official(x, x, x, need_weights=False)``, both under
``torch.inference_mode()``. Each process times all four in interleaved rounds, in a fresh random order each round, each
with weights of its own, equal in value. A point's figure is the median over the processes of the median over the
rounds of the ratio within a round. Exit status 1 where a goal is missed. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

POINTS = [
    (8, 2, 2, 5),
    (64, 4, 1, 16),
    (512, 8, 1, 16),
    (512, 8, 4, 128),
    (512, 8, 4, 512),
    (512, 8, 1, 1024),
    (512, 8, 1, 2048),
]  # (d_model, num_heads, batch_size, seq_len)
REFERENCES = {"explicit": "official", "fused": "official-fused"}
GEOMETRIC_MEAN_GOALS = {"explicit": 0.75, "fused": 0.78}
POINT_GOAL = 1.05
LONG_MEMORY_GOAL = 0.65  # of the explicit layer, where num_heads * seq_len >= 4 * d_model
PINNED_HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_TOP_PAD_": "67108864"}
SAMPLE_SECONDS = 0.004
ROOT = Path(__file__).resolve().parents[2]


def measure_all(budget_s: float, threads: int) -> None:
    """Measure every point in this process and print one line of JSON for each."""
    import torch

    torch.set_num_threads(threads)
    for point in POINTS:
        calls = contenders(*point)
        with torch.inference_mode():
            times = timed_rounds(calls, budget_s)
            memory = {name: peak_bytes(call) for name, call in calls.items()}
        print(json.dumps({"times": times, "memory": memory}), flush=True)


def contenders(d_model: int, num_heads: int, batch_size: int, seq_len: int) -> dict[str, Callable[[], object]]:
    import torch

    from mha import FusedMultiHeadAttention, MultiHeadAttention, call_official, official_layer, randomize_

    x = torch.randn(batch_size, seq_len, d_model)
    explicit, fused = (cls(d_model, num_heads).eval() for cls in (MultiHeadAttention, FusedMultiHeadAttention))
    official, official_fused = (official_layer(d_model, num_heads).eval() for _ in range(2))
    for layer in (explicit, fused, official, official_fused):
        randomize_(layer, 1)
    return {
        "explicit": lambda: explicit(x),
        "fused": lambda: fused(x),
        "official": lambda: call_official(official, x),
        "official-fused": lambda: call_official(official_fused, x, need_weights=False),
    }


def timed_rounds(calls: dict[str, Callable[[], object]], budget_s: float) -> dict[str, list[float]]:
    """Seconds per call, one sample per contender and round."""
    for call in calls.values():
        for _ in range(3):
            call()
    started = time.perf_counter()
    calls["official"]()
    seconds = time.perf_counter() - started
    calls_per_sample = max(1, math.ceil(SAMPLE_SECONDS / seconds))
    num_rounds = max(7, int(budget_s / (calls_per_sample * seconds)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    gc.collect()
    gc.disable()
    for _ in range(num_rounds):
        random.shuffle(order)
        for name in order:
            call = calls[name]
            call()  # untimed: what ran before has filled the caches with its own
            started = time.perf_counter()
            for _ in range(calls_per_sample):
                call()
            times[name].append((time.perf_counter() - started) / calls_per_sample)
    gc.enable()
    return times


def peak_bytes(call: Callable[[], object]) -> int:
    """The most that one call has allocated at any moment, by the allocator's own events."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    events = profile.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    live = peak = 0
    for _, change in changes:
        live += change
        peak = max(peak, live)
    return peak


def run_process(budget_s: float, threads: int, heap: str) -> list[dict[str, dict]]:
    environment = {**os.environ, **(PINNED_HEAP if heap == "pinned" else {})}
    command = [sys.executable, __file__, "--measure", "--budget", str(budget_s), "--threads", str(threads)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ratio(measured: dict[str, dict], name: str) -> float:
    mine, theirs = measured["times"][name], measured["times"][REFERENCES[name]]
    return statistics.median(a / b for a, b in zip(mine, theirs, strict=True))


def report(processes: list[list[dict[str, dict]]]) -> list[str]:
    """Print the table; return the goals that were missed."""
    missed = []
    for name, reference in REFERENCES.items():
        print(f"\n{name} / {reference}\n{'d_model, heads, batch, seq_len':32}  median  per process{'':24}  peak memory")
        medians = []
        for index, point in enumerate(POINTS):
            ratios = [ratio(process[index], name) for process in processes]
            medians.append(statistics.median(ratios))
            memory = processes[0][index]["memory"]
            memory_ratio = memory[name] / memory[reference]
            told = " ".join(f"{value:.3f}" for value in ratios)
            print(f"{point!s:32}  {medians[-1]:.3f}   {told:35}  {memory_ratio:.3f}")
            if medians[-1] > POINT_GOAL:
                missed.append(f"{name} at {point}: time ratio {medians[-1]:.3f} > {POINT_GOAL}")
            is_long = name == "explicit" and point[1] * point[3] >= 4 * point[0]
            if memory_ratio > (LONG_MEMORY_GOAL if is_long else 1.0):
                missed.append(f"{name} at {point}: peak memory ratio {memory_ratio:.3f}")
        mean = statistics.geometric_mean(medians)
        print(f"{'geometric mean':32}  {mean:.3f}   (goal {GEOMETRIC_MEAN_GOALS[name]})")
        if mean > GEOMETRIC_MEAN_GOALS[name]:
            missed.append(f"{name}: geometric mean {mean:.3f} > {GEOMETRIC_MEAN_GOALS[name]}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--heap", choices=["as-is", "pinned"], default="as-is")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of timed calls per contender and point")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.measure:
        measure_all(options.budget, options.threads)
        return 0
    processes = [run_process(options.budget, options.threads, options.heap) for _ in range(options.processes)]
    missed = report(processes)
    print("\n" + ("\n".join(["missed:", *missed]) if missed else "all goals met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
