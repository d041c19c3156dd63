"""Whether a run can be written where it is meant to lie: asked before anything is measured."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from profiling.costs import MIB
from profiling.estimate import call_seconds
from profiling.runs import MEASUREMENTS_FILE, RUN_FILE, SAMPLES_FILE, RunError
from profiling.safe_files import reason_of
from profiling.settings import MIN_ROUNDS, SweepSettings
from profiling.units import format_mib
from profiling.workload import Workload

# A sample lasts at least so long (profiling.measuring.latency): more of them than this the time budget cannot hold.
SHORTEST_SAMPLE_S = 4e-3
# Of real runs, rounded up: a row with two warnings and its line in the report; a raw time with its place.
ROW_BYTES = 2_500
SAMPLE_BYTES = 70
# run.json, old and new at once.
RUN_BYTES = 64 * 1024


def require_writable(folder: Path) -> None:
    """Raises RunError where a run cannot be written into this folder, or the folder cannot be made."""
    try:
        there = nearest_there(folder)
        if not there.is_dir():
            raise RunError(f"{folder} cannot be a run's folder: {there} is no folder")
        with tempfile.TemporaryFile(dir=there):
            pass
        files = [folder / name for name in (RUN_FILE, MEASUREMENTS_FILE, SAMPLES_FILE)]
        whose = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
        locked = [path for path in files if path.exists() and not os.access(path, os.W_OK, **whose)]
    except ValueError as error:  # a null character
        raise RunError(f"{str(folder)!r} cannot be made: {error}") from error
    except OSError as error:
        raise RunError(f"{folder} cannot be written: {reason_of(error)}") from error
    if locked:
        raise RunError(f"{locked[0]} cannot be written: it is read-only")


def require_room(folder: Path, settings: SweepSettings, workloads: Iterable[Workload]) -> None:
    """Raises RunError where the disk has less room than these workloads will fill.

    Args:
        folder: where the run lies, or will lie.
        settings: how they are measured.
        workloads: each that is still to be measured, once for each replicate.
    """
    needed = needed_bytes(settings, workloads)
    try:
        free = shutil.disk_usage(nearest_there(folder)).free
    except OSError:  # a file system that does not say
        return
    if free < needed:
        raise RunError(
            f"the disk of {folder} has {format_mib(free / MIB)} free, and what is to be measured may fill "
            f"{format_mib(needed / MIB)}: make room, or ask for fewer points, replicates or a smaller time budget"
        )


def needed_bytes(settings: SweepSettings, workloads: Iterable[Workload]) -> int:
    """How much these workloads may write: rows, raw times, the report."""
    num_timed = len(settings.contenders) + len(settings.references)
    needed = RUN_BYTES
    for workload in workloads:
        needed += len(settings.contenders) * ROW_BYTES
        if workload.invalid_reason is None:
            sample_s = max(SHORTEST_SAMPLE_S, call_seconds(workload))
            num_rounds = max(MIN_ROUNDS, settings.time_budget_s / sample_s)
            needed += int(num_timed * num_rounds * SAMPLE_BYTES)
    return needed


def nearest_there(folder: Path) -> Path:
    """The folder itself, or the nearest above it that is there."""
    path = folder.absolute()
    while True:
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            path = path.parent
        else:
            return path
