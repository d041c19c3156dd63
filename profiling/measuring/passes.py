"""Measures one workload: all its contenders together, in separate passes, each of which measures one thing.

A contender that raises costs its own row and nothing else: it leaves the passes that follow, with the reason kept.
"""

from __future__ import annotations

import dataclasses
import gc
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mha import AttentionWeights, Oracle, fast_path, oracle
from profiling.costs import MIB
from profiling.layers import is_compiled
from profiling.measuring.contenders.compiled import forget_compiled
from profiling.measuring.contenders.known import Contender, make_contender, make_input, make_weights, source_hash
from profiling.measuring.contenders.loading import loaded_hash
from profiling.measuring.contenders.own import make_user_contender
from profiling.measuring.contenders.programs import (
    compile_contender,
    must_take_fast_path,
    program_cells,
    require_fast_path,
)
from profiling.measuring.contenders.torch_settings import put_back, torch_settings
from profiling.measuring.devices import Device
from profiling.measuring.disturbance.machine_signs import Seen, Watch, too_many_threads
from profiling.measuring.disturbance.quiet import Quiet
from profiling.measuring.failures import failure
from profiling.measuring.latency import Rounds, measure_rounds, warm_up
from profiling.measuring.outputs import compare_with, stale_output
from profiling.measuring.summaries import cells_of_rounds
from profiling.runs import now
from profiling.settings import CLONE, OFFICIAL, reference_of
from profiling.workload import Workload

T = TypeVar("T")

Say = Callable[[str, str], None]


@dataclasses.dataclass
class Row:
    """What became of one contender: its cells, by the names of `profiling.columns`."""

    cells: dict[str, Any]
    samples_s: list[float]


def measure(
    workload: Workload,
    contenders: list[str],
    device: Device,
    *,
    budget_s: float,
    order_seed: int,
    say: Say,
    layers: Mapping[str, str] | None = None,
    reference: str = OFFICIAL[0],
    quiet_wait_s: float = 0.0,
    on_wait: Callable[[float], None] = lambda _: None,
) -> dict[str, Row]:
    """Measures a workload and returns contender → row.

    Args:
        workload: the point; its device is `device`, its shape valid.
        contenders: which layers; a reference that is not among them leaves its pairs without speed-up.
        device: where it runs.
        budget_s: seconds of timed rounds per contender; a clone of a reference counts as one.
        order_seed: seed of the random order within the rounds.
        say: told the pass and the contender before each thing that could take the process down.
        layers: contender → file and name with an absolute path, for each layer of one's own.
        reference: what those are compared with.
        quiet_wait_s: seconds that may be waited for a quiet machine; 0 for never.
        on_wait: told, before each further wait, how many seconds of waiting there will have been.
    """
    torch.set_num_threads(workload.threads)
    quiet = Quiet(device, quiet_wait_s, on_wait)
    session = _Session(workload, contenders, device, say, layers or {}, reference)
    # Outside the mode: weights made in inference mode are of another kind, and take torch through slower products than
    # those of a layer that a person made and then used so.
    before = torch_settings()
    session.build()
    session.warn_all(put_back(before))
    with _mode(workload), fast_path(False):
        before = torch_settings()
        session.prepare()
        session.check()
        session.time(budget_s, random.Random(order_seed), quiet)
        session.check_again()
        session.measure_memory()
        session.warn_all(put_back(before))
        return session.rows


