"""The processor's clock before a run: now, its range, what governs it. Empty where the system does not tell."""

from __future__ import annotations

import re
from pathlib import Path

from profiling.kernel_files import text_of

CPUS = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")


def clock_facts(cpus: Path = CPUS, cpuinfo: Path = CPUINFO) -> dict[str, float | str | bool | None]:
    """`clock_now_mhz`, `clock_min_mhz`, `clock_max_mhz`, `clock_governor` of the first core; `turbo`: whether it is on.

    One core, since to ask a core for its clock may wake it: on a large machine asking all of them takes a second.
    """
    first = cpus / "cpu0" / "cpufreq"
    return {
        "clock_now_mhz": _mhz(first / "scaling_cur_freq") or _mhz_of_cpuinfo(cpuinfo),
        "clock_min_mhz": _mhz(first / "cpuinfo_min_freq"),
        "clock_max_mhz": _mhz(first / "cpuinfo_max_freq"),
        "clock_governor": text_of(first / "scaling_governor") or None,
        "turbo": _turbo(cpus),
    }


def _turbo(cpus: Path) -> bool | None:
    """Whether cores may run above their nominal clock: Intel's driver says when they may not, others when they may."""
    forbidden, allowed = text_of(cpus / "intel_pstate" / "no_turbo"), text_of(cpus / "cpufreq" / "boost")
    if forbidden in ("0", "1"):
        return forbidden == "0"
    return allowed == "1" if allowed in ("0", "1") else None


def _mhz(path: Path) -> float | None:
    text = text_of(path)  # kHz
    return int(text) / 1000 if text.isdecimal() and int(text) else None


def _mhz_of_cpuinfo(path: Path) -> float | None:
    found = re.search(r"^cpu MHz\s*:\s*(\d+(?:\.\d+)?)\s*$", text_of(path), re.MULTILINE)
    return float(found[1]) or None if found else None
