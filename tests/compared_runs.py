"""Pairs of runs of which it is known what changed from one to the other, for the tests of the comparison."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from made_up_runs import ENVIRONMENT, lost_row, make_row, write_run

from profiling.settings import SweepSettings

SETTINGS = SweepSettings(contenders=("custom", "official"), replicates=5, time_budget_s=0.02)
REFERENCE_MS = 3.0
SPEEDUP = 1.5


def planted_run(
    folder: Path,
    *,
    slowdown: float = 1.0,
    machine: float = 1.0,
    noise: float = 0.004,
    replicates: int = 5,
    seed: int = 7,
    lost: dict[tuple[str, int], str] | None = None,
    cells: dict[tuple[str, int], dict[str, Any]] | None = None,
    environment: dict[str, Any] | None = None,
    **fields: Any,
) -> Path:
    """A run of custom and official at two points, in which custom is slower and the machine is.

    Args:
        folder: where it lies.
        slowdown: how many times as long custom takes.
        machine: how many times as long everything takes.
        noise: deviation of the logarithm of each ratio from replicate to replicate.
        replicates: how many there are.
        seed: of the noise.
        lost: (contender, point) → status of a row that has no numbers.
        cells: (contender, point) → cells to be otherwise in every replicate.
        environment: fields to be otherwise; None takes one away.
        fields: of the run.
    """
    draw = random.Random(seed)
    rows = []
    for replicate in range(1, replicates + 1):
        for point in (1, 2):
            place = {"replicate": replicate, "point": point}
            ratio, clone = (math.exp(draw.gauss(0, noise)) for _ in range(2))
            reference_ms = REFERENCE_MS * machine * point * math.exp(draw.gauss(0, noise))
            speedup = SPEEDUP / slowdown * ratio
            own: dict[str, dict[str, Any]] = {
                "custom": {
                    "latency_median_ms": reference_ms / speedup,
                    "speedup": speedup,
                    "clone_speedup": clone,
                    "noise_floor": math.exp(abs(math.log(clone))) - 1,
                },
                "official": {"latency_median_ms": reference_ms},
            }
            for name, changes in own.items():
                status = (lost or {}).get((name, point))
                if status is not None:
                    rows.append(lost_row(name, status, "a reason of its own", **place))
                else:
                    changes |= (cells or {}).get((name, point), {})
                    rows.append(make_row(name, **place, run_id=folder.name, **changes))
    said = {**ENVIRONMENT, **(environment or {})}
    run = {"run_id": folder.name, "settings": SETTINGS, "environment": said} | fields
    return write_run(folder, rows, **run)


def without_reference(point: int) -> dict[str, Any]:
    """What a run lacks at a point whose reference was lost: `lost` and `cells` of `planted_run`."""
    no_ratio = {"speedup": None, "clone_speedup": None, "noise_floor": None}
    return {"lost": {("official", point): "oom"}, "cells": {("custom", point): no_ratio}}
