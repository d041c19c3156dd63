"""Finds the longest sequence that fits under two limits and in both modes, and looks from outside whether it is true.

    python tests/benchmarks/fits_agree.py [CONTENDER ...]

Three witnesses besides what `fits` says itself:
- the kernel: `VmData` of each measuring process, read every millisecond from `/proc`, is never beyond the limit, and at
  the longest sequence it comes to what was told (torch, layer, input and peak of the call) within `SLACK`;
- the refusal: at the next length, what was asked for goes beyond the limit, on top of what the kernel saw held then;
- a plain process that calls the layer as a person would, without `profiling`, under a limit that leaves as much beside
  torch: there the longest sequence runs, and one `BEYOND` times as long as the next does not (layers that are not
  compiled).
Linux only; some minutes. Exit status 1 where they disagree.
"""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from profiling.child_process import MeasuringChild
from profiling.device_lock import DeviceBusy
from profiling.laws import fit_trying
from profiling.laws.fit_search import OOM, FitPlan, Tried
from profiling.laws.fit_trying import ChildTrier
from profiling.laws.fit_words import largest_words
from profiling.laws.largest_fit import find_largest
from profiling.layers import is_compiled
from profiling.workload import Grid, Workload

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
LIMITS_MIB = (500.0, 900.0)
# What lies between blocks in use, buffers of products that torch's allocator does not see, and what Python takes.
SLACK_MIB, SLACK = 48.0, 0.05
# A plain process keeps no account of its memory, which takes some: a little more than here may fit into it.
BEYOND = 1.05
LOOK_S = 0.001
# Someone else may measure on the device meanwhile.
PATIENCE_S = 600.0
# The layer, called as a person would, with nothing of `profiling` in the process.
PLAIN = """
import resource, sys, torch
sys.path.insert(0, {root!r})
from mha import FusedMultiHeadAttention, MultiHeadAttention
torch.set_num_threads(1)
torch.ones(512, 512) @ torch.ones(512, 512)
(held,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData:")]
resource.setrlimit(resource.RLIMIT_DATA, (int(held) * 1024 + {room_bytes}, resource.RLIM_INFINITY))
layer = {layer}({d_model}, {num_heads})
training = {training}
x = torch.randn({batch_size}, {seq_len}, {d_model}).requires_grad_(training)
layer.train(training)
try:
    for _ in range(2):
        if training:
            torch.autograd.grad(layer(x), [x, *layer.parameters()], torch.ones_like(x))
        else:
            with torch.inference_mode():
                layer(x)
except RuntimeError as error:
    sys.exit(7 if "allocate" in str(error) else 1)
"""
PLAIN_LAYERS = {"custom": "MultiHeadAttention", "custom-fused": "FusedMultiHeadAttention"}


class WatchedTrier:
    """Tries sizes as the command does, and keeps the most that the kernel saw each process hold.

    Args:
        trier: tries them.

    Attributes:
        seen_mib: size → the largest `VmData`.
    """

    def __init__(self, trier: ChildTrier) -> None:
        self._trier = trier
        self.seen_mib: dict[int, float] = {}

    def __call__(self, size: int) -> Tried:
        """What became of that size."""
        with _watched_children() as seen:
            tried = self._trier(size)
        self.seen_mib[size] = max(seen, default=0.0)
        return tried


def main() -> None:
    """Prints what was told and what was seen, and where they disagree."""
    faults: list[str] = []
    for contender in sys.argv[1:] or ["custom"]:
        for limit_mib in LIMITS_MIB:
            for mode in ("inference", "training"):
                print(f"{contender}, {mode}, {limit_mib:g} MiB", flush=True)
                found = _faults(contender, mode, limit_mib)
                for fault in found:
                    print(f"    WRONG: {fault}", flush=True)
                faults += found
    print(f"{len(faults)} disagree")
    sys.exit(bool(faults))


