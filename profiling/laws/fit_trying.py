"""Tries a sequence length in a measuring child of its own, under a limit on its memory; what a run's law predicts."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from profiling.child_process import ChildDied, ChildNotStarted, MeasuringChild, MeasuringError
from profiling.costs import ELEMENT_BYTES, MIB, NUM_PROJECTIONS
from profiling.device_lock import DeviceLock, Owner
from profiling.laws.fit_search import REFUSED, Tried
from profiling.laws.growth import MEMORY, laws_of
from profiling.laws.largest_fit import WEIGHT_COPIES, guessed_mib, room_of
from profiling.laws.law_words import fixed_words
from profiling.layers import find_layer, inner_of, is_compiled, is_layer
from profiling.measurer import CHILD_START_LIMIT_S
from profiling.memory_estimate import TOKENS_PER_LAYER, free_memory_mib
from profiling.quoted import quoted
from profiling.settings import reference_of
from profiling.stopping import StopSwitch
from profiling.table import load_run
from profiling.units import format_mib
from profiling.workload import Grid, GridError, Workload


class ChildTrier:
    """Holds the device while it is open, and tries sizes, each in a fresh child.

    Args:
        contender: a name of ours, or a layer of one's own.
        grid: one point; its seq_len means nothing.
        heap: `pinned` or `as-is`.
        limit_s: seconds after which a size is given up.
        memory_mib: what a process may take; None for 90 % of what is free.
        anyway: without a limit on memory: what does not fit may then make the machine stand still.
        stop: gives up the size in flight.
        on_wait: told whom it waits for.

    Attributes:
        workload: the point, on the device that was found; from `with` on.
        free_mib, room_mib: what was free then, and what a process may take; None where that is unknown.

    Raises:
        GridError: there is no such contender or file, or no such shape.
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
        if is_compiled(contender):
            raise GridError(
                f"contender must be a layer as it is, such as {inner_of(contender)}, not {quoted(contender)}: "
                "each length would be compiled anew, and a compiler takes memory of its own"
            )
        self._layer = find_layer(contender).spec if is_layer(contender) else None
        self._contender, self._grid, self._heap = contender, grid, heap
        self._limit_s, self._anyway, self._on_wait = limit_s, anyway, on_wait
        self._memory_mib = memory_mib
        self._stop = stop or StopSwitch()
        self._lock: DeviceLock | None = None
        (workload,) = grid.workloads()
        if workload.invalid_reason:
            raise GridError(workload.invalid_reason)
        self.workload: Workload = workload
        self.free_mib: float | None = None
        self.room_mib: float | None = None

    def __enter__(self) -> ChildTrier:
        device = self._grid.device
        if device != "cpu" or self._grid.threads is None:  # which only torch can tell
            answer = self._ask({"request": "environment", "device": device}, CHILD_START_LIMIT_S)
            device = str(answer["device"])
            (self.workload,) = self._grid.workloads(device=device, threads=int(answer["torch_threads"]))
        self._lock = DeviceLock(device)
        self._lock.acquire("search for the longest sequence", on_wait=self._on_wait, pause=self._stop.pause)
        self.free_mib = free_memory_mib(device)
        self.room_mib = None if self._anyway else self._room()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._lock is not None:
            self._lock.release()

    def __call__(self, size: int) -> Tried:
        """What became of a sequence of that length."""
        workload = dataclasses.replace(self.workload, seq_len=size)
        # What others have taken since is not there any more.
        room = None if self.room_mib is None else self._room()
        if room is not None and not (sys.platform == "linux" and workload.device == "cpu"):
            need = guessed_mib(workload, self._contender, self._heap)
            if need > room:  # nothing would stop the process there
                reason = f"it needs about {format_mib(need)}, and {format_mib(room)} may be taken"
                return Tried(size=size, status=REFUSED, reason=reason)
        request = {
            "request": "try_call",
            "workload": workload.to_dict(),
            "contender": self._contender,
            "layer": self._layer,
            "limit_mib": room if workload.device == "cpu" else None,
        }
        try:
            answer = self._ask(request, self._limit_s)
        except ChildNotStarted:
            raise
        except ChildDied as death:
            return Tried(size=size, status=death.status, reason=death.reason)
        except MeasuringError as error:
            return Tried(size=size, status=error.status, reason=str(error))
        fields = {name: answer[name] for name in ("status", "reason", "peak_mib", "held_mib", "call_s")}
        return Tried(size=size, **fields)

    def _room(self) -> float | None:
        """What a process may take now."""
        rooms = [mib for mib in (self._memory_mib, room_of(free_memory_mib(self.workload.device))) if mib is not None]
        return min(rooms, default=None)

    def _ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        try:
            child = MeasuringChild(heap=self._heap, lock_fd=self._lock.fd if self._lock else None)
        except OSError as error:
            raise ChildNotStarted(f"no measuring process can be started: {error.strerror or error}") from error
        with child:
            self._stop.watch(child)
            return child.ask(request, limit_s=limit_s)


def predicted_by_run(folder: Path, contender: str, workload: Workload, room_mib: float) -> int:
    """The length at which the memory law of a run reaches the room.

    To the peak of the call, which is what a run tells, come the weights and the tensors that are there before it.

    Raises:
        RunError: the run cannot be read.
        GridError: it has no such law.
    """
    laws = [law for law in laws_of(load_run(folder), ["seq_len"], [MEMORY]) if law.contender == contender]
    shape = ("batch_size", "num_heads", "d_model", "dtype", "mode", "bias", "causal")
    wanted = {name: getattr(workload, name) for name in shape}
    found = [law for law in laws if {name: law.fixed[name] for name in shape} == wanted and law.curve is not None]
    if not found:
        there = "; ".join(fixed_words(law.fixed) for law in laws[:3])
        has = f"it has one at {there}" if there else "it has none of that contender"
        raise GridError(f"the run must hold a memory law of {contender} at {fixed_words(wanted)}: {has}")
    curve = found[0].curve
    assert curve is not None, "as selected"
    element = ELEMENT_BYTES[workload.dtype] / MIB
    tokens = TOKENS_PER_LAYER * workload.batch_size * workload.d_model * element
    weights = WEIGHT_COPIES * NUM_PROJECTIONS * workload.d_model**2 * element
    whole = dataclasses.replace(curve, constant=curve.constant + weights, linear=curve.linear + tokens)
    return int(min(whole.size_at(room_mib), 2.0**31 - 1))
