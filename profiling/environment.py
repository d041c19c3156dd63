"""What a run was measured on: read once, kept with the run, so that a stranger can judge and repeat it. No torch.

Nothing in it says whose machine it is: no host or user name, no folder.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from profiling.cgroup_limits import memory_limit_mib, quota_cores
from profiling.cpu_clocks import clock_facts

ROOT = Path(__file__).resolve().parent.parent
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")

# Variables that change how fast, or by which program, torch computes.
_SPEED_VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|VECLIB|ONEDNN|DNNL|ATEN|TORCH|TORCHINDUCTOR|PYTORCH|CUDA|CUBLAS|CUDNN|HIP|ROCR"
    r"|MALLOC|MIMALLOC|TCMALLOC)_\w+|NVIDIA_TF32_OVERRIDE|GLIBC_TUNABLES"
)
# Libraries put before all others, an allocator for instance: their names are kept, not where they lie.
_PRELOADS = ("LD_PRELOAD", "DYLD_INSERT_LIBRARIES")
_SECRETS = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|(^|_)KEY(_|$)")
_PATH_KEPT_BACK = "(a path)"
_MAX_VARIABLE = 200


def host_environment() -> dict[str, Any]:
    """The machine, the Python and the commit; what torch knows is added by the measuring child. None: not told."""
    return {
        "mha_bench_version": own_version(),
        "python_version": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "os": os_name(),
        "platform": f"{platform.system()} {platform.machine()}",
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "cpu_name": cpu_name(),
        "num_cores": _told(lambda: psutil.cpu_count(logical=False)),
        "num_threads": _told(lambda: psutil.cpu_count(logical=True)),
        "usable_threads": usable_threads(),
        "quota_cores": quota_cores(),
        "memory_mib": _told(lambda: psutil.virtual_memory().total // 2**20),
        "memory_limit_mib": memory_limit_mib(),
        **clock_facts(),
        "nvidia_driver": nvidia_driver(),
        "variables": speed_variables(os.environ),
        "commit": commit(),
    }


def _told(ask: Callable[[], int | None]) -> int | None:
    try:
        return ask()
    except (psutil.Error, OSError, RuntimeError, NotImplementedError):  # no /proc, or none that may be read
        return None


def own_version() -> str | None:
    """The version of mha-bench as it is installed; None where it runs from a folder that nobody installed."""
    try:
        return importlib.metadata.version("mha-bench")
    except importlib.metadata.PackageNotFoundError:
        return None


def os_name() -> str:
    """The operating system and its version, as it calls itself."""
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.version()}"


def cpu_name() -> str:
    """The processor's model name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def usable_threads() -> int | None:
    """Logical processors that this process may run on; None where the system has no such limit."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux and few others
    return len(affinity(0)) if affinity is not None else None


def nvidia_driver(path: Path = NVIDIA_DRIVER) -> str | None:
    """The version of NVIDIA's driver in the kernel; None without one."""
    try:
        found = re.search(r"NVRM version:.*?\s(\d+(?:\.\d+)+)\s", path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return found[1] if found else None


def speed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are set and change speed, by name; where a value is a path, only that it is one."""
    kept = {
        name: _PATH_KEPT_BACK if re.search(r"[/\\~@]", value) else value[:_MAX_VARIABLE]
        for name, value in environment.items()
        if _SPEED_VARIABLES.fullmatch(name) and not _SECRETS.search(name)
    }
    for name in _PRELOADS:
        libraries = [re.split(r"[/\\]", path)[-1] for path in re.split(r"[:\s]+", environment.get(name, "")) if path]
        if libraries:
            kept[name] = " ".join(libraries)[:_MAX_VARIABLE]
    return dict(sorted(kept.items()))


def commit() -> str | None:
    """The commit of this checkout, `-dirty` where tracked files differ from it; None without git or outside of one."""
    described = _git("rev-parse", "--short=12", "HEAD")
    if described is None:
        return None
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return described + ("-dirty" if changed else "")


def _git(*arguments: str) -> str | None:
    # Without locks: a look must not stand in the way of a commit, nor leave a lock behind where it is ended.
    command = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
