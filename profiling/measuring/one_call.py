"""Runs one contender at one shape, twice, under a limit on memory: does it fit here?

Nothing is timed for anyone, compared or checked. What does not fit fails by an allocation that is refused, before the
machine is short of memory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mha import fast_path
from profiling.costs import MIB
from profiling.layers import is_layer
from profiling.measuring.contenders.known import Contender, make_contender, make_input, make_weights
from profiling.measuring.contenders.own import make_user_contender
from profiling.measuring.devices import Device
from profiling.measuring.failures import failure
from profiling.measuring.garbage import forget
from profiling.workload import Workload

OWN_STATUS = Path("/proc/self/status")
# Elements of a product that all threads of a pool take part in.
POOL_SIZE = 512


def try_call(
    workload: Workload,
    contender: str,
    device: Device,
    *,
    layer: str | None = None,
    limit_mib: float | None = None,
    say: Callable[[str, str], None] = lambda *_: None,
) -> dict[str, Any]:
    """What became of two calls of a contender: `status` and `reason`, and what they took.

    Args:
        workload: the shape; its device is `device`.
        contender: a name of ours, or of a layer of one's own.
        device: where it runs.
        layer: the layer's file and name, where it is one's own.
        limit_mib: memory that this process may take from here on; None for no limit. Only Linux can be told.
        say: told the phase and the contender before each thing that could take the process down.

    Returns:
        `status` (`ok`, `oom`, `error` …), `reason`, `peak_mib` (of the call itself), `held_mib` (that the process took
        in all), `call_s` (the first call), `is_limited`; what was not measured is None.
    """
    torch.set_num_threads(workload.threads)
    _start_threads()
    before = _memory_mib("VmRSS")
    told: dict[str, Any] = {"status": "ok", "reason": "", "peak_mib": None, "held_mib": None, "call_s": None}
    told["is_limited"] = limit_mib is not None and limit_data(limit_mib)
    try:
        say("build", contender)
        ready = _make(workload, contender, layer)
        mode = torch.enable_grad() if workload.mode == "training" else torch.inference_mode()
        with mode, fast_path(False):
            say("warm-up", contender)
            told["call_s"] = _seconds(ready.call, device)
            say("memory", contender)
            if device.no_peak_reason is None:
                told["peak_mib"] = device.peak_bytes(ready.call) / MIB
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a layer raises is the layer's, also an exit
        told["status"], told["reason"] = failure(error, is_own=layer is not None)
        forget(error, give_back=True)
        if told["is_limited"] and os.strerror(errno.EAGAIN) in told["reason"]:  # a thread needs memory too
            told["status"], told["reason"] = "oom", "a thread could not be started"
    highest = _memory_mib("VmHWM")
    if before is not None and highest is not None:
        told["held_mib"] = max(0.0, highest - before)
    return told


def limit_data(limit_mib: float) -> bool:
    """Lets this process take so many MiB more than it has, and no more; whether it could be told so.

    From then on an allocation that would go beyond is refused, as by a machine without memory, and can be told from
    other faults. Linux counts what is allocated, written to or not.
    """
    taken = _memory_mib("VmData")
    if sys.platform != "linux" or taken is None:
        return False
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = int((taken + limit_mib) * MIB)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
        return True
    return False


def _make(workload: Workload, contender: str, layer: str | None) -> Contender:
    x, weights = make_input(workload), make_weights(workload)
    if layer is not None or is_layer(contender):
        assert layer is not None, "a layer of one's own comes with its place"
        return make_user_contender(contender, layer, workload, weights, x)
    return make_contender(contender, workload, weights, x)


def _seconds(call: Callable[[], object], device: Device) -> float:
    began = time.perf_counter()
    call()
    device.synchronize()
    return time.perf_counter() - began


def _start_threads() -> None:
    """Has the threads made before the limit: what they cannot be given ends the process."""
    torch.ones(POOL_SIZE, POOL_SIZE) @ torch.ones(POOL_SIZE, POOL_SIZE)


def _memory_mib(name: str) -> float | None:
    """A size from this process's own status file; None where there is none."""
    try:
        lines = OWN_STATUS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith(f"{name}:")), "")
    digits = found.removeprefix(f"{name}:").removesuffix("kB").strip()
    return int(digits) / 1024 if digits.isdecimal() else None
