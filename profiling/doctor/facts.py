"""Facts about this machine, gathered without torch; what the machine does not tell is None, and none raises."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil

from profiling.child_process import can_pin_heap
from profiling.costs import MIB
from profiling.device_lock import Owner, owners, require_locks
from profiling.disk_room import nearest_there, require_writable
from profiling.environment import host_environment
from profiling.memory_estimate import free_memory_mib
from profiling.runs import RunError, results_dir

T = TypeVar("T")

CPUINFO = Path("/proc/cpuinfo")
PROFILE = Path("/sys/firmware/acpi/platform_profile")
COMPILERS = ("g++", "clang++", "c++")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What the probes look at.

    Attributes:
        host: as `profiling.environment.host_environment` tells.
        torch: as the measuring process tells (`profiling.measuring.abilities`); None where it was not asked or failed.
        torch_error: why it gave no answer; empty where it did, or was not asked.
        owners: who measures now.
        free_mib, swap_mib: memory that is free for a new process; swap in use.
        load: processes ready to run, 1-minute average.
        is_on_battery: whether the machine runs on one now.
        profile: what the firmware saves power by, such as `low-power`.
        is_guest: whether the processor is that of a virtual machine.
        compiler: the C++ compiler that torch.compile would find; empty where there is none.
        can_pin: whether this platform's allocator can be told to keep freed memory.
        results: the folder of the runs; `results_error` says why nothing can be written there.
        results_free_mib, results_system: room on its disk, and the kind of its file system.
        temp_error: why nothing can be kept in the temporary folder, where the devices' locks lie.
    """

    host: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    torch: Mapping[str, Any] | None = None
    torch_error: str = ""
    owners: tuple[Owner, ...] = ()
    free_mib: float | None = None
    swap_mib: float | None = None
    load: float | None = None
    is_on_battery: bool | None = None
    profile: str | None = None
    is_guest: bool | None = None
    compiler: str | None = None
    can_pin: bool = False
    results: str = ""
    results_error: str = ""
    results_free_mib: float | None = None
    results_system: str | None = None
    temp_error: str = ""


def gather() -> Facts:
    """The facts of this machine, now, without those of torch."""
    folder = results_dir()
    return Facts(
        host=told(host_environment) or {},
        owners=tuple(told(owners) or ()),
        free_mib=told(free_memory_mib),
        swap_mib=told(lambda: psutil.swap_memory().used / MIB),
        load=told(lambda: os.getloadavg()[0]),
        is_on_battery=told(on_battery),
        profile=told(lambda: PROFILE.read_text(encoding="ascii").strip()),
        is_guest=told(is_guest),
        compiler=told(compiler),
        can_pin=bool(told(can_pin_heap)),
        results=str(folder),
        results_error=error_of(lambda: require_writable(folder)),
        results_free_mib=told(lambda: shutil.disk_usage(nearest_there(folder)).free / MIB),
        results_system=told(lambda: file_system(nearest_there(folder))),
        temp_error=error_of(require_locks),
    )


def told(ask: Callable[[], T]) -> T | None:
    """The answer, or None where the question cannot be answered here."""
    try:
        return ask()
    except Exception:  # of a hundred kinds of machines each refuses in its own way; a doctor does not fall ill
        return None


def error_of(attempt: Callable[[], object]) -> str:
    """Why it cannot be done; empty where it can."""
    try:
        attempt()
    except (RunError, OSError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def on_battery() -> bool | None:
    """Whether the machine runs on its battery; None without one."""
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return None if battery is None or battery.power_plugged is None else not battery.power_plugged


def is_guest(cpuinfo: Path = CPUINFO) -> bool | None:
    """Whether the processor says that it is a virtual machine's; None where it does not list what it has."""
    text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    flags = next((line for line in text.splitlines() if line.startswith("flags")), None)
    return None if flags is None else "hypervisor" in flags.split()


def compiler() -> str:
    """The C++ compiler that torch.compile would find, by its name; empty where there is none."""
    named = os.environ.get("CXX")
    return next((name for name in ((named,) if named else COMPILERS) if shutil.which(name)), "")


def file_system(folder: Path) -> str | None:
    """The kind of file system that a folder lies on, such as `ext4` or `nfs4`."""
    path = folder.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else None