def _faults(contender: str, mode: str, limit_mib: float) -> list[str]:
    grid = Grid(batch_size=(1,), seq_len=(64,), num_heads=(4,), d_model=128, device="cpu", threads=1, mode=(mode,))
    with _patiently(contender, grid, limit_mib) as trier:
        watched = WatchedTrier(trier)
        found = find_largest(
            contender,
            trier.workload,
            FitPlan(within=0.03, step=64),
            watched,
            heap="as-is",
            room_mib=trier.room_mib,
            free_mib=trier.free_mib,
            memory_mib=trier.memory_mib,
            is_asked=True,
            limit_s=300.0,
        )
    for line in largest_words(found):
        print(f"    {line}", flush=True)
    ran = next((each for each in found.tried if each.size == found.fits), None)
    if ran is None or found.failed is None or found.failed.status != OOM:
        return ["nothing was found that fits, or that does not for want of memory"]
    failed, faults = found.failed, []
    for size, mib in sorted(watched.seen_mib.items()):
        if mib > limit_mib and not is_compiled(contender):  # a compiler may, while it works
            faults.append(f"at {size:,} the kernel saw {mib:.1f} MiB held")
    told, seen = (ran.before_mib or 0.0) + (ran.peak_mib or 0.0), watched.seen_mib[ran.size]
    print(f"    at {ran.size:,} told {told:.1f} MiB in all; the kernel saw {seen:.1f}", flush=True)
    if not -SLACK * told <= seen - told <= SLACK_MIB + SLACK * told:
        faults.append(f"at {ran.size:,} the kernel saw {seen:.1f} MiB, and {told:.1f} were told")
    asked, before = failed.asked_mib or 0.0, watched.seen_mib[failed.size]
    print(f"    at {failed.size:,} the kernel saw {before:.1f} MiB, and {asked:.1f} more were refused", flush=True)
    if before + asked <= limit_mib:
        faults.append(f"at {failed.size:,} {asked:.1f} MiB were refused where {before:.1f} were held")
    if contender in PLAIN_LAYERS:
        room_mib, beyond = limit_mib - (ran.base_mib or 0.0), int(BEYOND * failed.size)
        ends = [_plain_exit(contender, _at(trier.workload, size), room_mib) for size in (ran.size, beyond)]
        print(f"    in a plain process {ran.size:,} ends with {ends[0]}, {beyond:,} with {ends[1]}", flush=True)
        if ends != [0, 7]:
            faults.append(f"in a plain process {ran.size:,} does not run, or {beyond:,} does")
    return faults


@contextlib.contextmanager
def _patiently(contender: str, grid: Grid, limit_mib: float) -> Iterator[ChildTrier]:
    end = time.monotonic() + PATIENCE_S
    while True:
        trier = ChildTrier(contender, grid, memory_mib=limit_mib)
        try:
            trier.__enter__()
        except DeviceBusy:
            if time.monotonic() > end:
                raise
            time.sleep(2)
        else:
            break
    try:
        yield trier
    finally:
        trier.__exit__(None, None, None)


def _at(workload: Workload, size: int) -> Workload:
    return dataclasses.replace(workload, seq_len=size)


def _plain_exit(contender: str, workload: Workload, room_mib: float) -> int:
    """The exit status of the plain process: 0 where it ran, 7 where memory was refused."""
    text = PLAIN.format(
        root=str(ROOT),
        layer=PLAIN_LAYERS[contender],
        training=workload.mode == "training",
        room_bytes=int(room_mib * MIB),
        **workload.to_dict(),
    )
    done = subprocess.run([sys.executable, "-c", text], stderr=subprocess.PIPE, check=False)
    if done.returncode not in (0, 7):
        print(f"    {done.stderr.decode(errors='replace').strip()[-300:]}", flush=True)
    return done.returncode


@contextlib.contextmanager
def _watched_children() -> Iterator[list[float]]:
    """Reads `VmData` of the children that are started within, until each ends."""
    seen: list[float] = []
    watchers: list[threading.Thread] = []

    class Watched(MeasuringChild):
        def __init__(self, **how: object) -> None:
            super().__init__(**how)  # type: ignore[arg-type]  # handed on as they come
            watcher = threading.Thread(target=_look, args=(self.pid, seen), daemon=True)
            watcher.start()
            watchers.append(watcher)

    before, fit_trying.MeasuringChild = fit_trying.MeasuringChild, Watched  # type: ignore[misc]  # its seam in tests too
    try:
        yield seen
    finally:
        fit_trying.MeasuringChild = before  # type: ignore[misc]  # as above
        for watcher in watchers:
            watcher.join(timeout=10)


def _look(pid: int, seen: list[float]) -> None:
    status = Path(f"/proc/{pid}/status")
    while True:
        try:
            text = status.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        found = next((line for line in text.splitlines() if line.startswith("VmData:")), None)
        if found is None:  # it has ended, and waits to be taken note of
            return
        seen.append(int(found.split()[1]) / 1024)
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
