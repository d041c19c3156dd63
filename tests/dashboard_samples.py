"""Run folders as a sweep leaves them, with every kind of row, for the tests of the page."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import psutil

from profiling.run_writer import RunWriter
from profiling.runs import Progress, Run
from profiling.settings import SweepSettings, reference_of
from profiling.workload import Grid, Workload

# How a contender's time and memory compare with the official layer's default call.
SPEED = {"custom": 0.74, "custom-fused": 0.50, "official": 1.0, "official-fused": 0.64}
OWN_SPEED = 1.7
MEMORY = {"custom": 0.57, "custom-fused": 0.30, "official": 1.0, "official-fused": 0.31}


def cells(workload: Workload, contender: str, **changes: Any) -> dict[str, Any]:
    """A row's measured cells, made up but alike: the time grows with the work."""
    b, s, h, d = workload.batch_size, workload.seq_len, workload.num_heads, workload.d_model
    official_ms = 0.12 + 2.2e-10 * (8 * b * s * d * d + 4 * b * s * s * d) / 40
    time_ms = official_ms * SPEED.get(contender, OWN_SPEED) * (1 + 0.01 * h)
    reference = reference_of(contender)
    row = {
        "status": "ok",
        "latency_median_ms": time_ms,
        "latency_p25_ms": time_ms * 0.96,
        "latency_p75_ms": time_ms * 1.07,
        "latency_p5_ms": time_ms * 0.93,
        "latency_p95_ms": time_ms * 1.3,
        "num_samples": 31,
        "calls_per_sample": 2,
        "stop_reason": "time budget spent",
        "throughput_tokens_per_s": b * s / time_ms * 1e3,
        "achieved_gflop_per_s": 8 * b * s * d * d / time_ms / 1e6,
        "peak_memory_mib": (b * h * s * s * 4 / 2**20 + b * s * d * 20 / 2**20) * MEMORY.get(contender, 1.0),
        "max_abs_error_oracle": 1.5e-7,
        "kernel": "math" if "fused" not in contender else "flash",
        "source_hash": "0123456789ab",
        "measured_at": "2026-03-01T19:08:31+00:00",
    }
    if reference is not None:
        row |= {"speedup": SPEED[reference] / SPEED.get(contender, OWN_SPEED) * (1 + 0.02 * math.sin(s + 3 * b + h))}
        row |= {"max_abs_error": 0.0, "error_ratio": 0.98, "check_verdict": "pass"}
        row |= {"clone_speedup": 0.992, "noise_floor": 1 / 0.992 - 1}
    return {**row, **changes}


def without_numbers(status: str, reason: str) -> dict[str, Any]:
    """The measured cells of a row that has none."""
    return {"status": status, "status_reason": reason}


def make_run(
    folder: Path,
    *,
    grid: Grid | None = None,
    settings: SweepSettings | None = None,
    state: str = "finished",
    done: int | None = None,
    changes: dict[tuple[int, str], dict[str, Any]] | None = None,
    num_rounds: int = 0,
    **fields: Any,
) -> Run:
    """Writes a run folder with its first `done` points measured in every replicate of the settings.

    `changes` by (point, contender) replace cells. With `num_rounds` the samples behind them are there as well.
    """
    grid = grid or Grid(batch_size=(1, 4), seq_len=(128, 512), num_heads=(4, 8), d_model=512, device="cpu")
    settings = settings or SweepSettings()
    workloads = list(grid.workloads(device="cpu", threads=2))
    done = len(workloads) if done is None else done
    process = psutil.Process(os.getpid())
    given = {
        "run_id": folder.name,
        "state": state,
        "state_reason": "",
        "started_at": "2026-03-01T19:08:11+00:00",
        "updated_at": "2026-03-01T19:08:31+00:00",
        "ended_at": None,
        "grid": grid,
        "settings": settings,
        "device": "cpu",
        "threads": 2,
        "environment": {"torch_version": "2.13.0", "device_name": "Test CPU", "python_version": "3.11.2"},
        "sources": {},
        "progress": Progress(done=done, total=len(workloads), label=workloads[min(done, len(workloads) - 1)].label),
        "pid": process.pid,
        "process_started": process.create_time(),
    }
    writer = RunWriter(folder, Run(**{**given, **fields}))
    rows, samples = [], []
    for replicate in range(1, settings.replicates + 1):
        for point, workload in enumerate(workloads[:done], start=1):
            found = point_rows(folder.name, point, workload, settings, changes or {}, replicate=replicate)
            rows += found
            samples += sample_rows(found, num_rounds)
    # At once: a big run would wait for the disk at every point.
    writer.append_samples(samples)
    writer.append_measurements(rows)
    return writer.run


def point_rows(
    run_id: str,
    point: int,
    workload: Workload,
    settings: SweepSettings,
    changes: dict[tuple[int, str], dict[str, Any]],
    *,
    replicate: int = 1,
) -> list[dict[str, Any]]:
    """The rows of one point, one a contender; from replicate to replicate speed-ups move by half a per cent or so."""
    rows = [
        {
            **{"run_id": run_id, "replicate": replicate, "point": point, **workload.to_dict()},
            **{"head_dim": workload.head_dim, "contender": name, "reference": settings.reference_of(name)},
            **_measured(workload, name, changes.get((point, name), {})),
        }
        for name in settings.contenders
    ]
    for row in rows:
        if row.get("speedup") is not None:
            row["speedup"] *= 1 + 0.005 * math.sin(2.3 * (replicate - 1))
    return rows


def sample_rows(rows: list[dict[str, Any]], num_rounds: int) -> list[dict[str, Any]]:
    """Times round by round whose medians, and those of their ratios, are nearly what the rows say."""
    measured = {row["contender"]: row for row in rows if row["status"] == "ok"}
    times = {name: row["latency_median_ms"] for name, row in measured.items()}
    for name, row in measured.items():
        if row["reference"] in times and row.get("speedup"):
            times[name] = times[row["reference"]] / row["speedup"]
            times[f"clone:{row['reference']}"] = times[row["reference"]] / row["clone_speedup"]
    return [
        {
            **{name: rows[0][name] for name in ("run_id", "replicate", "point")},
            **{"contender": name, "round": number, "latency_ms": time_ms * _jitter(number, order)},
        }
        for order, (name, time_ms) in enumerate(times.items())
        for number in range(1, num_rounds + 1)
    ]


def _jitter(number: int, order: int) -> float:
    """What moves all contenders of a round, what moves each, and an outlier now and then."""
    outlier = 0.6 if (number + 7 * order) % 41 == 0 else 0.0
    return 1 + 0.03 * math.sin(0.4 * number) + 0.012 * math.sin(2.7 * number + 1.9 * order) + outlier


def _measured(workload: Workload, contender: str, changed: dict[str, Any]) -> dict[str, Any]:
    if workload.invalid_reason:
        return without_numbers("invalid", workload.invalid_reason)
    return changed if changed.get("status", "ok") != "ok" else cells(workload, contender, **changed)
