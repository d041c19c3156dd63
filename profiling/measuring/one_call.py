"""Runs one contender at one shape, twice, under a limit on memory: does it fit here?

Nothing is timed for anyone, compared or checked. What does not fit fails by an allocation that is refused, before the
machine is short of memory. A compiled layer is compiled here, for this very shape, and the limit does not hold for the
compiler: neither what it takes meanwhile nor its failure is the call's.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import Any

import torch

from mha import fast_path
from profiling.costs import MIB
from profiling.layers import is_compiled, is_layer
from profiling.measuring.compiler_room import CompilerRoom, is_compilers
from profiling.measuring.contenders.compiled import compile_now, start_compiler
from profiling.measuring.contenders.known import Contender, make_contender, make_input, make_weights
from profiling.measuring.contenders.own import make_user_contender
from profiling.measuring.devices import Device
from profiling.measuring.devices.process_memory import status_bytes
from profiling.measuring.failures import asked_mib, failure
from profiling.measuring.garbage import forget
from profiling.memory_estimate import DEVICES_WITH_OWN_MEMORY
from profiling.units import format_mib
from profiling.workload import Workload

# Elements of a product that all threads of a pool take part in.
POOL_SIZE = 512
# As the status of a size that is not tried: `profiling.laws.fit_search`.
REFUSED = "refused"


def memory_now(device: Device, threads: int) -> dict[str, Any]:
    """What the device has free, and what this process holds of its memory with torch loaded and its threads made.

    Returns:
        `device`, `free_mib` and `held_mib`; what cannot be told is None.
    """
    torch.set_num_threads(threads)
    _start_threads()
    return {"device": device.name, "free_mib": _mib(device.free_bytes()), "held_mib": _mib(device.held_bytes())}


def try_call(
    workload: Workload,
    contender: str,
    device: Device,
    *,
    layer: str | None = None,
    limit_mib: float | None = None,
    say: Callable[[str, str], None] = lambda *_: None,
) -> dict[str, Any]:
    """What became of two calls of a contender: `status` and `reason`, and what they took.

    Args:
        workload: the shape; its device is `device`.
        contender: a name of ours, or of a layer of one's own, compiled or not.
        device: where it runs.
        layer: the layer's file and name, where it is one's own.
        limit_mib: memory that this process may hold in all; None for no limit.
        say: told the phase and the contender before each thing that could take the process down.

    Returns:
        `status` (`ok`, `oom`, `error` …; `refused` where the limit is spent before the call) and `reason`; in MiB what
        the process held `base_mib` with torch loaded, `compiler_mib` for the compiler, and `before_mib` before the call
        in all, `peak_mib` (of the call itself), `held_mib` (resident, beyond the base); where it failed `failed_at_mib`
        (what it held then, at least) and `asked_mib` (what it was refused); `call_s` (a call), `compile_s`;
        `is_limited`. What was not measured is None.
    """
    torch.set_num_threads(workload.threads)
    _start_threads()
    return _Trial(workload, contender, device, layer, say).run(limit_mib)


class _Trial:
    """One contender at one shape, and what is told of it so far."""

    def __init__(
        self, workload: Workload, contender: str, device: Device, layer: str | None, say: Callable[[str, str], None]
    ) -> None:
        self._workload, self._contender, self._device, self._layer = workload, contender, device, layer
        self._say_to = say
        self._limit: int | None = None
        self.told: dict[str, Any] = {"status": "ok", "reason": "", "is_limited": False} | dict.fromkeys(
            ("peak_mib", "held_mib", "call_s", "compile_s", "compiler_mib", "before_mib", "failed_at_mib", "asked_mib")
        )

    def run(self, limit_mib: float | None) -> dict[str, Any]:
        """Builds, compiles where it is to, and calls; whatever is raised on the way is told."""
        resident, self.told["base_mib"] = status_bytes("VmRSS"), self._held_mib()
        self._limit = None if limit_mib is None else int(limit_mib * MIB)
        try:
            if is_compiled(self._contender):
                self._say_phase("compile")
                start_compiler(self._device)
                self._note_compiler(0)
            self._require_room("torch" if not is_compiled(self._contender) else "torch and its compiler")
            self.told["is_limited"] = self._limit is not None and self._device.limit_bytes(self._limit)
            self._call_all()
        except _NoRoom as error:
            self.told["status"], self.told["reason"] = REFUSED, str(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a layer raises is the layer's, also an exit
            # Before it is let go of: its frames still hold the tensors of the call.
            self.told["failed_at_mib"] = self._held_mib()
            self._note_failure(error)
        highest = status_bytes("VmHWM")
        if resident is not None and highest is not None:
            self.told["held_mib"] = max(0, highest - resident) / MIB
        return self.told

    def _call_all(self) -> None:
        self._say_phase("build")
        ready = _make(self._workload, self._contender, self._layer)
        self.told["before_mib"] = self._held_mib()
        mode = torch.enable_grad() if self._workload.mode == "training" else torch.inference_mode()
        with mode, fast_path(False):
            self._say_phase("warm-up")
            if is_compiled(self._contender):
                self._compile(ready)
            self.told["call_s"] = self._seconds(ready.call)
            self._say_phase("memory")
            if self._device.no_peak_reason is None:
                self.told["peak_mib"] = self._device.peak_bytes(ready.call) / MIB

    def _compile(self, ready: Contender) -> None:
        """Compiles for this shape by calling: the calls are under the limit, the compiler is not."""
        room = CompilerRoom(self._device, self._limit, self._say_phase)
        try:
            with room:
                compile_now(ready.call, self._device, self._seconds)
        finally:
            self.told["compile_s"] = room.seconds
            self._note_compiler(room.left_bytes)
            if self.told["before_mib"] is not None:
                self.told["before_mib"] += room.left_bytes / MIB
        if self._limit is not None and self.told["is_limited"]:
            self._require_room("torch, its compiler and the layer")

    def _note_compiler(self, more_bytes: int) -> None:
        if self.told["compiler_mib"] is not None:
            self.told["compiler_mib"] += more_bytes / MIB
        elif (now := self._held_mib()) is not None and self.told["base_mib"] is not None:
            self.told["compiler_mib"] = now - self.told["base_mib"]

    def _note_failure(self, error: BaseException) -> None:
        self.told["asked_mib"] = asked_mib(error)
        self.told["status"], self.told["reason"] = failure(error, is_own=self._layer is not None)
        forget(error, give_back=True)
        if self.told["is_limited"] and os.strerror(errno.EAGAIN) in self.told["reason"]:  # a thread needs memory too
            self.told["status"], self.told["reason"] = "oom", "a thread could not be started"
        if self.told["status"] == "oom" and is_compiled(self._contender) and is_compilers(error):
            self.told["status"], self.told["reason"] = "error", f"the compiler itself failed: {self.told['reason']}"
        if self.told["status"] == "oom":
            self._note_held()

    def _note_held(self) -> None:
        """Where the limit refused it, it held all that is between the limit and what it asked for, at least.

        What the call held for a moment is given back before the error is seen here. An accelerator's allocator keeps
        that, and may be refused by the others who share the accelerator rather than by the limit.
        """
        asked, seen = self.told["asked_mib"], self.told["failed_at_mib"]
        is_shared = self._workload.device.partition(":")[0] in DEVICES_WITH_OWN_MEMORY
        if self._limit is not None and self.told["is_limited"] and asked is not None and not is_shared:
            self.told["failed_at_mib"] = max(seen or 0.0, self._limit / MIB - asked)

    def _require_room(self, by_whom: str) -> None:
        held, limit = self._held_mib(), _mib(self._limit)
        if limit is not None and held is not None and held >= limit:
            raise _NoRoom(f"{format_mib(held)} are held by {by_whom} alone, and {format_mib(limit)} may be held")

    def _say_phase(self, phase: str) -> None:
        self._say_to(phase, self._contender)

    def _held_mib(self) -> float | None:
        return _mib(self._device.held_bytes())

    def _seconds(self, call: Callable[[], object]) -> float:
        began = time.perf_counter()
        call()
        self._device.synchronize()
        return time.perf_counter() - began


class _NoRoom(Exception):
    """The limit is spent before the call."""


def _make(workload: Workload, contender: str, layer: str | None) -> Contender:
    x, weights = make_input(workload), make_weights(workload)
    if layer is not None or is_layer(contender):
        assert layer is not None, "a layer of one's own comes with its place"
        return make_user_contender(contender, layer, workload, weights, x)
    return make_contender(contender, workload, weights, x)


def _start_threads() -> None:
    """Has the threads made before the limit: what they cannot be given ends the process."""
    torch.ones(POOL_SIZE, POOL_SIZE) @ torch.ones(POOL_SIZE, POOL_SIZE)


def _mib(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else size_bytes / MIB
