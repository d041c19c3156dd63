"""What only a machine with an accelerator can show, in one run of under three minutes, as a table.

    python tests/accelerator_checks.py [--device cuda]

Exit status 0 where all is as it should be, 1 where a check fails, 3 where there is no accelerator here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mha import FusedMultiHeadAttention, MultiHeadAttention, check_consistency, fast_path
from profiling import run_sweep
from profiling.measuring.contenders.kernels import observe_kernel
from profiling.measuring.contenders.known import make_contender, make_input, make_weights
from profiling.measuring.devices import find_device
from profiling.measuring.devices.accelerators import Accelerator
from profiling.measuring.devices.seam import Device, UnavailableDevice
from profiling.settings import CONTENDERS
from profiling.workload import Workload

NO_ACCELERATOR = 3
DTYPES = ("float32", "float16", "bfloat16")
# Two million million operations in float32: some 40 ms on a large device, a second on a small one.
LONG_SIZE, NUM_LONG = 4096, 16
KNOWN_BYTES = 64 * 2**20


class Wrong(Exception):
    """A check failed; the message holds the figures."""


def require(is_right: bool, figures: str) -> str:
    """The figures, where they are right."""
    if not is_right:
        raise Wrong(figures)
    return figures


# -- the device and its clock -----------------------------------------------------------------------------------------


def tells_what_it_is(device: Device) -> str:
    """It has a name, and says what else it can tell."""
    told = {
        "MHz": device.clock_mhz(),
        "throttles": device.throttles(),
        "other processes": device.other_processes(),
    }
    figures = f"{device.name}: {device.description}; " + ", ".join(f"{name} {value}" for name, value in told.items())
    return require(bool(device.description.strip()), figures)


def times_agree_with_a_clock_that_waits(
    device: Device, call: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> str:
    """The time between events is that of a clock read on an idle device before and after, for a long queue."""
    event_s = min(device.time_calls(call, NUM_LONG) for _ in range(3))
    waited_s = min(_by_the_host(device, call, clock, waits=True) for _ in range(3))
    figures = f"events {event_s * 1e3:.2f} ms, clock {waited_s * 1e3:.2f} ms, {event_s / waited_s - 1:+.1%}"
    return require(abs(event_s / waited_s - 1) <= 0.1, figures)


def a_missing_wait_would_show(
    device: Device, call: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> str:
    """The same clock without waiting for the queue tells less than half: so a wait that is missing is seen."""
    event_s = min(device.time_calls(call, NUM_LONG) for _ in range(3))
    unwaited_s = min(_by_the_host(device, call, clock, waits=False) for _ in range(3))
    figures = f"{unwaited_s * 1e3:.3f} ms instead of {event_s * 1e3:.2f} ms: 1/{event_s / unwaited_s:.0f} of it"
    return require(unwaited_s < event_s / 2, figures)


def launches_are_hidden(
    device: Device, call: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> str:
    """A short call takes no longer by events than by the host's clock, and the host was ahead of the device."""
    num_calls = 100
    event_s = device.time_calls(call, num_calls) / num_calls
    device.synchronize()
    start = clock()
    for _ in range(num_calls):
        call()
    device.synchronize()
    loop_s = (clock() - start) / num_calls
    is_ahead = isinstance(device, Accelerator) and device.is_ahead
    figures = f"{event_s * 1e6:.2f} µs on the device, {loop_s * 1e6:.2f} µs in a loop, ahead: {is_ahead}"
    return require(bool(is_ahead) and event_s <= 1.1 * loop_s, figures)


def _by_the_host(device: Device, call: Callable[[], object], clock: Callable[[], float], *, waits: bool) -> float:
    device.synchronize()
    start = clock()
    for _ in range(NUM_LONG):
        call()
    if waits:
        device.synchronize()
    seconds = clock() - start
    device.synchronize()
    return seconds


# -- memory -----------------------------------------------------------------------------------------------------------


