"""Measures one workload: all its contenders together, in separate passes, each of which measures one thing.

A contender that raises costs its own row and nothing else: it leaves the passes that follow, with the reason kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from mha import AttentionWeights, Oracle, fast_path, oracle
from profiling.costs import MIB
from profiling.layers import is_compiled
from profiling.measuring.contenders.compiled import forget_compiled
from profiling.measuring.contenders.known import make_contender, make_input, make_weights, source_hash
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
from profiling.measuring.garbage import forget
from profiling.measuring.latency import Rounds, measure_rounds, warm_up
from profiling.measuring.outputs import compare_with, stale_output
from profiling.measuring.roster import Roster, Row, Say
from profiling.measuring.summaries import cells_of_rounds
from profiling.runs import now
from profiling.settings import CLONE, OFFICIAL, reference_of
from profiling.workload import Workload


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
    session = Session(workload, contenders, device, say, layers or {}, reference)
    # Outside the mode: weights made in inference mode are of another kind, and take torch through slower products than
    # those of a layer that a person made and then used so.
    before = torch_settings()
    session.build()
    session.roster.warn_all(put_back(before))
    with mode_of(workload), fast_path(False):
        before = torch_settings()
        session.prepare()
        session.check()
        session.roster.tell_processes()
        session.time(budget_s, random.Random(order_seed), quiet)
        session.roster.settle_all()
        session.check_again()
        session.measure_memory()
        session.roster.warn_all(put_back(before))
        return session.roster.rows


class Session:
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
        self.first: dict[str, Tensor] = {}  # what layers of one's own gave when they were checked
        self.generated: dict[str, frozenset[str]] = {}  # functions that a compiler made for a contender, by name
        self.roster = Roster({name: self._source_hash(name) for name in contenders}, self.layers, say)

    def build(self) -> None:
        """Makes every contender, and a clone of each reference that some contender is compared with."""
        self.say("build", "")
        try:
            self.x, weights = make_input(self.workload), make_weights(self.workload)
            self.truth_weights = AttentionWeights.of(weights)
        # No memory, or no such dtype on the device, for which MPS has a TypeError.
        except (RuntimeError, MemoryError, NotImplementedError, TypeError) as error:
            for name in self.names:
                self.roster.fail(name, error, is_shared=True)
            return
        for name in self.names:
            self.roster.attempt("build", name, partial(self._make, weights=weights))
        for reference in dict.fromkeys(self._pairs().values()):
            self.roster.attempt("build", CLONE + reference, partial(self._make, weights=weights))

    def prepare(self) -> None:
        """Compiles what is to be compiled, and drops who does not run the program that it is named after."""
        to_compile = [name for name in self.roster.live if is_compiled(name)]
        if to_compile:
            forget_compiled()
        for name in to_compile:
            self.roster.attempt("compile", name, self._compile)
        for name in [name for name in self.roster.live if must_take_fast_path(name.removeprefix(CLONE))]:
            self.roster.attempt("kernel", name, self._require_fast_path)

    def check(self) -> None:
        """Compares every output with the reference's and with the float64 oracle."""
        tried = {
            name: self.roster.attempt("check", name, self._output)
            for name in list(self.roster.live)
            if name in self.names
        }
        outputs = {name: output for name, output in tried.items() if output is not None}
        if outputs:
            self.say("oracle", "")
            truth = self._oracle()
            for name in outputs:
                self.roster.attempt("check", name, partial(self._compare, outputs=outputs, truth=truth))

    def time(self, budget_s: float, rng: random.Random, quiet: Quiet) -> None:
        """Warms up, waits for a quiet machine and times what is left; starts again without one that raises."""
        while self.roster.live:
            call_s = self._warm_up_all(budget_s)
            if quiet.wait():  # what was seen of the calls was seen on a busy machine
                call_s = self._warm_up_all(budget_s)
            watch = Watch(self.device)
            try:
                rounds = self._rounds(budget_s, rng, call_s)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever a layer raises is the layer's: it costs its own row
                self.roster.fail(self.roster.running, error)
            else:
                self._note_latency(rounds, watch.seen(), quiet.waited_s)
                return

    def check_again(self) -> None:
        """Looks whether layers of one's own still computed when they were timed: not a stored output, nor another."""
        for name in [name for name in self.layers if name in self.first and name in self.roster.live]:
            self.roster.attempt("check", name, self._check_again)

    def measure_memory(self) -> None:
        """Takes the peak of each call, and looks which attention program ran. What was timed before stands."""
        for name in [name for name in self.names if name in self.roster.live]:
            self.roster.say_running("memory", name)
            try:
                self._note_memory(name)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever a layer raises is the layer's: its peak stays empty
                status, reason = failure(error)
                self.roster.warn(name, f"memory not measured: {reason}")
                forget(error, give_back=status == "oom")

    # -- steps of the passes ------------------------------------------------------------------------------------------

    def _source_hash(self, name: str) -> str | None:
        return loaded_hash(self.layers[name]) if name in self.layers else source_hash(name)

    def _make(self, name: str, weights: nn.Module) -> None:
        if name in self.layers:
            try:
                self.roster.live[name] = make_user_contender(name, self.layers[name], self.workload, weights, self.x)
            finally:  # it is loaded by now, whatever came of it
                self.roster.rows[name].cells["source_hash"] = loaded_hash(self.layers[name])
            self.roster.rows[name].recipe = self.roster.live[name].recipe
            for text in self.roster.live[name].warnings:
                self.roster.warn(name, text)
        else:
            self.roster.live[name] = make_contender(name.removeprefix(CLONE), self.workload, weights, self.x)

    def _compile(self, name: str) -> None:
        compilation = compile_contender(self.roster.live[name], self.device)
        self.generated[name] = compilation.kernels
        self.roster.rows[name].cells["compile_s"] = compilation.seconds
        for text in compilation.warnings:
            self.roster.warn(name, text)

    def _require_fast_path(self, name: str) -> None:
        require_fast_path(self.roster.live[name], self.generated.get(name, ()))

    def _output(self, name: str) -> Tensor:
        output = self.roster.live[name].forward().detach()
        mine = self.roster.live[name].x
        if mine is not None and not torch.equal(mine, self.x):
            self.roster.warn(name, "writes to its input: each call sees what the one before has left there")
            return output.clone()  # it may be that input
        if name in self.layers:
            self.first[name] = output
        return output

    def _check_again(self, name: str) -> None:
        contender, first = self.roster.live[name], self.first.pop(name)
        fault = stale_output(contender, first)
        if fault:
            self.roster.rows[name].cells["check_verdict"] = "fail"
            self.roster.warn(name, fault)

    def _warm_up_all(self, budget_s: float) -> dict[str, float]:
        warm_up = partial(self._warm_up, budget_s=budget_s)
        tried = {name: self.roster.attempt("warm-up", name, warm_up) for name in list(self.roster.live)}
        call_s = {name: seconds for name, seconds in tried.items() if seconds is not None}
        # A clone's samples are as long as its original's, so that the two differ in nothing.
        return call_s | {clone: call_s[reference] for clone, reference in self._clones().items()}

    def _warm_up(self, name: str, budget_s: float) -> float:
        return warm_up(self.roster.live[name].call, self.device, budget_s)

    def _rounds(self, budget_s: float, rng: random.Random, call_s: Mapping[str, float]) -> Rounds:
        if not self.roster.live:
            return Rounds(samples={}, calls_per_sample={}, stop_reason="no contender left")
        return measure_rounds(
            {name: contender.call for name, contender in self.roster.live.items()},
            self._pairs() | self._clones(),
            self.device,
            budget_s=budget_s,
            rng=rng,
            call_s=call_s,
            on_sample=partial(self.roster.say_running, "latency"),
        )

    def _oracle(self) -> Oracle | None:
        try:
            return oracle(self.x, self.truth_weights, self.workload.num_heads, causal=self.workload.causal)
        except (RuntimeError, MemoryError) as error:
            status, reason = failure(error)
            if status != "oom":
                raise
            forget(error, give_back=True)
            self.roster.warn_all(f"not compared: no memory for the float64 truth ({reason})")
            return None  # the error columns stay empty, the rest of the row stands

    def _compare(self, name: str, outputs: Mapping[str, Tensor], truth: Oracle | None) -> None:
        cells, warnings = compare_with(
            self.references[name],
            name,
            outputs,
            truth,
            shape=self.x.shape,
            dtype=self.x.dtype,
            incomparable=self.roster.live[name].incomparable,
        )
        self.roster.rows[name].cells |= cells
        for text in warnings:
            self.roster.warn(name, text)

    def _pairs(self) -> dict[str, str]:
        """The contender → reference pairs of which both are still in."""
        pairs = {name: self.references[name] for name in self.roster.live if not name.startswith(CLONE)}
        return {name: reference for name, reference in pairs.items() if reference in self.roster.live and reference}

    def _clones(self) -> dict[str, str]:
        clones = {name: name.removeprefix(CLONE) for name in self.roster.live if name.startswith(CLONE)}
        return {clone: reference for clone, reference in clones.items() if reference in self.roster.live}

    def _note_latency(self, rounds: Rounds, seen: Seen, waited_s: float | None) -> None:
        for name, samples in rounds.samples.items():
            if name.startswith(CLONE):
                self.roster.rows[name] = Row({}, samples)
        told = cells_of_rounds(rounds, self.references, self.workload, self.device.clock_step_s)
        for name, (cells, warnings) in told.items():
            self.roster.rows[name].cells |= {**cells, "measured_at": now(), "waited_s": waited_s, **seen.cells}
            self.roster.rows[name].samples_s = rounds.samples[name]
            for text in [*seen.warnings, *warnings, *too_many_threads(self.workload.threads)]:
                self.roster.warn(name, text)

    def _note_memory(self, name: str) -> None:
        cells, call = self.roster.rows[name].cells, self.roster.live[name].call
        cells |= program_cells(self.roster.live[name], self.generated.get(name, ()))
        if self.device.no_peak_reason is None:
            cells["peak_memory_mib"] = self.device.peak_bytes(call) / MIB
        else:
            self.roster.warn(name, self.device.no_peak_reason)


@contextmanager
def mode_of(workload: Workload) -> Iterator[None]:
    """Torch in the mode in which the workload's calls run."""
    if workload.mode == "training":
        with torch.enable_grad():
            yield
    else:
        with torch.inference_mode():
            yield
