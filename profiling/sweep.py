"""The supervisor: walks a grid, has each workload measured in a child, and writes what comes back. It never measures.

A child's death costs the contender that was running: its row says why, and the workload is repeated in a new child
without it. Each replicate is a fresh child that passes over the grid again.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from profiling.child_process import ChildDied, ChildStopped, MeasuringChild, MeasuringError
from profiling.device_lock import DeviceLock
from profiling.environment import host_environment
from profiling.estimate import estimate
from profiling.events import Ended, Listener, Started, StepFinished, StepStarted, Waiting
from profiling.layers import source_hash
from profiling.resuming import finished_steps, refuse_mismatch, stored_run
from profiling.run_writer import RunWriter
from profiling.runs import Progress, Run, RunError, new_run_id, now, results_dir
from profiling.settings import SweepSettings
from profiling.stopping import StopSwitch
from profiling.sweep_clock import SweepClock
from profiling.workload import Grid, Workload

if TYPE_CHECKING:
    import pandas as pd

# Loading torch on a cold, busy machine.
CHILD_START_LIMIT_S = 180.0


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
        resume: go on with the run in `out`, measuring what is missing; options may be left out.
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
    stored = stored_run(folder, resume=resume)
    grid, settings = split_options(options, stored)
    own_sources = {name: source_hash(file.path) for name, file in settings.layer_files().items()}
    supervisor = _Supervisor(grid, settings, own_sources, folder, on_event or _ignore, stop or StopSwitch())
    try:
        supervisor.open(stored)
        return supervisor.measure_all()
    finally:
        supervisor.close()


class _Supervisor:
    """One sweep: its lock, its child, its folder."""

    def __init__(
        self,
        grid: Grid,
        settings: SweepSettings,
        own_sources: Mapping[str, str],
        folder: Path,
        tell: Listener,
        stop: StopSwitch,
    ) -> None:
        self.grid, self.settings, self.folder, self.tell, self.stop = grid, settings, folder, tell, stop
        self.own_sources = own_sources
        self.child: MeasuringChild | None = None
        self.lock: DeviceLock | None = None

    # -- opening and closing ------------------------------------------------------------------------------------------

    def open(self, stored: Run | None) -> None:
        """Takes the device, asks the child what it runs on, and opens the folder; refuses what cannot be resumed."""
        answer = self._claim_device()
        # Once more, now that nobody else can begin: while this one was starting, another may have filled the folder.
        stored = stored_run(self.folder, resume=stored is not None)
        environment = {
            **host_environment(),
            **{k: answer[k] for k in ("torch_version", "device_name", "torch_threads")},
        }
        self.threads = self.grid.threads or int(answer["torch_threads"])
        self.workloads = list(self.grid.workloads(device=answer["device"], threads=self.threads))
        self.estimate = estimate(self.grid, self.settings, device=answer["device"], threads=self.threads)
        self.done = self._finished_before() if stored else set()
        process = psutil.Process()
        run = Run(
            run_id=self.folder.resolve().name,
            state="running",
            state_reason="",
            started_at=stored.started_at if stored else now(),
            updated_at=now(),
            ended_at=None,
            grid=self.grid,
            settings=self.settings,
            device=answer["device"],
            threads=self.threads,
            environment=environment,
            sources={name: (answer["sources"] | self.own_sources)[name] for name in self.settings.contenders},
            progress=Progress(done=len(self.done), total=len(self.workloads) * self.settings.replicates),
            pid=process.pid,
            process_started=process.create_time(),
        )
        if stored is not None:
            refuse_mismatch(stored, run)
        self.writer = RunWriter(self.folder, run)

    def _finished_before(self) -> set[tuple[int, int]]:
        return finished_steps(
            self.folder,
            self.settings.contenders,
            num_replicates=self.settings.replicates,
            num_points=len(self.workloads),
        )

    def close(self) -> None:
        """Ends the child and frees the device."""
        self._end_child()
        if self.lock is not None:
            self.lock.release()

    def _claim_device(self) -> dict[str, Any]:
        # The lock is per device, and which device `auto` or `cuda` means only torch can tell: a first child finds it
        # out, and the child that measures is started anew, so that it inherits the lock.
        device = self.grid.device
        if device != "cpu":
            device = str(self._start_child()["device"])
            self._end_child()
        self.lock = DeviceLock(device)
        self.lock.acquire(
            "sweep",
            run_id=self.folder.resolve().name,
            folder=self.folder,
            on_wait=lambda owner: self.tell(Waiting(owner)),
            pause=self.stop.pause,
        )
        return self._start_child()

    def _start_child(self) -> dict[str, Any]:
        self.child = MeasuringChild(heap=self.settings.heap, lock_fd=self.lock.fd if self.lock else None)
        self.stop.watch(self.child)
        return self.child.ask({"request": "environment", "device": self.grid.device}, limit_s=CHILD_START_LIMIT_S)

    def _end_child(self) -> None:
        if self.child is not None:
            self.child.close()
            self.child = None

    # -- the walk over the grid ---------------------------------------------------------------------------------------

    def measure_all(self) -> Run:
        """Every replicate of every workload that is not measured yet; then the report."""
        try:
            self.writer.keep_only(self.done)
            self.tell(Started(self.writer.run, self.folder, self.estimate, len(self.done)))
            self._walk()
            self._finish("finished", "")
        except ChildStopped:
            self._finish("stopped", self.stop.reason)
        except BaseException as error:  # also a bug, also an interrupt in a notebook: the run must not seem to go on
            state = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
            with contextlib.suppress(RunError):
                self._finish(state, str(error) or type(error).__name__)
            raise
        return self.writer.run

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
                self._end_child()  # a replicate is a fresh process: what differs between processes must show
            for point, workload in enumerate(self.workloads, start=1):
                yield replicate, point, workload

    def _finish(self, state: str, reason: str) -> None:
        from profiling.table import write_report

        ended = dataclasses.replace(self.writer.run.progress, done=len(self.done), label="", seconds_left=None)
        self.writer.update(state=state, state_reason=reason, ended_at=now(), progress=ended)
        report = write_report(self.folder)
        self.tell(Ended(self.writer.run, self.folder, report))

    # -- one workload -------------------------------------------------------------------------------------------------

    def _measure(
        self, replicate: int, point: int, workload: Workload
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        identity = {"run_id": self.writer.run.run_id, "replicate": replicate, "point": point}
        if workload.invalid_reason is not None:
            cells = {name: _lost("invalid", workload.invalid_reason) for name in self.settings.contenders}
            samples: dict[str, list[float]] = {}
        else:
            cells, samples = self._ask_until_settled(
                workload, order_seed=hash((workload.seed, replicate, point)) % 2**32
            )
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

    def _ask_until_settled(
        self, workload: Workload, *, order_seed: int
    ) -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
        """Contender → cells and raw samples; asks again, in a new child, without a contender that took one down."""
        cells: dict[str, dict[str, Any]] = {}
        had_unexplained_death = False
        while left := [name for name in self.settings.contenders if name not in cells]:
            try:
                answer = self._ask(workload, left, order_seed)
            except ChildDied as death:
                self._end_child()
                if death.running.contender in left:
                    cells[death.running.contender] = _lost(death.status, f"{death.reason}, in {death.running.phase}")
                elif had_unexplained_death or death.status == "timeout":
                    # The oracle, or what all contenders are copied from; a child that had not begun says `request`.
                    shared = death.running.phase in ("build", "oracle")
                    place = f"in {death.running.phase}" if shared else "before any contender ran"
                    cells |= {name: _lost(death.status, f"{death.reason}, {place}") for name in left}
                else:
                    had_unexplained_death = True
            except ChildStopped:
                raise
            except MeasuringError as error:
                cells |= {name: _lost("unavailable", str(error)) for name in left}
            else:
                edited = self._edited_since(answer["rows"])
                changed = _lost("error", "its source has changed since the run began: start a new run")
                samples = {name: times for name, times in answer["samples_s"].items() if name not in edited}
                return cells | answer["rows"] | dict.fromkeys(edited, changed), samples
        return cells, {}

    def _edited_since(self, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """The layers of one's own of which a later child loaded another source than the run began with."""
        began = self.own_sources.items()
        return [name for name, source in began if rows.get(name, {}).get("source_hash", source) != source]

    def _ask(self, workload: Workload, contenders: Sequence[str], order_seed: int) -> dict[str, Any]:
        if self.child is None or not self.child.is_alive():
            self._end_child()
            self._start_child()
        assert self.child is not None
        request = {
            "request": "measure",
            "workload": workload.to_dict(),
            "contenders": list(contenders),
            "layers": {name: spec for name, spec in self.settings.layers.items() if name in contenders},
            "reference": self.settings.reference,
            "time_budget_s": self.settings.time_budget_s,
            "order_seed": order_seed,
        }
        return self.child.ask(request, limit_s=self.estimate.time_limit_s)


def _lost(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "status_reason": reason, "measured_at": now()}


def _ignore(_: object) -> None:
    """Nobody listens."""