def peak_of_a_known_allocation(device: Device) -> str:
    """Two blocks at once, of which one is freed on the way and another comes."""

    def call() -> torch.Tensor:
        first = torch.empty(KNOWN_BYTES, dtype=torch.int8, device=device.torch_device)
        second = torch.empty(KNOWN_BYTES, dtype=torch.int8, device=device.torch_device)
        del first
        return torch.empty(KNOWN_BYTES // 2, dtype=torch.int8, device=device.torch_device).add_(second[0])

    return _peak(device, call, 2 * KNOWN_BYTES)


def peak_of_the_explicit_layer(device: Device) -> str:
    """Queries, keys and values with the scores: 3 · b·s·d·4 + b·h·s²·4 bytes, as on the CPU."""
    point = _workload(device, batch_size=4, seq_len=1024, d_model=512, num_heads=8)
    tokens, scores = 4 * 1024 * 512 * 4, 4 * 8 * 1024**2 * 4
    return _peak(device, _forward("custom", point), 3 * tokens + scores)


def _peak(device: Device, call: Callable[[], object], worked: int) -> str:
    if device.no_peak_reason is not None:
        return require(device.name == "mps", f"no figure: {device.no_peak_reason}")
    with torch.inference_mode():
        call()  # libraries take their workspaces at a first call, and keep them
        device.synchronize()
        peak = device.peak_bytes(call)
    # An allocator may hand out a block that is up to 1 MiB larger than what is asked for.
    figures = f"{peak / 2**20:.2f} MiB, worked by hand {worked / 2**20:.2f} MiB, {peak / worked - 1:+.2%}"
    return require(abs(peak / worked - 1) <= 0.02, figures)


# -- the layers -------------------------------------------------------------------------------------------------------


def layer_is_right(device: Device, layer: type[torch.nn.Module], dtype: str) -> str:
    """The layer computes on this device what the official one computes there."""
    report = check_consistency(layer, d_model=64, num_heads=4, dtype=dtype, device=device.torch_device)
    told = f"{report.verdict}: {report.reason}" if report.reason else report.verdict
    return require(report.verdict == "pass", told)


def kernels_are_seen(device: Device) -> str:
    """The explicit layer runs explicit products there, the fused one what torch fuses or chooses."""
    point = _workload(device, batch_size=2, seq_len=256, d_model=256, num_heads=4)
    seen = {}
    with torch.inference_mode(), fast_path(False):
        for name in ("custom", "custom-fused", "official", "official-fused"):
            seen[name] = observe_kernel(_forward(name, point))
    figures = ", ".join(f"{name}: {kernel}" for name, kernel in seen.items())
    is_right = seen["custom"] == seen["official"] == "explicit" and str(seen["custom-fused"]).startswith("sdpa")
    return require(is_right and seen["custom-fused"] == seen["official-fused"], figures)


def a_sweep_fills_its_rows(device: Device, contenders: tuple[str, ...] = CONTENDERS) -> str:
    """Rows of a small sweep are ok, right, timed, and have a peak where the device tells one."""
    rows = _sweep(device, contenders, seq_len=[64, 256])
    figures = "; ".join(
        f"{row.contender} at {row.seq_len}: {row.status}, {row.latency_median_ms:.3f} ms, {row.peak_memory_mib:.2f} MiB"
        for row in rows.itertuples()
    )
    is_whole = (
        len(rows) == 2 * len(contenders) and rows["status"].eq("ok").all() and rows["latency_median_ms"].gt(0).all()
    )
    is_right = rows.loc[rows["contender"].str.startswith("custom"), "check_verdict"].eq("pass").all()
    has_peaks = rows["peak_memory_mib"].gt(0).all() or device.no_peak_reason is not None
    return require(bool(is_whole and is_right and has_peaks), figures)


def a_compiled_layer_is_measured(device: Device) -> str:
    """As the sweep before, with the explicit layer compiled; where nothing can be compiled the row says why."""
    rows = _sweep(device, ("compiled:custom", "official"), seq_len=[128])
    row = rows[rows["contender"] == "compiled:custom"].iloc[0]
    if row["status"] == "unavailable":
        return require(bool(row["status_reason"]), f"unavailable: {row['status_reason']}")
    figures = (
        f"{row['status']}, {row['check_verdict']}, {row['latency_median_ms']:.3f} ms, speed-up {row['speedup']:.2f}"
    )
    return require(row["status"] == "ok" and row["check_verdict"] == "pass", figures)


def _sweep(device: Device, contenders: tuple[str, ...], seq_len: list[int]) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        return run_sweep(
            out=Path(folder) / "run",
            batch_size=[2],
            seq_len=seq_len,
            num_heads=[4],
            d_model=64,
            device=device.name,
            time_budget_s=0.2,
            quiet_wait_s=0,  # its times are for looking at only
            contenders=contenders,
        )


def _workload(device: Device, **sizes: int) -> Workload:
    return Workload(
        **sizes, dtype="float32", device=device.name, mode="inference", bias=False, causal=False, threads=1, seed=42
    )


def _forward(name: str, point: Workload) -> Callable[[], object]:
    x, weights = make_input(point), make_weights(point)
    return make_contender(name, point, weights, x).call


# -- all of them ------------------------------------------------------------------------------------------------------


def checks_of(device: Device) -> dict[str, Callable[[], str]]:
    """Name → check; a check makes what it needs when it runs."""

    def matrices(size: int) -> Callable[[], object]:
        a = torch.randn(size, size, device=device.torch_device)
        out = torch.empty_like(a)
        torch.mm(a, a, out=out)
        return lambda: torch.mm(a, a, out=out)

    layers = {"explicit": MultiHeadAttention, "fused": FusedMultiHeadAttention}
    return {
        "the device": lambda: tells_what_it_is(device),
        "time by events": lambda: times_agree_with_a_clock_that_waits(device, matrices(LONG_SIZE)),
        "a missing wait": lambda: a_missing_wait_would_show(device, matrices(LONG_SIZE)),
        "launches hidden": lambda: launches_are_hidden(device, matrices(64)),
        "peak, known": lambda: peak_of_a_known_allocation(device),
        "peak, explicit layer": lambda: peak_of_the_explicit_layer(device),
        "kernels": lambda: kernels_are_seen(device),
        **{
            f"{name} layer, {dtype}": lambda layer=layer, dtype=dtype: layer_is_right(device, layer, dtype)
            for name, layer in layers.items()
            for dtype in DTYPES
        },
        "sweep": lambda: a_sweep_fills_its_rows(device),
        "sweep, compiled": lambda: a_compiled_layer_is_measured(device),
    }


def run(checks: dict[str, Callable[[], str]]) -> int:
    """Runs and prints each; returns how many failed. One that raises has failed, and the others still run."""
    num_failed = 0
    for name, check in checks.items():
        started = time.perf_counter()
        try:
            verdict, figures = "pass", check()
        except Wrong as wrong:
            verdict, figures = "FAIL", str(wrong)
        except Exception as error:  # whatever a device's torch raises is what this is to find out
            verdict, figures = "FAIL", f"{type(error).__name__}: {error}"
        num_failed += verdict == "FAIL"
        print(f"{verdict}  {name:24} {time.perf_counter() - started:5.1f} s  {figures}", flush=True)
    print(f"{len(checks) - num_failed} of {len(checks)} checks passed")
    return num_failed


def main(arguments: list[str] | None = None) -> int:
    """Finds the device, runs the checks, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="cuda, cuda:1, xpu or mps; auto takes the best")
    name = parser.parse_args(arguments).device
    try:
        device = find_device(name)
    except UnavailableDevice as error:
        print(f"no accelerator here: {error}")
        return NO_ACCELERATOR
    if not isinstance(device, Accelerator):
        print(f"no accelerator here: torch finds {device.name} only")
        return NO_ACCELERATOR
    print(f"torch {torch.__version__} on {device.name}")
    return 1 if run(checks_of(device)) else 0


if __name__ == "__main__":
    sys.exit(main())
