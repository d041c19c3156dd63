"""What a sweep may go on with: the run already in a folder, what of it is measured, and whether it still fits."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

from profiling.columns import MEASUREMENT_COLUMNS, STATUSES
from profiling.folder_lock import is_free, require_unheld
from profiling.measurer import SOURCE_CHANGED
from profiling.runs import MEASUREMENTS_FILE, Run, RunError, is_here, read_rows, read_run, step_of
from profiling.safe_files import reason_of

# Facts of the environment that decide what is measured: with another one the times would be of another kind.
DECISIVE_FACTS = (
    *("torch_version", "device_name", "cpu_capability", "blas"),
    *("matmul_precision", "cuda_allow_tf32", "cudnn_allow_tf32", "deterministic"),
    *("allocator", "heap_pinned"),
)

_SIZES = ("batch_size", "seq_len", "num_heads", "d_model")
_SIZE = re.compile(r"[1-9][0-9]{0,17}")


def refuse_mismatch(stored: Run, current: Run) -> None:
    """Raises RunError where a run cannot go on as it began: rows of two kinds would stand side by side.

    More replicates are no difference: they extend the run. Nor is what is measured in spite of its estimate.
    """
    then, here = stored.settings.replicates, current.settings.replicates
    free = {"replicates": here, "anyway": current.settings.anyway}  # what may differ
    pairs = [
        ("schema version", stored.schema_version, current.schema_version),
        ("grid", stored.grid.to_dict(), current.grid.to_dict()),
        ("settings", stored.settings.to_dict() | free, current.settings.to_dict()),
        ("device", stored.device, current.device),
        ("threads", stored.threads, current.threads),
        *(
            (fact.replace("_", " "), stored.environment[fact], current.environment.get(fact))
            for fact in DECISIVE_FACTS
            if fact in stored.environment  # an earlier version of this program kept fewer
        ),
        *((f"source of {name}", stored.sources.get(name), hash_) for name, hash_ in current.sources.items()),
    ]
    for what, before, after in pairs:
        if before != after:
            raise RunError(f"run {stored.run_id} cannot be resumed: its {what} {_difference(before, after)}")
    if here < then:
        raise RunError(
            f"run {stored.run_id} cannot be resumed: replicates must be at least the {then} that it has, not {here}"
        )


def commits_measured_at(stored: Run | None, commit: str | None) -> str | None:
    """The commits that a run's rows were measured at, in order: one that was gone on with may have several.

    Args:
        stored: the run as it was before; None for a new one.
        commit: where what is missing will be measured; None where that is not known, or nothing is missing.
    """
    earlier = stored.environment.get("commit") if stored is not None else None
    commits = [*(earlier.split(", ") if isinstance(earlier, str) else ()), *([commit] if commit else ())]
    return ", ".join(dict.fromkeys(commits)) or None


def _difference(before: object, after: object) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        name = next(key for key in after if before.get(key) != after[key])
        return f"had {name} {before.get(name)!r}, now {after[name]!r}"
    return f"was {before!r}, now {after!r}"


def stored_run(folder: Path, *, resume: bool, is_locked: bool = False) -> Run | None:
    """The run to go on with, or None where the folder is free for a new one.

    Args:
        folder: where the run lies, or will lie.
        resume: whether one is to be gone on with.
        is_locked: whether the caller holds the folder's lock.

    Raises:
        RunError: a run is there and `resume` is not asked for, or the other way round, or it is still running.
    """
    try:
        stored = read_run(folder)
    except RunError:
        if resume:
            raise
        try:
            is_taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        except OSError as error:
            raise RunError(f"{folder} cannot be read: {reason_of(error)}") from error
        if is_taken:
            if not is_locked:  # what is there may be the first of what another sweep writes
                require_unheld(folder)
            raise RunError(f"{folder} is not empty and holds no run: give a new folder") from None
        return None
    if not resume:
        raise RunError(f"{folder} already holds run {stored.run_id}: give --resume to go on with it, or a new folder")
    # This very process may have been unable to say that it ended: the disk was full.
    is_left_over = stored.pid == os.getpid() and is_here(stored) and (is_locked or is_free(folder))
    if stored.state == "running" and not is_left_over:
        place = "" if is_here(stored) else " on another machine"
        whom = f"process {stored.pid}{place}, since {stored.started_at}"
        raise RunError(f"run {stored.run_id} is still running ({whom}): it cannot be resumed")
    return stored


def finished_steps(
    folder: Path, contenders: Sequence[str], *, num_replicates: int, num_points: int
) -> set[tuple[int, int]]:
    """The (replicate, point) pairs of the grid with a row for every contender.

    A row that was refused because its source had changed is none: now that a run goes on, the source is as it was.
    """
    seen: dict[tuple[int, int], set[str]] = {}
    for row in read_rows(folder / MEASUREMENTS_FILE, MEASUREMENT_COLUMNS):
        is_damaged = row["status"] not in STATUSES or not all(_SIZE.fullmatch(row[name]) for name in _SIZES)
        is_damaged |= row["status"] == "ok" and not _is_time(row["latency_median_ms"])
        if (step := step_of(row)) is None or is_damaged:  # what no reader shows is not there
            continue
        if not row["status_reason"].startswith(SOURCE_CHANGED):
            seen.setdefault(step, set()).add(row["contender"])
    return {
        (replicate, point)
        for (replicate, point), names in seen.items()
        if names >= set(contenders) and 1 <= replicate <= num_replicates and 1 <= point <= num_points
    }


def _is_time(cell: str) -> bool:
    """Whether a cell holds a time that can have been measured."""
    try:
        return 0 < float(cell) < math.inf
    except ValueError:
        return False
