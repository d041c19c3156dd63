"""How often Linux slowed the processor down: for heat, and because a container's quota of time was spent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

SYSFS = Path("/sys/devices/system/cpu")
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def heat_throttles(sysfs: Path = SYSFS) -> int | None:
    """Events of all cores and packages together since the machine started; None where the kernel counts none."""
    counts = [_number(path) for path in sysfs.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")]
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def quota_throttles(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> int | None:
    """Periods in which this process's control group, or one above it, had spent its quota; None where not counted.

    Both versions of control groups: in the first, those of the processor have a hierarchy of their own.
    """
    told = [count for path in _cpu_stats(cgroups, own) if (count := _nr_throttled(path)) is not None]
    return sum(told) if told else None


def _cpu_stats(cgroups: Path, own: Path) -> Iterator[Path]:
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / controllers
        # A container sees its own group as the root of the tree, under whatever path it is told to have.
        inside = [part for part in group.split("/") if part not in ("", "..")]
        yield from (root.joinpath(*inside[:depth], "cpu.stat") for depth in range(len(inside) + 1))


def _nr_throttled(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(" ")
        if key == "nr_throttled" and value.strip().isdigit():
            return int(value)
    return None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
