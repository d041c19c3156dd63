"""The operators of each contender's call, as torch's profiler sees them: a pass of its own, never within another.

A profiler slows a process for good (it loads what it needs, and its hooks stay), so a process that did this measures
nothing else: `profiling.measuring.answers` refuses it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mha import fast_path
from profiling.layers import is_compiled
from profiling.measuring.call_recording import record_calls, require_no_profiler_left, stop_profilers
from profiling.measuring.chrome_trace import chrome_trace, kept_trace
from profiling.measuring.contenders.programs import program_cells
from profiling.measuring.contenders.torch_settings import put_back, torch_settings
from profiling.measuring.devices import Device
from profiling.measuring.latency import WARM_UP_CALLS, warm_up
from profiling.measuring.passes import Session, mode_of
from profiling.measuring.recording import device_total_ns, recorded_events
from profiling.measuring.roster import Say
from profiling.operators.landmarks import Shapes
from profiling.operators.recorded import Call, calls_of
from profiling.operators.roles import OperatorTime, label_of, operator_times, summed
from profiling.wording import short_names
from profiling.workload import Workload

# In how many turns a contender's calls are profiled.
_NUM_TURNS = 5
# Seconds of warm-up by the rule of the latency pass, which takes a tenth of it.
_WARM_UP_BUDGET_S = 0.5
_LEFT_RUNNING = "a layer had left torch's profiler running when it was checked: it was stopped"


@dataclasses.dataclass
class _Seen:
    """What was recorded of one contender so far; `device_ns` is None where no kernel was seen."""

    calls: list[Call] = dataclasses.field(default_factory=list)
    device_ns: int | None = None


class OperatorPass:
    """One workload's contenders, built and checked as in a sweep, ready to be profiled one after the other.

    Args:
        workload: the point; its device is `device`, its shape valid.
        contenders: all that are built, those among them that others are compared with.
        profiled: which of them to profile.
        device: where it runs.
        say: told the pass and the contender before each thing that could take the process down.
        layers: contender → file and name with an absolute path, for each layer of one's own.
        reference: what those are compared with.
    """

    def __init__(
        self,
        workload: Workload,
        contenders: list[str],
        profiled: Sequence[str],
        device: Device,
        *,
        say: Say,
        layers: Mapping[str, str],
        reference: str,
    ) -> None:
        self._workload, self._device = workload, device
        self._profiled = profiled
        torch.set_num_threads(workload.threads)
        self._session = Session(workload, contenders, device, say, layers, reference)
        self._shapes = Shapes(
            batch_size=workload.batch_size,
            seq_len=workload.seq_len,
            num_heads=workload.num_heads,
            d_model=workload.d_model,
        )
        if any(map(is_compiled, profiled)):
            _show_compiled_kernels()
        before = torch_settings()
        self._session.build()
        self._session.roster.warn_all(put_back(before))
        with self._mode():
            self._session.prepare()
            self._session.check()

    def profile_all(self, num_calls: int) -> dict[str, dict[str, Any]]:
        """Contender → what became of it: its cells, and its operators by role where it ran to the end.

        The contenders take turns, a few calls each, so that a moment in which the machine is slow falls on all.
        """
        seen: dict[str, _Seen] = {name: _Seen() for name in self._profiled}
        roster = self._session.roster
        with self._mode():
            before = torch_settings()
            roster.warn_all(_LEFT_RUNNING if stop_profilers() else None)
            for name in self._live():
                roster.attempt("operators", name, self._warm_up)
            for count in _turns(num_calls):
                for name in self._live():
                    roster.attempt("operators", name, partial(self._profile_one, seen=seen[name], num_calls=count))
            for name in self._live():
                roster.attempt("operators", name, partial(self._tell, seen=seen[name]))
            roster.warn_all(put_back(before))
        return {name: roster.rows[name].cells for name in self._profiled}

    def trace_bytes(self, num_calls: int) -> int | None:
        """About how long a trace of so many calls of each contender will be; None where nobody is left to trace.

        Raises:
            OSError: there is no room for a trace of even a call or two.
            Unavailable: a contender runs a profiler of its own.
        """
        with self._mode():
            one, two = (self._trace(count) for count in (1, 2))
        return None if one is None or two is None else len(one) + (num_calls - 1) * max(0, len(two) - len(one))

    def write_trace(self, num_calls: int) -> Path:
        """Writes a trace of so many calls of each contender into this process's folder, and tells where it lies.

        Raises:
            ValueError: no contender is left.
            OSError: the file cannot be written.
            Unavailable: a contender runs a profiler of its own.
        """
        with self._mode():
            trace = self._trace(num_calls)
        if trace is None:
            raise ValueError("no contender is left to trace")
        return kept_trace(trace)

    def _live(self) -> list[str]:
        return [name for name in self._profiled if name in self._session.roster.live]

    @contextlib.contextmanager
    def _mode(self) -> Iterator[None]:
        with mode_of(self._workload), fast_path(False):
            yield

    def _warm_up(self, name: str) -> None:
        call = self._session.roster.live[name].call
        warm_up(call, self._device, _WARM_UP_BUDGET_S)
        require_no_profiler_left()
        record_calls({name: call}, WARM_UP_CALLS, self._device)  # the profiler itself has to warm up

    def _profile_one(self, name: str, seen: _Seen, num_calls: int) -> None:
        recorded = record_calls({name: self._session.roster.live[name].call}, num_calls, self._device)
        seen.calls += calls_of(recorded_events(recorded))
        device_ns = device_total_ns(recorded)
        if device_ns is not None:
            seen.device_ns = (seen.device_ns or 0) + device_ns

    def _tell(self, name: str, seen: _Seen) -> None:
        contender = self._session.roster.live[name]
        times = [operator_times(call, self._shapes) for call in seen.calls]
        self._session.roster.rows[name].cells |= {
            **program_cells(contender, self._session.generated.get(name, ())),
            "num_calls": len(seen.calls),
            "total_ns": sum(call.total_ns for call in seen.calls),
            "device_total_ns": seen.device_ns,
            "operators": [vars(each) for each in summed(each for call in times for each in call)],
            "role_ns": _by_role(times),
        }

    def _trace(self, num_calls: int) -> bytes | None:
        """A trace of so many calls of each contender that is left, those of each in a range of its name."""
        live = self._live()
        if not live:
            return None
        for name in live:
            self._session.roster.say_running("trace", name)
        shown = short_names(live)  # without the folders of this machine: a trace is passed on
        calls = {shown[name]: self._session.roster.live[name].call for name in live}
        return chrome_trace(record_calls(calls, num_calls, self._device))


def _turns(num_calls: int) -> list[int]:
    """How many calls are profiled in each turn."""
    num_turns = min(_NUM_TURNS, num_calls)
    return [num_calls // num_turns + (turn < num_calls % num_turns) for turn in range(num_turns)]


def _by_role(times: Sequence[Sequence[OperatorTime]]) -> dict[str, list[int]]:
    """Role in words → its time in each call; 0 in a call in which it did not occur."""
    sums = [Counter[str]() for _ in times]
    for counter, call in zip(sums, times, strict=True):
        for each in call:
            counter[label_of(each.role, each.is_backward)] += each.self_ns
    return {label: [counter[label] for counter in sums] for label in dict.fromkeys(k for each in sums for k in each)}


def _show_compiled_kernels() -> None:
    """Has the functions that inductor generates for a processor tell the profiler when they run."""
    import torch._inductor.config

    torch._inductor.config.cpp.enable_kernel_profile = True
