"""What torch computes with here: libraries, instruction set, threads, precision, and the heap of this very process."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from profiling.child_process import PINNED_HEAP, can_pin_heap

OWN_MAPS = Path("/proc/self/maps")
# As torch's build calls them.
BLAS_NAMES = {"mkl": "MKL", "open": "OpenBLAS", "accelerate": "Accelerate", "flexi": "FlexiBLAS", "eigen": "Eigen"}
_ALLOCATORS = re.compile(r"/lib(jemalloc|tcmalloc|mimalloc)[^/]*$", re.MULTILINE)


def torch_environment(device: str) -> dict[str, Any]:
    """Facts by name; None where this torch, or this device, does not have or tell them.

    Args:
        device: torch's name of the device that is measured, such as `cpu` or `cuda:0`.
    """
    config, capability = torch.__config__.show(), told(lambda: torch.backends.cpu.get_cpu_capability())
    return {
        "torch_commit": (torch.version.git_version or "")[:12] or None,
        "torch_interop_threads": torch.get_num_interop_threads(),
        "blas": accelerator_blas(device) if device != "cpu" else cpu_blas(config, capability),
        "onednn_version": onednn_version(config),
        "openmp_version": openmp_version(config),
        "cpu_capability": capability,
        "matmul_precision": told(torch.get_float32_matmul_precision),
        "cuda_allow_tf32": told(lambda: torch.backends.cuda.matmul.allow_tf32),
        "cudnn_allow_tf32": told(lambda: torch.backends.cudnn.allow_tf32),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        **cuda_facts(device),
        "allocator": allocator(),
        "heap_pinned": is_heap_pinned(os.environ, allocator()),
    }


def told(ask: Callable[[], Any]) -> Any:
    """What torch answers; None where it has no such question, no such device, or refuses: settings of two kinds."""
    try:
        return ask()
    except (AttributeError, AssertionError, RuntimeError, NotImplementedError):
        return None


def cpu_blas(config: str, capability: str | None) -> str | None:
    """The libraries behind matrix products on the CPU, in short: `MKL 2024.2, oneDNN 3.12.0, AVX512`.

    Args:
        config: what `torch.__config__.show()` gives.
        capability: the instruction set that torch's own kernels use.
    """
    built = re.search(r"\bBLAS_INFO=(\w+)", config)
    name = BLAS_NAMES.get(built[1], built[1]) if built else None
    version = re.search(r"Math Kernel Library Version (\d[\w.]*)", config) if name == "MKL" else None
    onednn = onednn_version(config)
    parts = [f"{name} {version[1]}" if version else name, onednn and f"oneDNN {onednn}", capability]
    return ", ".join(part for part in parts if part) or None


def accelerator_blas(device: str) -> str | None:
    """The library behind matrix products on an accelerator; None where it is not known."""
    kind = device.partition(":")[0]
    if kind == "cuda":
        hip, cuda = torch.version.hip, torch.version.cuda
        return f"hipBLAS, ROCm {hip}" if hip else f"cuBLAS, CUDA {cuda}" if cuda else None
    return "Metal Performance Shaders" if kind == "mps" else None


def onednn_version(config: str) -> str | None:
    """The version of oneDNN (once MKL-DNN) that torch was built with."""
    return _first(r"MKL-DNN v(\d[\w.]*)", config)


def openmp_version(config: str) -> str | None:
    """The version of OpenMP that torch was built with."""
    return _first(r"OpenMP \d+ \(a\.k\.a\. OpenMP ([\d.]+)\)", config)


def cuda_facts(device: str) -> dict[str, Any]:
    """The versions of CUDA and cuDNN, ROCm's, and the device's compute capability; all None elsewhere."""
    is_cuda = device.partition(":")[0] == "cuda"
    capability = told(lambda: torch.cuda.get_device_capability(device)) if is_cuda else None
    return {
        "cuda_version": torch.version.cuda,
        "hip_version": torch.version.hip,
        "cudnn_version": told(torch.backends.cudnn.version) if is_cuda else None,
        "compute_capability": ".".join(map(str, capability)) if capability else None,
    }


def allocator(maps: Path = OWN_MAPS) -> str | None:
    """The allocator of this process: one that was put before libc's, else libc's own; None where it is not known."""
    try:
        found = _ALLOCATORS.search(maps.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        found = None
    return found[1] if found else " ".join(platform.libc_ver()).strip() or None


def is_heap_pinned(environment: Mapping[str, str], allocator: str | None) -> bool:
    """Whether freed memory really stays in this process: it was asked for, and the allocator is one that takes it."""
    is_asked = all(environment.get(name) == value for name, value in PINNED_HEAP.items())
    return is_asked and can_pin_heap() and (allocator or "").startswith("glibc")


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None
