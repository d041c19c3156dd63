"""The supervisor: walks a grid, has each workload measured, and writes what comes back. It never measures.

Each replicate is a fresh child that passes over the grid again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling.ceilings import ceilings_seconds, with_ceilings
from profiling.child_process import ChildStopped
from profiling.disk_room import require_writable
from profiling.events import Ended, Listener, Started, StepFinished, StepStarted
from profiling.kept_sources import keep_layer, keep_recipe, recipe_key
from profiling.measurer import Cells, Samples, lost
from profiling.opening import OpenRun
from profiling.resuming import stored_run
from profiling.runs import MEASUREMENTS_FILE, REPORT_FILE, Progress, Run, RunError, new_run_id, now, results_dir
from profiling.settings import SweepSettings
from profiling.stopping import StopSwitch
from profiling.sweep_clock import SweepClock
from profiling.workload import Grid, Workload

if TYPE_CHECKING:
    import pandas as pd

# Whoever stops a sweep is not to wait for the table of a large run: `export` makes it as well.
MOST_ROWS_REPORTED_AFTER_A_STOP = 5_000


def run_sweep(
    *,
    out: str | Path | None = None,
    resume: bool = False,
    on_event: Listener | None = None,
    stop: StopSwitch | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Measures a grid and returns its table, as `load_run` gives it.

    Args:
        out: the run's folder; None makes one under `results/`.
        resume: go on with the run in `out`, measuring what is missing; options may be left out. More `replicates`
            than it has extend it; everything else must be as it began.
        on_event: called with each of `profiling.events` as it happens.
        stop: a switch by which another thread can end the sweep; the table then holds what was measured.
        **options: fields of `profiling.workload.Grid` and `profiling.settings.SweepSettings`; lists may be lists.

    Raises:
        GridError: an option breaks a rule.
        RunError: the folder cannot be written or resumed.
        DeviceBusy: another sweep measures on the device.
        MeasuringError: the measuring process cannot be started.
        ChildStopped: `stop` was used before the run's folder was there.
    """
    from profiling.table import load_run

    folder = Path(out) if out is not None else results_dir() / new_run_id()
    sweep(options, folder, resume=resume, on_event=on_event, stop=stop)
    return load_run(folder)


def split_options(options: Mapping[str, Any], stored: Run | None = None) -> tuple[Grid, SweepSettings]:
    """The grid and the settings that these options make; what is left out is as stored, or the default."""
    setting_names = {field.name for field in dataclasses.fields(SweepSettings)}
    settings = {name: value for name, value in options.items() if name in setting_names}
    grid = {name: value for name, value in options.items() if name not in setting_names}
    if stored is not None:
        kept = stored.settings.to_dict()
        if "contenders" in settings:
            del kept["layers"]  # the same name may mean another file from here: that must show, not be taken for it
        grid, settings = stored.grid.to_dict() | grid, kept | settings
    return Grid.from_dict(grid), SweepSettings.from_dict(settings)


def sweep(
    options: Mapping[str, Any],
    folder: Path,
    *,
    resume: bool = False,
    on_event: Listener | None = None,
    stop: StopSwitch | None = None,
) -> Run:
    """Measures a grid into `folder` and returns the run as it ended. What was measured is safe at every moment.

    Arguments and errors are those of `run_sweep`.
    """
    require_writable(folder)
    stored = stored_run(folder, resume=resume)
    grid, settings = split_options(options, stored)
    stop, tell = stop or StopSwitch(), on_event or _ignore
    with OpenRun(grid, settings, folder, stored=stored, tell=tell, stop=stop) as opened:
        return _Walk(opened, tell, stop).measure_all()