class _Session:
    """One workload on its way through the passes: who is still in it, and the rows so far."""

    def __init__(
        self,
        workload: Workload,
        contenders: list[str],
        device: Device,
        say: Say,
        layers: Mapping[str, str],
        reference: str,
    ) -> None:
        self.workload, self.device, self.say = workload, device, say
        self.names, self.layers = contenders, layers
        self.references = {name: reference_of(name, reference) for name in contenders}
        self.live: dict[str, Contender] = {}
        self.first: dict[str, Tensor] = {}  # what layers of one's own gave when they were checked
        self.generated: dict[str, frozenset[str]] = {}  # functions that a compiler made for a contender, by name
        self.rows = {name: Row({"status": "ok", "source_hash": self._source_hash(name)}, []) for name in contenders}

    def build(self) -> None:
        """Makes every contender, and a clone of each reference that some contender is compared with."""
        self.say("build", "")
        try:
            self.x, weights = make_input(self.workload), make_weights(self.workload)
            self.truth_weights = AttentionWeights.of(weights)
        except (RuntimeError, MemoryError, NotImplementedError) as error:  # no memory, or no such dtype on the device
            for name in self.names:
                self._fail(name, error, is_own=False)
            return
        for name in self.names:
            self._attempt("build", name, partial(self._make, weights=weights))
        for reference in dict.fromkeys(self._pairs().values()):
            self._attempt("build", CLONE + reference, partial(self._make, weights=weights))

    def prepare(self) -> None:
        """Compiles what is to be compiled, and drops who does not run the program that it is named after."""
        to_compile = [name for name in self.live if is_compiled(name)]
        if to_compile:
            forget_compiled()
        for name in to_compile:
            self._attempt("compile", name, self._compile)
        for name in [name for name in self.live if must_take_fast_path(name.removeprefix(CLONE))]:
            self._attempt("kernel", name, self._require_fast_path)

    def check(self) -> None:
        """Compares every output with the reference's and with the float64 oracle."""
        tried = {name: self._attempt("check", name, self._output) for name in list(self.live) if name in self.names}
        outputs = {name: output for name, output in tried.items() if output is not None}
        if outputs:
            self.say("oracle", "")
            truth = self._oracle()
            for name in outputs:
                self._attempt("check", name, partial(self._compare, outputs=outputs, truth=truth))

    def time(self, budget_s: float, rng: random.Random, quiet: Quiet) -> None:
        """Warms up, waits for a quiet machine and times what is left; starts again without one that raises."""
        while self.live:
            call_s = self._warm_up_all(budget_s)
            if quiet.wait():  # what was seen of the calls was seen on a busy machine
                call_s = self._warm_up_all(budget_s)
            watch = Watch(self.device)
            try:
                rounds = self._rounds(budget_s, rng, call_s)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever a layer raises is the layer's: it costs its own row
                self._fail(self.running, error, is_own=self.running in self.layers)
            else:
                self._note_latency(rounds, watch.seen(), quiet.waited_s)
                return

    def check_again(self) -> None:
        """Looks whether layers of one's own still computed when they were timed: not a stored output, nor another."""
        for name in [name for name in self.layers if name in self.first and name in self.live]:
            self._attempt("check", name, self._check_again)

    def warn_all(self, text: str | None) -> None:
        """Tells it in the row of every contender, if there is anything to tell."""
        for name in self.names if text else ():
            self._warn(name, text or "")

    def measure_memory(self) -> None:
        """Takes the peak of each call, and looks which attention program ran. What was timed before stands."""
        for name in [name for name in self.names if name in self.live]:
            self._say_running("memory", name)
            try:
                self._note_memory(name)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever a layer raises is the layer's: its peak stays empty
                self._warn(name, f"memory not measured: {failure(error)[1]}")

    # -- steps of the passes ------------------------------------------------------------------------------------------

    def _source_hash(self, name: str) -> str | None:
        return loaded_hash(self.layers[name]) if name in self.layers else source_hash(name)

    def _make(self, name: str, weights: nn.Module) -> None:
        if name in self.layers:
            self.live[name] = make_user_contender(name, self.layers[name], self.workload, weights, self.x)
            for text in self.live[name].warnings:
                self._warn(name, text)
        else:
            self.live[name] = make_contender(name.removeprefix(CLONE), self.workload, weights, self.x)

    def _compile(self, name: str) -> None:
        compilation = compile_contender(self.live[name], self.device)
        self.generated[name] = compilation.kernels
        self.rows[name].cells["compile_s"] = compilation.seconds
        for text in compilation.warnings:
            self._warn(name, text)

    def _require_fast_path(self, name: str) -> None:
        require_fast_path(self.live[name], self.generated.get(name, ()))

    def _output(self, name: str) -> Tensor:
        output = self.live[name].forward().detach()
        mine = self.live[name].x
        if mine is not None and not torch.equal(mine, self.x):
            self._warn(name, "writes to its input: each call sees what the one before has left there")
            return output.clone()  # it may be that input
        if name in self.layers:
            self.first[name] = output
        return output

    def _check_again(self, name: str) -> None:
        contender, first = self.live[name], self.first.pop(name)
        fault = stale_output(contender, first)
        if fault:
            self.rows[name].cells["check_verdict"] = "fail"
            self._warn(name, fault)

    def _warm_up_all(self, budget_s: float) -> dict[str, float]:
        warm_up = partial(self._warm_up, budget_s=budget_s)
        tried = {name: self._attempt("warm-up", name, warm_up) for name in list(self.live)}
        call_s = {name: seconds for name, seconds in tried.items() if seconds is not None}
        # A clone's samples are as long as its original's, so that the two differ in nothing.
        return call_s | {clone: call_s[reference] for clone, reference in self._clones().items()}

    def _warm_up(self, name: str, budget_s: float) -> float:
        return warm_up(self.live[name].call, self.device, budget_s)

    def _rounds(self, budget_s: float, rng: random.Random, call_s: Mapping[str, float]) -> Rounds:
        if not self.live:
            return Rounds(samples={}, calls_per_sample={}, stop_reason="no contender left")
        return measure_rounds(
            {name: contender.call for name, contender in self.live.items()},
            self._pairs() | self._clones(),
            self.device,
            budget_s=budget_s,
            rng=rng,
            call_s=call_s,
            on_sample=partial(self._say_running, "latency"),
        )

    def _oracle(self) -> Oracle | None:
        try:
            return oracle(self.x, self.truth_weights, self.workload.num_heads, causal=self.workload.causal)
        except (RuntimeError, MemoryError) as error:
            if failure(error)[0] != "oom":
                raise
            return None  # no truth to be had: the error columns stay empty, the rest of the row stands

    def _compare(self, name: str, outputs: Mapping[str, Tensor], truth: Oracle | None) -> None:
        cells, warnings = compare_with(
            self.references[name],
            name,
            outputs,
            truth,
            shape=self.x.shape,
            dtype=self.x.dtype,
            incomparable=self.live[name].incomparable,
        )
        self.rows[name].cells |= cells
        for text in warnings:
            self._warn(name, text)

    def _pairs(self) -> dict[str, str]:
        """The contender → reference pairs of which both are still in."""
        pairs = {name: self.references[name] for name in self.live if not name.startswith(CLONE)}
        return {name: reference for name, reference in pairs.items() if reference in self.live and reference}

    def _clones(self) -> dict[str, str]:
        clones = {name: name.removeprefix(CLONE) for name in self.live if name.startswith(CLONE)}
        return {clone: reference for clone, reference in clones.items() if reference in self.live}

    def _note_latency(self, rounds: Rounds, seen: Seen, waited_s: float | None) -> None:
        for name, samples in rounds.samples.items():
            if name.startswith(CLONE):
                self.rows[name] = Row({}, samples)
        told = cells_of_rounds(rounds, self.references, self.workload, self.device.clock_step_s)
        for name, (cells, warnings) in told.items():
            self.rows[name].cells |= {**cells, "measured_at": now(), "waited_s": waited_s, **seen.cells}
            self.rows[name].samples_s = rounds.samples[name]
            for text in [*seen.warnings, *warnings, *too_many_threads(self.workload.threads)]:
                self._warn(name, text)

    def _note_memory(self, name: str) -> None:
        cells, call = self.rows[name].cells, self.live[name].call
        cells |= program_cells(self.live[name], self.generated.get(name, ()))
        if self.device.no_peak_reason is None:
            cells["peak_memory_mib"] = self.device.peak_bytes(call) / MIB
        else:
            self._warn(name, self.device.no_peak_reason)

    def _warn(self, name: str, text: str) -> None:
        said = self.rows[name].cells.get("warnings")
        self.rows[name].cells["warnings"] = f"{said}; {text}" if said else text

    # -- when a contender raises --------------------------------------------------------------------------------------

    def _attempt(self, phase: str, name: str, step: Callable[[str], T]) -> T | None:
        """The step's result, or None where it raised: then the contender is out, and its row says why."""
        self._say_running(phase, name)
        try:
            return step(name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a layer raises is the layer's, also an exit: it costs its own row
            self._fail(name, error, is_own=name in self.layers)
            return None

    def _say_running(self, phase: str, name: str) -> None:
        self.running = name
        self.say(phase, name.removeprefix(CLONE))

    def _fail(self, name: str, error: BaseException, *, is_own: bool) -> None:
        self.live.pop(name, None)
        self.live.pop(CLONE + name, None)
        if name in self.rows:
            status, reason = failure(error, is_own=is_own)
            kept = {"source_hash": self.rows[name].cells["source_hash"]}
            self.rows[name] = Row({"status": status, "status_reason": reason, "measured_at": now(), **kept}, [])
        error.__traceback__ = None  # its frames hold the tensors that were too large
        gc.collect()


@contextmanager
def _mode(workload: Workload) -> Iterator[None]:
    if workload.mode == "training":
        with torch.enable_grad():
            yield
    else:
        with torch.inference_mode():
            yield
