"""What this process holds of the machine's own memory, and a limit on it; Linux alone tells and can be told."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

OWN_STATUS = Path("/proc/self/status")


def status_bytes(name: str, path: Path = OWN_STATUS) -> int | None:
    """A size from this process's own status file, such as `VmData` or `VmHWM`; None where there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith(f"{name}:")), "")
    digits = found.removeprefix(f"{name}:").removesuffix("kB").strip()
    return int(digits) * 1024 if digits.isdecimal() else None


def limit_data(limit_bytes: int | None) -> bool:
    """Lets this process hold so many bytes in all, and no more; None for no limit. Whether it could be told so.

    From then on an allocation that would go beyond is refused, as by a machine without memory, and can be told from
    other faults. Linux counts what is allocated, written to or not: `VmData` of `status_bytes`.
    """
    if sys.platform != "linux" or status_bytes("VmData") is None:
        return False
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (limit_bytes, hard) if limit not in (None, resource.RLIM_INFINITY)]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits, default=hard), hard))
        return True
    return False
