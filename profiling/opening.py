"""Opens a run: takes the device, asks the child what it runs on, and makes the folder; refuses what cannot go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from profiling.ceilings import kept_ceilings
from profiling.device_lock import DeviceLock, require_locks
from profiling.disk_room import require_room
from profiling.environment import host_environment
from profiling.estimate import estimate, refuse_excess
from profiling.events import Listener, Waiting
from profiling.folder_lock import FolderLock
from profiling.host import host_mark
from profiling.kept_sources import keep_source
from profiling.measurer import Measurer
from profiling.resuming import commits_measured_at, finished_steps, refuse_mismatch, stored_run
from profiling.run_writer import RunWriter
from profiling.runs import Progress, Run, now, own_start
from profiling.settings import SweepSettings
from profiling.sources import Source
from profiling.stopping import StopSwitch
from profiling.workload import Grid, Workload


class OpenRun:
    """A run that can be measured: open from `with` to its end, then device and folder are free and no child is left.

    Args:
        grid: what to measure.
        settings: how to measure it.
        folder: where the run lies.
        stored: the run that is there to be gone on with; None for a new one.
        tell: told of a wait for the device.
        stop: ends the opening, and later the request in flight.

    Attributes:
        workloads: the points of the grid, in order.
        estimate: what the sweep will take.
        done: the (replicate, point) pairs that are measured.
        measurer: measures.
        writer: writes the folder.
    """

    def __init__(
        self,
        grid: Grid,
        settings: SweepSettings,
        folder: Path,
        *,
        stored: Run | None,
        tell: Listener,
        stop: StopSwitch,
    ) -> None:
        self.grid, self.settings, self.folder = grid, settings, folder
        self._stored, self._tell, self._stop = stored, tell, stop
        self._sources = {name: Source.of_layer(file.path) for name, file in settings.layer_files().items()}
        self._own_sources = {name: source.hash for name, source in self._sources.items()}
        self._lock: DeviceLock | None = None
        self._folder_lock = FolderLock(folder)
        self.measurer = Measurer(settings, grid.device, self._own_sources, stop)

    def __enter__(self) -> OpenRun:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._close()

    def _open(self) -> None:
        require_locks()
        answer = self._claim_device()
        self._folder_lock.acquire()
        # Once more, now that nobody else can begin: while this one was starting, another may have filled the folder.
        stored = stored_run(self.folder, resume=self._stored is not None, is_locked=True)
        environment = {
            **host_environment(),
            **{k: answer[k] for k in ("torch_version", "device_name", "torch_threads")},
            **answer["torch"],
            **(kept_ceilings(stored.environment) if stored else {}),
        }
        threads = self.grid.threads or int(answer["torch_threads"])
        self.workloads = list(self.grid.workloads(device=answer["device"], threads=threads))
        self.estimate = estimate(self.grid, self.settings, device=answer["device"], threads=threads)
        self.done = self._finished_before() if stored else set()
        num_steps = len(self.workloads) * self.settings.replicates
        is_missing = len(self.done) < num_steps
        if is_missing:
            refuse_excess(self.estimate, self.settings)
            require_room(self.folder, self.settings, self._missing())
        here = environment.get("commit") if is_missing else None  # else nothing will be measured here
        environment["commit"] = commits_measured_at(stored, here)
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
            threads=threads,
            environment=environment,
            sources={name: (answer["sources"] | self._own_sources)[name] for name in self.settings.contenders},
            progress=Progress(done=len(self.done), total=num_steps),
            pid=os.getpid(),
            process_started=own_start(),
            host=host_mark(),
        )
        if stored is not None:
            refuse_mismatch(stored, run)
        self.writer = RunWriter(self.folder, run)
        self._keep_sources(run)

    def _keep_sources(self, run: Run) -> None:
        """Keeps what the run measures: layers of one's own, and ours where that is what the child has loaded."""
        ours = Source.of_ours()
        for source in (*self._sources.values(), *([ours] if ours.hash in run.sources.values() else [])):
            keep_source(self.folder, source)

    def _close(self) -> None:
        self.measurer.renew()
        self._folder_lock.discard()
        self._folder_lock.release()
        if self._lock is not None:
            self._lock.release()

    def _missing(self) -> Iterator[Workload]:
        for replicate in range(1, self.settings.replicates + 1):
            for point, workload in enumerate(self.workloads, start=1):
                if (replicate, point) not in self.done:
                    yield workload

    def _finished_before(self) -> set[tuple[int, int]]:
        return finished_steps(
            self.folder,
            self.settings.contenders,
            num_replicates=self.settings.replicates,
            num_points=len(self.workloads),
        )

    def _claim_device(self) -> dict[str, Any]:
        # The lock is per device, and which device `auto` or `cuda` means only torch can tell: a first child finds it
        # out, and the child that measures is started anew, so that it inherits the lock.
        device = self.grid.device
        if device != "cpu":
            device = str(self.measurer.environment()["device"])
            self.measurer.renew()
        self._lock = DeviceLock(device)
        self._lock.acquire(
            "sweep",
            run_id=self.folder.resolve().name,
            folder=self.folder,
            on_wait=lambda owner: self._tell(Waiting(owner)),
            pause=self._stop.pause,
        )
        self.measurer.lock_fd = self._lock.fd
        return self.measurer.environment()
