"""What a run was measured on: read once, kept with the run, so that a stranger can judge and repeat it. No torch."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent


def host_environment() -> dict[str, str | int | None]:
    """The machine, the Python and the commit; what torch knows is added by the measuring child."""
    return {
        "python_version": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "kernel": platform.release(),
        "cpu_name": cpu_name(),
        "num_cores": psutil.cpu_count(logical=False),
        "num_threads": psutil.cpu_count(logical=True),
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "commit": commit(),
    }


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


def commit() -> str | None:
    """The commit of this checkout, `-dirty` where tracked files differ from it; None without git or outside of one."""
    described = _git("rev-parse", "--short=12", "HEAD")
    if described is None:
        return None
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return described + ("-dirty" if changed else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
