"""Tries a sequence length in a measuring child of its own, under a limit on its memory."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from profiling.child_process import ChildDied, ChildNotStarted, MeasuringChild, MeasuringError
from profiling.device_lock import DeviceLock, Owner
from profiling.laws.fit_search import OK, OOM, REFUSED, Tried
from profiling.laws.largest_fit import SHARE_OF_FREE, guessed_mib, room_of
from profiling.layers import find_layer, is_layer
from profiling.measurer import CHILD_START_LIMIT_S
from profiling.memory_estimate import DEVICES_WITH_OWN_MEMORY, free_memory_mib
from profiling.settings import reference_of
from profiling.stopping import StopSwitch
from profiling.units import format_mib
from profiling.workload import Grid, GridError, Workload

# What a child's answer tells of a size.
TOLD = (
    *("status", "reason", "peak_mib", "held_mib", "call_s", "base_mib", "compiler_mib", "before_mib"),
    *("asked_mib", "failed_at_mib", "compile_s"),
)


class ChildTrier:
    """Holds the device while it is open, and tries sizes, each in a fresh child: what one took is back for the next.

    Args:
        contender: a name of ours, or a layer of one's own, compiled or not.
        grid: one point; its seq_len means nothing.
        heap: `pinned` or `as-is`.
        limit_s: seconds after which a size is given up.
        memory_mib: what a process may hold in all, torch included; None for 90 % of what is free.
        anyway: without a limit on memory: what does not fit may then make the machine stand still.
        stop: gives up the size in flight.
        on_wait: told whom it waits for.

    Attributes:
        workload: the point, on the device that was found; from `with` on.
        free_mib, memory_mib: what was free then, and what a process may hold of it; None where that is unknown.
        base_mib: what a process holds with torch loaded; None where that is unknown.
        room_mib: what is left of `memory_mib` then.
        is_enforced: whether a process is refused what goes beyond.

    Raises:
        GridError: there is no such contender or file, no such shape, or `memory_mib` cannot be given.
        DeviceBusy: someone else measures on the device.
        MeasuringError: the device cannot be used.
    """

    def __init__(
        self,
        contender: str,
        grid: Grid,
        *,
        heap: str = "as-is",
        limit_s: float = 300.0,
        memory_mib: float | None = None,
        anyway: bool = False,
        stop: StopSwitch | None = None,
        on_wait: Callable[[Owner], None] | None = None,
    ) -> None:
        reference_of(contender)
        if anyway and memory_mib is not None:
            raise GridError("memory must be left out with anyway, which is without a limit")
        self._layer = find_layer(contender).spec if is_layer(contender) else None
        self._contender, self._grid, self._heap = contender, grid, heap
        self._limit_s, self._anyway, self._on_wait = limit_s, anyway, on_wait
        self._asked_mib = memory_mib
        self._stop = stop or StopSwitch()
        self._lock: DeviceLock | None = None
        (workload,) = grid.workloads()
        if workload.invalid_reason:
            raise GridError(workload.invalid_reason)
        self.workload: Workload = workload
        self.free_mib: float | None = None
        self.memory_mib: float | None = None
        self.base_mib: float | None = None
        self.room_mib: float | None = None
        self.is_enforced = False

    def __enter__(self) -> ChildTrier:
        try:
            self._open()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._lock is not None:
            self._lock.release()

    def __call__(self, size: int) -> Tried:
        """What became of a sequence of that length.

        Raises:
            MeasuringError: nothing can be tried, whatever the length.
        """
        workload = dataclasses.replace(self.workload, seq_len=size)
        limit = self._limit_now()
        if limit is not None and not self.is_enforced:
            need, room = guessed_mib(workload, self._contender, self._heap), room_of(limit, self.base_mib) or 0.0
            if need > room:  # nothing would stop the process there
                reason = f"it needs about {format_mib(need)}, and {format_mib(room)} may be taken"
                return Tried(size=size, status=REFUSED, reason=reason)
        request = {
            "request": "try_call",
            "workload": workload.to_dict(),
            "contender": self._contender,
            "layer": self._layer,
            "limit_mib": limit,
        }
        try:
            answer = self._ask(request)
        except ChildNotStarted:
            raise
        except ChildDied as death:
            where = ", in compile" if death.running.phase == "compile" else ""
            return Tried(size=size, status=death.status, reason=f"{death.reason}{where}", limit_mib=limit)
        except MeasuringError as error:
            return Tried(size=size, status=error.status, reason=str(error), limit_mib=limit)
        if answer["status"] == REFUSED:  # what comes before the call leaves it no room
            raise MeasuringError(answer["reason"])
        return _held_to(limit, Tried(size=size, limit_mib=limit, **{name: answer[name] for name in TOLD}), answer)

    def _open(self) -> None:
        """Finds the device, takes it, and asks what is free there."""
        device, threads = self._grid.device, self._grid.threads
        request: dict[str, Any]
        with self._child() as child:
            if device != "cpu" or threads is None:  # which only torch can tell
                request = {"request": "environment", "device": device}
                answer = child.ask(request, limit_s=CHILD_START_LIMIT_S)
                device = str(answer["device"])
                (self.workload,) = self._grid.workloads(device=device, threads=int(answer["torch_threads"]))
            self._lock = DeviceLock(device)
            self._lock.acquire("search for the longest sequence", on_wait=self._on_wait, pause=self._stop.pause)
            request = {"request": "memory_now", "device": device, "threads": self.workload.threads}
            answer = child.ask(request, limit_s=CHILD_START_LIMIT_S)
        has_own = answer["free_mib"] is not None
        # The machine's own is looked at once that child has ended, which held some of it.
        self.free_mib = answer["free_mib"] if has_own else free_memory_mib(device)
        self.base_mib = answer["held_mib"]
        self.is_enforced = has_own or (sys.platform == "linux" and device == "cpu")
        self._require_possible()
        if not self._anyway:
            self.memory_mib = self._limit_of(self.free_mib)
            self.room_mib = room_of(self.memory_mib, self.base_mib)

    def _require_possible(self) -> None:
        """Raises GridError where what was asked for is more than can be given, or less than torch alone takes."""
        most, asked = _share_of(self.free_mib), self._asked_mib
        if asked is not None and most is not None and asked > most:
            raise GridError(
                f"memory must be at most {format_mib(most)}, 90 % of the {format_mib(self.free_mib or 0.0)} that are "
                f"free here, not {format_mib(asked)}"
            )
        if asked is not None and self.base_mib is not None and asked <= self.base_mib:
            raise GridError(
                f"memory must be more than the {format_mib(self.base_mib)} that a process holds here with torch loaded "
                f"and nothing computed, not {format_mib(asked)}"
            )

    def _limit_now(self) -> float | None:
        """What a process may hold now: what others have taken since is not there any more."""
        if self.memory_mib is None or self.workload.device.partition(":")[0] in DEVICES_WITH_OWN_MEMORY:
            return self.memory_mib  # a device's own allocator sees what others hold
        return self._limit_of(free_memory_mib(self.workload.device))

    def _limit_of(self, free_mib: float | None) -> float | None:
        limits = [mib for mib in (self._asked_mib, _share_of(free_mib)) if mib is not None]
        return min(limits, default=None)

    def _child(self) -> MeasuringChild:
        try:
            child = MeasuringChild(heap=self._heap, lock_fd=self._lock.fd if self._lock else None)
        except OSError as error:
            raise ChildNotStarted(f"no measuring process can be started: {error.strerror or error}") from error
        self._stop.watch(child)
        return child

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._child() as child:
            return child.ask(request, limit_s=self._limit_s)


def _share_of(free_mib: float | None) -> float | None:
    return None if free_mib is None else SHARE_OF_FREE * free_mib


def _held_to(limit_mib: float | None, tried: Tried, answer: dict[str, Any]) -> Tried:
    """What ran beyond its limit, where that could not be set, did not fit."""
    held = (tried.before_mib or 0.0) + (tried.peak_mib or 0.0)
    if limit_mib is None or answer["is_limited"] or tried.status != OK or held <= limit_mib:
        return tried
    reason = f"it held {format_mib(held)}, and {format_mib(limit_mib)} may be held"
    return dataclasses.replace(tried, status=OOM, reason=reason)
