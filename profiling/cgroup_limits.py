"""What a container lets this process have: its share of the processor and of the memory, by Linux's control groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
# The first version of control groups writes about 2^63 bytes where nothing is limited.
NO_LIMIT_BYTES = 2**60


def quota_cores(groups: Path = CGROUPS, own: Path = OWN_GROUPS) -> float | None:
    """Cores' worth of time that this process's groups may use, the tightest of them; None where nothing limits it."""
    found = [cores for folder in _folders("cpu", groups, own) if (cores := _quota(folder)) is not None]
    return min(found, default=None)


def memory_limit_mib(groups: Path = CGROUPS, own: Path = OWN_GROUPS) -> int | None:
    """MiB that this process's groups may hold, the tightest of them; None where nothing limits it."""
    files = ("memory.max", "memory.limit_in_bytes")
    sizes = [_number(folder / file) for folder in _folders("memory", groups, own) for file in files]
    found = [size for size in sizes if size is not None and size < NO_LIMIT_BYTES]
    return min(found) // 2**20 if found else None


def _quota(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    # `max`, and -1 in the first version, are no limit.
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else None


def _folders(controller: str, groups: Path, own: Path) -> Iterator[Path]:
    """The folders of this process's group and of those above it, in which a controller's files lie."""
    for line in _text(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue  # in the first version each controller has a tree of its own; in the second they share one
        # A container sees its own group as the root of the tree, under whatever path it is told to have.
        parts = [part for part in group.split("/") if part not in ("", "..")]
        yield from (groups.joinpath(controllers, *parts[:depth]) for depth in range(len(parts) + 1))


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
