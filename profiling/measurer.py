"""Has workloads measured: keeps a child, asks it, and asks again, in a new one, without a contender that took one down.

It knows nothing of folders, locks or progress: those are the sweep's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiling.child_process import ChildDied, ChildNotStarted, ChildStopped, MeasuringChild, MeasuringError
from profiling.layers import source_hash
from profiling.runs import now
from profiling.settings import SweepSettings
from profiling.stopping import StopSwitch
from profiling.workload import GridError, Workload

# Loading torch on a cold, busy machine.
CHILD_START_LIMIT_S = 180.0
# A second or less is asked for; a device that has to be woken, or an element type without a fast product, takes longer.
CEILINGS_LIMIT_S = 60.0

# Of a row that holds no measurement: the source that the run began with is not there any more.
SOURCE_CHANGED = "its source has changed since the run began"

Cells = dict[str, dict[str, Any]]
Samples = dict[str, list[float]]


class Measurer:
    """One child at a time, started when it is needed.

    Args:
        settings: how to measure.
        device: the device as the grid names it.
        own_sources: contender → hash of its source as the run began, for each layer of one's own.
        stop: gives up the request in flight.
    """

    def __init__(self, settings: SweepSettings, device: str, own_sources: Mapping[str, str], stop: StopSwitch) -> None:
        self._settings, self._device, self._own_sources, self._stop = settings, device, own_sources, stop
        self._child: MeasuringChild | None = None
        self._loaded: dict[str, str | None] = {}  # what this child has said of them
        self._quiet_left_s = settings.quiet_wait_s
        self.lock_fd: int | None = None

    def environment(self) -> dict[str, Any]:
        """What a fresh child says of the device and of torch."""
        self.renew()
        try:
            self._child = MeasuringChild(heap=self._settings.heap, lock_fd=self.lock_fd)
        except OSError as error:
            raise ChildNotStarted(f"no measuring process can be started: {error.strerror or error}") from error
        self._stop.watch(self._child)
        return self._child.ask({"request": "environment", "device": self._device}, limit_s=CHILD_START_LIMIT_S)

    def renew(self) -> None:
        """Ends the child: the next request goes to a fresh one."""
        if self._child is not None:
            self._child.close()
            self._child = None
            self._loaded = {}

    def ceilings(self, dtypes: Sequence[str], *, threads: int, budget_s: float) -> dict[str, Any]:
        """What the device can do at best, as the child answers; empty where it died of it: the rows do without."""
        request = {
            "request": "ceilings",
            "device": self._device,
            "dtypes": list(dtypes),
            "threads": threads,
            "budget_s": budget_s,
        }
        try:
            return self._living_child().ask(request, limit_s=CEILINGS_LIMIT_S)
        except ChildNotStarted:
            raise
        except MeasuringError:
            self.renew()
            return {}

    def measure(self, workload: Workload, *, order_seed: int, limit_s: float) -> tuple[Cells, Samples]:
        """Contender → cells and raw samples (seconds of one call); a contender that took a child down says so.

        Beside its cells a layer of one's own has its `recipe`, where it was measured.
        """
        cells: Cells = {}
        had_unexplained_death = False
        while left := [name for name in self._settings.contenders if name not in cells]:
            try:
                answer = self._ask(workload, left, order_seed, limit_s)
            except ChildDied as death:
                loaded = self._loaded
                self.renew()
                self._count_waited(death.running.waited_s)
                if death.running.contender in left:
                    name, reason = death.running.contender, f"{death.reason}, in {death.running.phase}"
                    cells[name] = self._edited(name, loaded) or lost(death.status, reason)
                elif had_unexplained_death or death.status == "timeout":
                    # The oracle, or what all contenders are copied from; a child that had not begun says `request`.
                    shared = death.running.phase in ("build", "oracle")
                    place = f"in {death.running.phase}" if shared else "before any contender ran"
                    cells |= {name: lost(death.status, f"{death.reason}, {place}") for name in left}
                else:
                    had_unexplained_death = True
            except (ChildStopped, ChildNotStarted):  # no row of this run's: it can be gone on with
                raise
            except MeasuringError as error:
                cells |= {name: lost(error.status, str(error)) for name in left}
            else:
                self._count_waited(max((row.get("waited_s") or 0.0 for row in answer["rows"].values()), default=0.0))
                self._loaded |= {
                    name: row["source_hash"] for name, row in answer["rows"].items() if "source_hash" in row
                }
                edited = {name: row for name in answer["rows"] if (row := self._edited(name, self._loaded))}
                samples = {name: times for name, times in answer["samples_s"].items() if name not in edited}
                for name, recipe in answer.get("recipes", {}).items():
                    answer["rows"][name]["recipe"] = recipe
                if answer.get("is_spoiled"):
                    self.renew()
                return self._with_lost_references(cells | answer["rows"] | edited), samples
        return cells, {}

    def _with_lost_references(self, cells: Cells) -> Cells:
        """The cells, with a word in each row that has no comparison because what it is compared with was lost."""
        for name, row in cells.items():
            lost_one = cells.get(self._settings.reference_of(name) or "", {})
            if row["status"] == "ok" and lost_one.get("status", "ok") != "ok":
                reference = self._settings.reference_of(name)
                words = f"not compared with {reference}, which is {lost_one['status']} here"
                row["warnings"] = "; ".join(filter(None, (row.get("warnings"), words)))
        return cells

    def _count_waited(self, seconds: float) -> None:
        self._quiet_left_s = max(0.0, self._quiet_left_s - seconds)

    def _edited(self, name: str, loaded: Mapping[str, str | None]) -> dict[str, Any] | None:
        """The cells of a layer of which a child has loaded, or may have, a source that the run did not begin with.

        Args:
            name: the contender.
            loaded: contender → hash of what the child has loaded, as far as it could still say so. Of one that it could
                not say, the file as it is now tells whether it may have been edited before.
        """
        began = self._own_sources.get(name)
        ran = loaded[name] if name in loaded else self._hash_now(name) if began is not None else None
        if began is None or ran == began:
            return None
        row = lost("error", f"{SOURCE_CHANGED}: start a new run, or put it back and resume this one")
        return row | {"source_hash": ran if name in loaded else None}

    def _hash_now(self, name: str) -> str | None:
        try:
            return source_hash(self._settings.layer_files()[name].path)
        except GridError:
            return None

    def _ask(self, workload: Workload, contenders: Sequence[str], order_seed: int, limit_s: float) -> dict[str, Any]:
        request = {
            "request": "measure",
            "workload": workload.to_dict(),
            "contenders": list(contenders),
            "layers": {name: spec for name, spec in self._settings.layers.items() if name in contenders},
            "reference": self._settings.reference,
            "time_budget_s": self._settings.time_budget_s,
            "order_seed": order_seed,
            "quiet_wait_s": self._quiet_left_s,
        }
        return self._living_child().ask(request, limit_s=limit_s)

    def _living_child(self) -> MeasuringChild:
        if self._child is None or not self._child.is_alive():
            self.environment()
        assert self._child is not None
        return self._child


def lost(status: str, reason: str) -> dict[str, Any]:
    """The cells of a contender that was not measured."""
    return {"status": status, "status_reason": reason, "measured_at": now()}