class _Walk:
    """One passage over what a run still lacks."""

    def __init__(self, opened: OpenRun, tell: Listener, stop: StopSwitch) -> None:
        self.folder, self.settings, self.workloads = opened.folder, opened.settings, opened.workloads
        self.estimate, self.done = opened.estimate, opened.done
        self.measurer, self.writer = opened.measurer, opened.writer
        self.tell, self.stop = tell, stop

    def measure_all(self) -> Run:
        """Every replicate of every workload that is not measured yet; then the report."""
        try:
            self._measure_missing()
            self._end("finished", "")
        except ChildStopped:
            self._end("stopped", self.stop.reason)
        except BaseException as error:  # also a bug, also an interrupt in a notebook: the run must not seem to go on
            state = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
            with contextlib.suppress(RunError):
                self._end(state, str(error) or type(error).__name__)
                self._report()
            raise
        self._report()
        return self.writer.run

    def _measure_missing(self) -> None:
        self.writer.keep_only(self.done)
        self.tell(Started(self.writer.run, self.folder, self.estimate, len(self.done)))
        if not self._has_work():
            self._walk()  # what no layer can be is told as well
            return
        self._drop_report()
        self._measure_ceilings()
        self._walk()
        with contextlib.suppress(ChildStopped):  # every point is measured: there is nothing left to stop
            self._measure_ceilings()

    def _has_work(self) -> bool:
        valid = [point for point, workload in enumerate(self.workloads, start=1) if workload.invalid_reason is None]
        return any((r, point) not in self.done for r in range(1, self.settings.replicates + 1) for point in valid)

    def _measure_ceilings(self) -> None:
        """Measures what the machine can do now, and keeps the best that this run has seen."""
        seconds = ceilings_seconds(self.estimate.seconds)
        found = self.measurer.ceilings(self.writer.run.grid.dtype, threads=self.writer.run.threads, budget_s=seconds)
        self.writer.update(environment=with_ceilings(self.writer.run.environment, found, now()))

    def _walk(self) -> None:
        clock = SweepClock(self.workloads, self.settings, self.done)
        for replicate, point, workload in self._steps():
            if (replicate, point) in self.done:
                continue
            if self.stop.is_requested():
                raise ChildStopped
            progress = Progress(
                done=len(self.done),
                total=self.writer.run.progress.total,
                replicate=replicate,
                label=workload.label,
                seconds_left=clock.seconds_left(),
            )
            self.writer.update(progress=progress)
            self.tell(StepStarted(progress))
            rows, samples = self._measure(replicate, point, workload)
            self.writer.append_samples(samples)
            self.writer.append_measurements(rows)
            self.done.add((replicate, point))
            clock.tick(workload)
            self.tell(StepFinished(dataclasses.replace(progress, done=len(self.done)), rows))

    def _steps(self) -> Iterator[tuple[int, int, Workload]]:
        for replicate in range(1, self.settings.replicates + 1):
            if replicate > 1:
                self.measurer.renew()  # a replicate is a fresh process: what differs between processes must show
            for point, workload in enumerate(self.workloads, start=1):
                yield replicate, point, workload

    def _end(self, state: str, reason: str) -> None:
        """Says how the run ended: before anything that takes a while, so that nobody waits to hear of it."""
        ended = dataclasses.replace(self.writer.run.progress, done=len(self.done), label="", seconds_left=None)
        self.writer.update(state=state, state_reason=reason, ended_at=now(), progress=ended)
        self.measurer.renew()

    def _report(self) -> None:
        """Writes the table and tells the end; without a table where none can be written or nobody is to wait for it."""
        report: Path | None = None
        num_rows = len(self.done) * len(self.settings.contenders)
        try:
            if self.writer.run.state == "finished" or num_rows <= MOST_ROWS_REPORTED_AFTER_A_STOP:
                report = self._write_report()
        finally:
            if report is None:
                self._drop_report()
            self.tell(Ended(self.writer.run, self.folder, report))

    def _drop_report(self) -> None:
        """Takes a report of before away: it would pass for one of all that is measured by now."""
        with contextlib.suppress(OSError):
            (self.folder / REPORT_FILE).unlink(missing_ok=True)

    def _write_report(self) -> Path | None:
        try:
            with self.stop.interrupts():
                from profiling.table import write_report

                return write_report(self.folder)
        except ChildStopped:
            return None
        except RunError as error:
            raise RunError(f"{error}; every row is safe in {MEASUREMENTS_FILE}") from error

    # -- one workload -------------------------------------------------------------------------------------------------

    def _measure(
        self, replicate: int, point: int, workload: Workload
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        identity = {"run_id": self.writer.run.run_id, "replicate": replicate, "point": point}
        if workload.invalid_reason is not None:
            cells: Cells = {name: lost("invalid", workload.invalid_reason) for name in self.settings.contenders}
            samples: Samples = {}
        else:
            cells, samples = self.measurer.measure(
                workload,
                order_seed=order_seed(workload, replicate),
                limit_s=self.estimate.time_limit_s,
            )
        self._keep_what_ran(workload, cells)
        rows = [
            identity
            | workload.to_dict()
            | {"head_dim": workload.head_dim, "contender": name, "reference": self.settings.reference_of(name)}
            | {"source_hash": self.writer.run.sources[name]}
            | cells[name]
            for name in self.settings.contenders
        ]
        raw = [
            identity | {"contender": name, "round": number, "latency_ms": seconds * 1e3}
            for name, times in samples.items()
            for number, seconds in enumerate(times, start=1)
        ]
        return rows, raw

    def _keep_what_ran(self, workload: Workload, cells: Cells) -> None:
        """Keeps how each layer of one's own was run, and of one that was edited meanwhile what has run."""
        for name, layer in self.settings.layer_files().items():
            recipe = cells[name].pop("recipe", None)
            source = cells[name].get("source_hash", self.writer.run.sources[name])
            if keep_layer(self.folder, layer, source) and recipe is not None:
                keep_recipe(self.folder, source, recipe_key(layer, workload), recipe)


def order_seed(workload: Workload, replicate: int) -> int:
    """The seed of the order within the rounds: of what is measured, not of where in a grid it stands.

    So a point measured again alone has its contenders take turns as they did within the grid.
    """
    text = json.dumps([workload.to_dict(), replicate], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _ignore(_: object) -> None:
    """Nobody listens."""
