"""Finds a crossover by measuring: each step of the search is a run of its own, so that nothing measured is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from profiling.child_process import ChildStopped, MeasuringError
from profiling.device_lock import DeviceBusy
from profiling.estimate import estimate, excess
from profiling.events import Event, Listener
from profiling.joining import FAILED
from profiling.laws.crossover_answer import Crossover
from profiling.laws.crossover_search import AXES, Plan, Probe, Step, next_step
from profiling.ratios import paired_speedup
from profiling.runs import RunError
from profiling.settings import CLONE, SweepSettings
from profiling.stopping import StopSwitch
from profiling.sweep import split_options, sweep
from profiling.table import load_measurements, load_samples
from profiling.workload import GridError

# Measures a step: what it found of each size, and the run's folder; None where nothing was written.
Prober = Callable[[Step], tuple[list[Probe], Path | None]]


def search(
    first: str,
    second: str,
    axis: str,
    plan: Plan,
    measure: Prober,
    *,
    budget_s: float | None = None,
    stop: StopSwitch | None = None,
    on_probe: Callable[[Probe], None] = lambda _: None,
    on_step: Callable[[Crossover], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Crossover:
    """Measures until the plan is fulfilled, the time is spent or someone asks to stop; then tells what is known.

    Args:
        first, second: the contenders.
        axis: of `AXES`.
        plan: what is searched, and how exactly.
        measure: measures a step.
        budget_s: seconds after which no further step is begun; None for no such limit.
        stop: a switch by which someone can end the search.
        on_probe: told of each size as it is known.
        on_step: told what is known after each step; where it raises RunError the search ends.
        clock: seconds; whatever moves in a test.
    """
    stop, began = stop or StopSwitch(), clock()
    known: dict[int, Probe] = {}
    folders: list[str] = []
    ended = ""

    def so_far(stopped: str = "") -> Crossover:
        probes = tuple(known[size] for size in sorted(known))
        return Crossover(first=first, second=second, axis=axis, probes=probes, stopped=stopped, folders=tuple(folders))

    while step := next_step(known.values(), plan):
        if budget_s is not None and clock() - began >= budget_s:
            ended = f"the {budget_s:g} s for it were spent"
            break
        try:
            probes, folder = measure(step)
        except ChildStopped:
            ended = stop.reason
            break
        except (MeasuringError, RunError, DeviceBusy) as error:
            if not known:
                raise
            ended = str(error)
            break
        folders += [] if folder is None else [str(folder)]
        before_it = dict(known)
        for probe in probes:
            before = known.get(probe.size)
            known[probe.size] = probe if before is None else before.joined_with(probe)
            on_probe(known[probe.size])
        try:
            on_step(so_far())
        except RunError as error:  # it cannot be kept any more, and is told all the same
            ended = str(error)
            break
        if stop.is_requested():
            ended = stop.reason
            break
        if known == before_it:  # else it would be asked for again and again
            ended = "the last step measured nothing"
            break
    if not ended and len(known) >= plan.max_sizes:
        ended = f"the {plan.max_sizes} sizes that it may measure were measured"
    return so_far(ended)


class SweepProber:
    """Measures the steps of a search, each by a sweep of its own: `step-1`, `step-2`, … in the search's folder.

    Args:
        first, second: the contenders; both, and what they are compared with, are measured in the same rounds.
        axis: of `AXES`.
        folder: of the search.
        options: fields of `Grid` and `SweepSettings` that hold at every size; not the axis, contenders, replicates.
        stop: a switch by which someone can end the sweep.
        on_event: told of each event of each sweep.

    Raises:
        GridError: an option breaks a rule.
    """

    def __init__(
        self,
        first: str,
        second: str,
        axis: str,
        folder: Path,
        options: Mapping[str, Any],
        *,
        stop: StopSwitch | None = None,
        on_event: Listener | None = None,
    ) -> None:
        if axis not in AXES:
            raise GridError(f"axis must be one of {', '.join(AXES)}, not {axis!r}")
        if first == second:
            raise GridError(f"contenders must be two different ones, not {first!r} twice")
        self._pair, self._axis = (first, second), axis
        self._options = {**options, "contenders": (first, second)}
        self._stop, self._on_event = stop or StopSwitch(), on_event or _ignore
        self._folder, self._num_steps = folder, 0
        grid, _ = split_options({**self._options, axis: (1,)})
        varied = [name for name in grid.swept_axes() if name != axis]
        if varied:
            raise GridError(
                f"{varied[0]} must have one value in a search along {axis}, not {len(getattr(grid, varied[0]))}"
            )

    def __call__(self, step: Step) -> tuple[list[Probe], Path | None]:
        """Measures a step. A size that cannot be measured here is told as lost, without being tried."""
        refused = {size: reason for size in step.sizes if (reason := self._refusal(size))}
        sizes = tuple(size for size in step.sizes if size not in refused)
        probes = [Probe(size=size, lost=reason) for size, reason in refused.items()]
        if not sizes:
            return probes, None
        self._num_steps += 1
        folder = self._folder / f"step-{self._num_steps}"
        sweep(self._of(sizes, step.replicates), folder, on_event=self._on_event, stop=self._stop)
        found = probes_of(folder, self._axis, *self._pair)
        return sorted([*probes, *found], key=lambda probe: probe.size), folder

    def _of(self, sizes: tuple[int, ...], replicates: int) -> dict[str, Any]:
        return {**self._options, self._axis: sizes, "replicates": replicates}

    def _refusal(self, size: int) -> str:
        """Why a size need not be tried: no layer has it, or the estimate speaks against it. Empty where it may be."""
        grid, settings = split_options(self._of((size,), 1))
        (workload,) = grid.workloads()
        if workload.invalid_reason:
            return f"invalid: {workload.invalid_reason}"
        return "" if settings.anyway else self._excess(grid, settings)

    @staticmethod
    def _excess(grid: Any, settings: SweepSettings) -> str:
        reason = excess(estimate(grid, settings, device=grid.device, threads=grid.threads or 1))
        return f"refused by the estimate: {reason}" if reason else ""


def probes_of(folder: Path, axis: str, first: str, second: str) -> list[Probe]:
    """What a run tells of two contenders at each size of an axis, from the times of its rounds.

    A replicate in which one of them was lost, or fails its check, does not count; where all are such the size is lost.

    Raises:
        RunError: the run cannot be read.
    """
    rows, samples = load_measurements(folder), load_samples(folder)
    times = {key: each.sort_values("round")["latency_ms"].tolist() for key, each in _by_contender(samples)}
    found: dict[int, Probe] = {}
    for _, here in rows.groupby(["replicate", "point"], sort=True):
        size, *place = (int(here[name].iloc[0]) for name in (axis, "replicate", "point"))
        key = (place[0], place[1])
        lost = _why_lost(here, (first, second))
        mine, other = times.get((*key, first), []), times.get((*key, second), [])
        if not lost and (not mine or len(mine) != len(other)):
            lost = "error: its rounds are not in the samples"
        clones = {name: each for (*at, name), each in times.items() if tuple(at) == key and name.startswith(CLONE)}
        probe = Probe(size=size, lost=lost) if lost else _compared(size, mine, other, clones, times, key)
        found[size] = found[size].joined_with(probe) if size in found else probe
    return [found[size] for size in sorted(found)]


def _by_contender(samples: pd.DataFrame) -> list[tuple[Any, pd.DataFrame]]:
    return list(samples.groupby(["replicate", "point", "contender"], sort=False))


def _compared(
    size: int,
    mine: list[float],
    other: list[float],
    clones: Mapping[str, list[float]],
    times: Mapping[Any, list[float]],
    key: tuple[int, int],
) -> Probe:
    """The ratio of one replicate; and of the clones that were measured in its rounds the one that strayed furthest."""
    ratios = []
    for name, each in clones.items():
        original = times.get((*key, name.removeprefix(CLONE)), [])
        if original and len(original) == len(each):
            ratios.append(paired_speedup(original, each))
    # The first reference's clone in every replicate: the furthest of several would always seem to stray.
    return Probe(size=size, ratios=(paired_speedup(other, mine),), clones=tuple(ratios[:1]))


def _why_lost(rows: pd.DataFrame, names: tuple[str, str]) -> str:
    for name in names:
        mine = rows[rows["contender"] == name]
        if mine.empty:
            return f"error: {name} has no row"
        row = mine.iloc[0]
        if row["status"] != "ok":
            return f"{name}: {row['status']}: {row['status_reason']}"
        if pd.notna(row["check_verdict"]) and row["check_verdict"] in FAILED:
            return f"{name}: its check says {row['check_verdict']}, so its speed does not count"
    return ""


def _ignore(_: Event) -> None:
    """Nobody listens."""
