"""Has a workload's operators profiled, in processes that do nothing else, under the device's lock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling.child_process import ChildDied, ChildNotStarted, ChildStopped, MeasuringChild, MeasuringError
from profiling.costs import MIB
from profiling.device_lock import CHECK_PATIENCE_S, DeviceLock, Owner
from profiling.layers import inner_of, is_layer
from profiling.memory_estimate import CHILD_BASE_MIB, free_memory_mib, workload_memory_mib
from profiling.operators.result import ContenderProfile, OperatorProfile
from profiling.output_files import write_named
from profiling.runs import RunError
from profiling.safe_files import reason_of
from profiling.settings import SweepSettings
from profiling.stopping import StopSwitch
from profiling.units import format_mib
from profiling.workload import Grid, GridError, Workload, require_size

START_LIMIT_S = 180.0
PROFILE_LIMIT_S = 120.0
DEFAULT_CALLS, MAX_CALLS = 10, 10_000
# A trace is looked at call by call: a few tell what there is to see.
MAX_TRACE_CALLS = 3
DEFAULT_MAX_TRACE_MIB = 64.0


class TraceNotWritten(Exception):
    """The trace cannot be written, or is larger than allowed; the message is one sentence for a person."""


class OperatorProfiler:
    """Profiles one workload, then writes a trace of it if asked. It holds the device from `profile` to `close`.

    Each profiler has processes of its own, which are ended with it: one that has profiled is too slow to time in.

    Args:
        grid: of one point; `auto` and open threads are settled by the measuring process.
        settings: contenders, reference, layers and heap; the rest is not used.
        profiled: which of the contenders to profile; the others are built to compare with.
        limit_s: seconds after which a contender counts as hanging, and its process is ended.
        stop: gives up the request in flight.

    Raises:
        GridError: the grid has more than one point, or one that cannot be.
    """

    def __init__(
        self,
        grid: Grid,
        settings: SweepSettings,
        profiled: Sequence[str],
        *,
        limit_s: float = PROFILE_LIMIT_S,
        stop: StopSwitch | None = None,
    ) -> None:
        if grid.num_points != 1:
            raise GridError(f"operators are profiled at one point, not at {grid.num_points:,}: give one value for each")
        reason = next(grid.workloads()).invalid_reason
        if reason:
            raise GridError(reason)
        self._grid, self._settings, self._profiled = grid, settings, list(profiled)
        self._limit_s, self._stop = limit_s, stop or StopSwitch()
        self._child: MeasuringChild | None = None
        self._lock: DeviceLock | None = None
        self._num_trace_calls = 0
        self._no_trace_reason = ""

    def profile(
        self,
        num_calls: int = DEFAULT_CALLS,
        *,
        with_trace: bool = False,
        patience_s: float = CHECK_PATIENCE_S,
        on_wait: Callable[[Owner], None] | None = None,
    ) -> OperatorProfile:
        """The operators of so many calls of each contender; with what a trace would take where one is to be written.

        A contender that raises, dies or hangs is told as such, and the others are profiled without it.

        Args:
            num_calls: profiled after warming up.
            with_trace: whether `write_trace` is to follow.
            patience_s: seconds to wait for someone else's check on the device.
            on_wait: told once who is waited for.

        Raises:
            GridError: the number is none that can be, or the workload needs more memory than is free.
            DeviceBusy: someone else measures on the device.
            MeasuringError: torch or the device cannot be used.
            ChildStopped: someone asked to stop.
        """
        require_calls(num_calls)
        self._num_trace_calls = min(num_calls, MAX_TRACE_CALLS) if with_trace else 0
        environment = self._fresh_child().ask(
            {"request": "environment", "device": self._grid.device}, limit_s=START_LIMIT_S
        )
        device = environment["device"]
        workload = next(self._grid.workloads(device=device, threads=environment["torch_threads"]))
        if not self._settings.anyway:
            _require_room(workload, self._settings)
        self._lock = DeviceLock(device)
        self._lock.acquire("profile", patience_s=patience_s, on_wait=on_wait, pause=self._stop.pause)
        answer = self._ask_all(workload, num_calls)
        self._no_trace_reason = answer.get("no_trace_reason", "")
        return OperatorProfile(
            workload=workload,
            contenders=tuple(ContenderProfile.from_answer(name, answer["contenders"][name]) for name in self._profiled),
            device_name=environment["device_name"],
            torch_version=environment["torch_version"],
            trace_bytes=answer.get("trace_bytes"),
            no_trace_reason=self._no_trace_reason,
        )

    def write_trace(self, path: Path, *, max_mib: float = DEFAULT_MAX_TRACE_MIB, expected_bytes: int | None) -> int:
        """Writes the trace of what was profiled, aside and then renamed; returns its bytes.

        Raises:
            TraceNotWritten: it would be larger than `max_mib`, nobody is left to trace, or it cannot be written.
            MeasuringError: the measuring process died of it.
        """
        if expected_bytes is None or self._child is None:
            raise TraceNotWritten(
                f"no trace is written to {path}: {self._no_trace_reason or 'no contender is left to trace'}"
            )
        if expected_bytes > max_mib * MIB:
            raise TraceNotWritten(
                f"the trace would take about {format_mib(expected_bytes / MIB)}, and --max-trace-mib allows "
                f"{format_mib(max_mib)}: allow more, or profile a smaller workload"
            )
        request = {"request": "operator_trace", "num_trace_calls": self._num_trace_calls}
        answer = self._child.ask(request, limit_s=self._limit_s)
        if answer["path"] is None:
            raise TraceNotWritten(f"no trace is written to {path}: {answer['reason']}")
        try:
            text = Path(answer["path"]).read_text(encoding="ascii")
            write_named(path, text)
        except RunError as error:
            raise TraceNotWritten(str(error)) from error
        except OSError as error:
            raise TraceNotWritten(f"{path} cannot be written: {reason_of(error)}") from error
        return len(text)

    def close(self) -> None:
        """Ends the process and gives the device back."""
        if self._child is not None:
            self._child.close()
            self._child = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> OperatorProfiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask_all(self, workload: Workload, num_calls: int) -> dict[str, Any]:
        """The answer for all contenders; one that took a process down says so, and the rest is asked for anew."""
        lost: dict[str, dict[str, Any]] = {}
        while left := [name for name in self._profiled if name not in lost]:
            built = [name for name in self._settings.contenders if name not in lost]
            try:
                answer = self._living_child().ask(
                    self._request(workload, built, left, num_calls), limit_s=self._limit_s
                )
            except (ChildStopped, ChildNotStarted):
                raise
            except ChildDied as death:
                where = f"{self._reason(death)}, in {death.running.phase}"
                is_known = death.running.contender in built
                lost |= {
                    name: {"status": death.status, "status_reason": where}
                    for name in ([death.running.contender] if is_known else left)
                }
            except MeasuringError as error:
                lost |= {name: {"status": error.status, "status_reason": str(error)} for name in left}
            else:
                spoilers = _spoilers(answer["contenders"])
                if not spoilers:
                    return {**answer, "contenders": {**answer["contenders"], **lost}}
                lost |= {name: answer["contenders"][name] for name in spoilers}
                self._fresh_child()
        return {"contenders": lost}

    def _request(self, workload: Workload, built: list[str], left: list[str], num_calls: int) -> dict[str, Any]:
        return {
            "request": "operators",
            "workload": workload.to_dict(),
            "contenders": built,
            "profiled": left,
            "num_calls": num_calls,
            "num_trace_calls": self._num_trace_calls,
            "layers": {name: spec for name, spec in self._settings.layers.items() if name in built},
            "reference": self._settings.reference,
        }

    def _reason(self, death: ChildDied) -> str:
        hint = ": give it longer with --time-limit, or look for an endless loop" if death.status == "timeout" else ""
        return f"{death.reason}{hint}"

    def _living_child(self) -> MeasuringChild:
        return self._child if self._child is not None and self._child.is_alive() else self._fresh_child()

    def _fresh_child(self) -> MeasuringChild:
        if self._child is not None:
            self._child.close()
        try:
            self._child = MeasuringChild(heap=self._settings.heap, lock_fd=self._lock.fd if self._lock else None)
        except OSError as error:
            raise ChildNotStarted(f"no measuring process can be started: {error.strerror or error}") from error
        self._stop.watch(self._child)
        return self._child


def _spoilers(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Layers of one's own that failed beside one of ours or torch's, which fails by itself never: they broke torch."""
    failed = [name for name, each in answers.items() if each["status"] != "ok"]
    own = [name for name in failed if is_layer(inner_of(name))]
    return own if len(own) < len(failed) else []


def require_calls(value: int) -> None:
    """Raises GridError unless `value` is a number of calls to profile that a person can mean."""
    require_size("iterations", value)
    if value > MAX_CALLS:
        raise GridError(f"iterations must be at most {MAX_CALLS:,}, not {value:,}")


def require_trace_place(path: Path) -> None:
    """Raises TraceNotWritten where no file can come to be there, before anything is measured for it."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            raise TraceNotWritten(f"{path} cannot be written: it is a folder")
        if path.parent.is_dir():
            return
    raise TraceNotWritten(f"{path} cannot be written: there is no folder {path.parent}")


def _require_room(workload: Workload, settings: SweepSettings) -> None:
    need, free = CHILD_BASE_MIB + workload_memory_mib(workload, settings), free_memory_mib(workload.device)
    if free is not None and need > free:
        raise GridError(
            f"{workload.label} needs about {format_mib(need)} of memory, of which {format_mib(free)} are free: "
            "profile a smaller shape, or give --anyway"
        )
