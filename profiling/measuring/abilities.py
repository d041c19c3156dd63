"""What each device here can do, tried with the smallest of calls, and who takes the machine meanwhile: for `doctor`."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from mha import fast_path, official_layer
from mha.official import call_official
from profiling.measuring.contenders.kernels import FAST_PATH, observe_kernel
from profiling.measuring.devices import Device, available_devices
from profiling.measuring.disturbance.cpu_times import read_cpu_times, taken_between
from profiling.measuring.torch_environment import told, torch_environment
from profiling.wording import one_line
from profiling.workload import DTYPES

# How long it is watched what others take: fifty steps of the counters.
LOOK_S = 0.5
_REASON_WIDTH = 160


def abilities(devices: Sequence[Device] | None = None, *, look_s: float = LOOK_S) -> dict[str, Any]:
    """Facts of torch, of each device, and of the processors' other users; None where something cannot be told.

    Args:
        devices: those to try, the best first; None for all that are here.
        look_s: seconds for which the processors are watched while nothing is computed here.
    """
    tried = [_of_device(device) for device in (available_devices() if devices is None else devices)]
    before = read_cpu_times()
    time.sleep(look_s)
    taken = taken_between(before, read_cpu_times())
    facts = torch_environment("cpu")
    return {
        "torch_version": torch.__version__,
        "torch_threads": torch.get_num_threads(),
        "devices": tried,
        "taken_cores": None if taken is None else taken.others,
        "stolen_cores": None if taken is None else taken.stolen,
        "has_triton": importlib.util.find_spec("triton") is not None,
        **{name: facts[name] for name in ("allocator", "heap_pinned", "deterministic", "matmul_precision")},
    }


def _of_device(device: Device) -> dict[str, Any]:
    """What works is an empty text, what does not a reason; so a device that fails in one thing is not lost in all."""
    return {
        "name": device.name,
        "description": device.description,
        "dtypes": {name: _why_not(partial(_multiply, device, name)) for name in DTYPES},
        "fused": _why_not(partial(_attend, device)),
        "fast_path": _why_not(partial(_take_fast_path, device)),
        "no_peak_reason": device.no_peak_reason,
        "clock_step_s": told(lambda: device.clock_step_s),
        "clock_mhz": told(device.clock_mhz),
        "throttles": told(device.throttles) or {},
        "other_processes": told(device.other_processes),
    }


def _why_not(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except Exception as error:  # whatever a driver or a library raises: it is what has to be told
        return one_line(str(error) or type(error).__name__, _REASON_WIDTH)
    return ""


def _multiply(device: Device, dtype: str) -> None:
    left = torch.ones(3, 5, dtype=getattr(torch, dtype), device=device.torch_device)
    total = (left @ left.T).sum().item()
    if total != 45:
        raise ArithmeticError(f"a product of ones gives {total:g} where it should give 45")


def _attend(device: Device) -> None:
    q = torch.ones(1, 2, 3, 8, device=device.torch_device)
    if not torch.isfinite(F.scaled_dot_product_attention(q, q, q)).all():
        raise ArithmeticError("it gives what is not finite")


def _take_fast_path(device: Device) -> None:
    layer = official_layer(16, 2, bias=True, device=device.torch_device).eval()
    x = torch.ones(2, 3, 16, device=device.torch_device)
    with torch.inference_mode(), fast_path(True):
        program = observe_kernel(lambda: call_official(layer, x, need_weights=False))
    if program != FAST_PATH:
        raise NotImplementedError("torch takes another program here")
