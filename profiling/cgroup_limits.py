"""What a container lets this process have, and whom it ended for want of memory, by Linux's control groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from profiling.kernel_files import text_of

CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
MACHINE_COUNTS = Path("/proc/vmstat")
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


def memory_room_mib(groups: Path = CGROUPS, own: Path = OWN_GROUPS) -> float | None:
    """MiB that this process's groups may still take, the tightest of them; None where nothing limits it.

    What a group holds of files alone is given back as soon as something else is wanted: it counts as free.
    """
    rooms = [room for folder in _folders("memory", groups, own) if (room := _room(folder)) is not None]
    return min(rooms) / 2**20 if rooms else None


@dataclasses.dataclass(frozen=True)
class OomKills:
    """How many processes the kernel has ended for want of memory, as far as it says.

    `is_of_group`: those of this process's own group; else those of the whole machine.
    """

    count: int = 0
    is_of_group: bool = False


def oom_kills(groups: Path = CGROUPS, own: Path = OWN_GROUPS, machine: Path = MACHINE_COUNTS) -> OomKills:
    """The kernel's count for this process's own group, else for the machine; 0 where it says nothing."""
    for folder in reversed(list(_folders("memory", groups, own))):
        # The groups above count their other members too: the nearest one that counts is the one to read.
        for file in ("memory.events", "memory.oom_control"):
            count = _count(folder / file, "oom_kill")
            if count is not None:
                return OomKills(count, is_of_group=True)
    return OomKills(_count(machine, "oom_kill") or 0)


def _quota(folder: Path) -> float | None:
    quota, _, period = text_of(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = text_of(folder / "cpu.cfs_quota_us"), text_of(folder / "cpu.cfs_period_us")
    # `max`, and -1 in the first version, are no limit.
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else None


def _folders(controller: str, groups: Path, own: Path) -> Iterator[Path]:
    """The folders of this process's group and of those above it, in which a controller's files lie."""
    for line in text_of(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue  # in the first version each controller has a tree of its own; in the second they share one
        # A container sees its own group as the root of the tree, under whatever path it is told to have.
        parts = [part for part in group.split("/") if part not in ("", "..")]
        yield from (groups.joinpath(controllers, *parts[:depth]) for depth in range(len(parts) + 1))


def _room(folder: Path) -> int | None:
    versions = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    for limit, used in ((_number(folder / limit), _number(folder / used)) for limit, used in versions):
        if limit is not None and used is not None and limit < NO_LIMIT_BYTES:
            of_files = _count(folder / "memory.stat", "total_inactive_file")
            if of_files is None:  # so it is called in the second version
                of_files = _count(folder / "memory.stat", "inactive_file") or 0
            return max(0, limit - max(0, used - of_files))
    return None


def _count(path: Path, name: str) -> int | None:
    counts = dict(line.split(maxsplit=1) for line in text_of(path).splitlines() if " " in line.strip())
    text = counts.get(name, "").strip()
    return int(text) if text.isascii() and text.isdecimal() else None


def _number(path: Path) -> int | None:
    text = text_of(path)
    return int(text) if text.isdecimal() else None
