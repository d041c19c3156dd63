"""A whole search for a crossover: asked for, measured in a folder of its own, and recorded there after every step."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profiling.events import Event, StepStarted
from profiling.laws.crossover import SweepProber, probes_of, search
from profiling.laws.crossover_answer import Crossover, crossover_dict
from profiling.laws.crossover_list import place_of, steps_of
from profiling.laws.crossover_record import ENDING, FINISHED, RECORD_FILE, STOPPED, Record, RecordWriter
from profiling.laws.crossover_search import Plan, Probe
from profiling.layers import find_layer, is_layer, source_hash
from profiling.runs import RunError, new_run_id, read_run, results_dir
from profiling.stopping import StopSwitch
from profiling.sweep import split_options


def find_crossover(
    first: str,
    second: str,
    axis: str,
    plan: Plan,
    options: Mapping[str, Any],
    *,
    budget_s: float | None = None,
    stop: StopSwitch | None = None,
    on_probe: Callable[[Probe], None] = lambda _: None,
) -> tuple[Crossover, Path | None]:
    """Searches, and returns what is known with the folder that holds it, `results/<id>-crossover`; None without one.

    Args:
        first, second: the contenders.
        axis: along which.
        plan: what is searched, and how exactly.
        options: fields of `Grid` and `SweepSettings` that hold at every size; not the axis, contenders, replicates.
        budget_s: seconds after which no further step is begun; None for no such limit.
        stop: a switch by which someone can end the search.
        on_probe: told of each size as it is known.

    Raises:
        GridError: an option breaks a rule.
        RunError: the folder cannot be written.
        DeviceBusy: another sweep measures on the device.
        MeasuringError: the measuring process cannot be started.
        ChildStopped: `stop` was used before anything was measured.
    """
    folder = results_dir() / f"{new_run_id()}{ENDING}"
    keeper = _Keeper()
    measure = SweepProber(first, second, axis, folder, options, stop=stop, on_event=keeper.within_step)
    own = [name for name in (first, second) if is_layer(name)]
    writer = RecordWriter(
        folder,
        **{"first": first, "second": second, "axis": axis, "fixed": _fixed(axis, options)},
        asked={**vars(plan), "budget_s": budget_s, "options": dict(options)},
        places={name: place_of(name) for name in own},
        sources={name: source_hash(find_layer(name).path) for name in own},
    )
    keeper.writer = writer
    try:
        found = search(
            *(first, second, axis, plan, measure),
            budget_s=budget_s,
            stop=stop,
            on_probe=on_probe,
            on_step=keeper.after_step,
        )
    except BaseException as error:  # also a bug, also an interrupt: the search must not seem to go on
        with contextlib.suppress(RunError):
            writer.update(state=STOPPED, state_reason=str(error) or type(error).__name__)
        _discard_empty(writer.record)
        raise
    state = STOPPED if found.stopped else FINISHED
    try:
        writer.update(state=state, state_reason=found.stopped, answer=crossover_dict(found))
    except RunError as error:  # a full disk, or someone has deleted the folder
        found = dataclasses.replace(found, stopped=found.stopped or str(error))
    _discard_empty(writer.record)
    return found, folder if folder.is_dir() else None


class _Keeper:
    """Writes what is known into the record: after every step, and within one after every replicate."""

    def __init__(self) -> None:
        self.writer: RecordWriter | None = None
        self._known: tuple[Probe, ...] = ()
        self._kept = (Path(), 1)  # up to which step and replicate all is kept

    def after_step(self, found: Crossover) -> None:
        """Keeps what is known after a step."""
        self._known = found.probes
        self._write(found)

    def within_step(self, event: Event) -> None:
        """Keeps what a step has found by now, each time that it begins a further replicate."""
        if self.writer is None or not isinstance(event, StepStarted) or event.progress.replicate < 2:
            return
        record = self.writer.record
        steps = steps_of(record)
        if (steps[-1], event.progress.replicate) == self._kept:
            return
        self._kept = (steps[-1], event.progress.replicate)
        known = {probe.size: probe for probe in self._known}
        with contextlib.suppress(RunError):  # which the step's end will tell
            for probe in probes_of(steps[-1], record.axis, record.first, record.second):
                known[probe.size] = known[probe.size].joined_with(probe) if probe.size in known else probe
            self._write(
                Crossover(
                    first=record.first,
                    second=record.second,
                    axis=record.axis,
                    probes=tuple(known[size] for size in sorted(known)),
                    folders=tuple(map(str, steps)),
                )
            )

    def _write(self, found: Crossover) -> None:
        assert self.writer is not None, "a search is recorded from its beginning"
        self.writer.update(answer=crossover_dict(found), **_where(self.writer, found))


def _fixed(axis: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What stays the same at all sizes, one value each, as `CrossoverQuestion.fixed` names it."""
    grid, settings = split_options({**options, axis: (1,)})
    lists = ("batch_size", "seq_len", "num_heads", "dtype", "mode", "bias", "causal")
    same: dict[str, Any] = {name: getattr(grid, name)[0] for name in lists if name != axis}
    width = {"d_model": grid.d_model, "head_dim": grid.head_dim}
    if grid.head_dim is not None and axis != "num_heads":  # which is a width like any other
        width = {"d_model": grid.width(same["num_heads"]), "head_dim": None}
    return same | width | {"device": grid.device, "threads": grid.threads, "heap": settings.heap}


def _where(writer: RecordWriter, found: Crossover) -> dict[str, Any]:
    """What the last step tells of device, threads and torch: before it they may be left to torch."""
    if not found.folders:
        return {}
    run = read_run(Path(found.folders[-1]))
    return {
        "fixed": {**writer.record.fixed, "device": run.device, "threads": run.threads},
        "device_name": str(run.environment.get("device_name") or run.device),
        "torch_version": str(run.environment.get("torch_version") or ""),
    }


def _discard_empty(record: Record) -> None:
    """Takes the folder of a search away that has found nothing and measured nothing."""
    if record.sizes:
        return
    with contextlib.suppress(OSError):
        if [path.name for path in record.folder.iterdir()] == [RECORD_FILE]:
            (record.folder / RECORD_FILE).unlink()
            record.folder.rmdir()
