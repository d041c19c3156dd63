"""Answers requests: what the device is, measure a workload, check a layer, time what the self-test planted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from mha import check_consistency
from profiling.check_report import error_report
from profiling.layers import COMPILED, LayerFile
from profiling.measuring.abilities import abilities
from profiling.measuring.ceilings import measure_ceilings
from profiling.measuring.contenders.known import LAYERS, NEED_WEIGHTS, source_hash, torch_dtype
from profiling.measuring.contenders.loading import load_layer, place_of, words_of
from profiling.measuring.contenders.process_settings import processes_left, threads_now
from profiling.measuring.devices import UnavailableDevice, available_devices, find_device
from profiling.measuring.failures import Unavailable, failure
from profiling.measuring.garbage import forget
from profiling.measuring.one_after_other import time_one_after_other
from profiling.measuring.one_call import memory_now, try_call
from profiling.measuring.operators import OperatorPass
from profiling.measuring.passes import measure
from profiling.measuring.planted_times import time_planted
from profiling.measuring.torch_environment import torch_environment
from profiling.protocol import Marker, decode
from profiling.settings import OFFICIAL, reference_of
from profiling.workload import Workload

# What a process still answers once it has profiled operators: nothing that is timed, or judged by time.
PROFILING = ("operators", "operator_trace")


class Answerer:
    """Answers requests: of a sweep, of a live check, and of the self-test."""

    def __init__(self, marker: Marker) -> None:
        self._marker, self._own = marker, os.getpid()
        self._handlers: dict[str, Callable[..., dict[str, Any]]] = {
            "environment": self._environment,
            "abilities": self._abilities,
            "measure": self._measure,
            "check": self._check,
            "ceilings": self._ceilings,
            "time_planted": self._time_planted,
            "time_one_after_other": self._time_one_after_other,
            "memory_now": self._memory_now,
            "try_call": self._try_call,
            "operators": self._operators,
            "operator_trace": self._operator_trace,
        }
        # Set by a profile of operators, which slows this process for good.
        self._operator_pass: OperatorPass | None = None
        self._has_profiled = False

    def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to one request line; a request that cannot be served is answered with the reason."""
        request = decode(line)
        self._marker.begin()
        name = request.pop("request")
        handler = self._handlers[name]
        if self._has_profiled and name not in PROFILING:
            return {"error": "this process has profiled operators, which slows it: ask a fresh one"}
        try:
            return {"answer": handler(**request)}
        except (UnavailableDevice, ValueError) as error:
            return {"error": str(error)}
        except (RuntimeError, MemoryError) as error:  # a shape that is too large for this machine
            status, reason = failure(error)
            forget(error)
            return {"error": f"{status}: {reason}", "status": status}

    def _say(self, phase: str, contender: str) -> None:
        if os.getpid() != self._own:
            # A copy that a layer made by a fork and let return: one child measures, and says what it does.
            os._exit(0)
        self._marker.write(phase, contender)

    def _environment(self, device: str) -> dict[str, Any]:
        found = find_device(device)
        return {
            "device": found.name,
            "device_name": found.description,
            "torch_version": torch.__version__,
            "torch_threads": torch.get_num_threads(),
            "torch": torch_environment(found.name),
            "sources": {name: source_hash(name) for inner in LAYERS for name in (inner, COMPILED + inner)},
            "devices": [
                {"name": each.name, "kind": each.name.partition(":")[0], "description": each.description}
                for each in available_devices()
            ],
        }

    def _abilities(self) -> dict[str, Any]:
        self._say("abilities", "")
        return abilities()

    def _measure(
        self,
        workload: dict[str, Any],
        contenders: list[str],
        time_budget_s: float,
        order_seed: int,
        layers: dict[str, str] | None = None,
        reference: str = OFFICIAL[0],
        quiet_wait_s: float = 0.0,
    ) -> dict[str, Any]:
        point = Workload.from_dict(workload)
        threads = threads_now()
        rows = measure(
            point,
            contenders,
            find_device(point.device),
            budget_s=time_budget_s,
            order_seed=order_seed,
            say=self._say,
            layers=layers,
            reference=reference,
            quiet_wait_s=quiet_wait_s,
            on_wait=self._marker.write_waited,
        )
        return {
            "rows": {name: row.cells for name, row in rows.items() if row.cells},
            "samples_s": {name: row.samples_s for name, row in rows.items() if row.samples_s},
            "recipes": {name: row.recipe for name, row in rows.items() if row.recipe},
            # What goes on beside the next workload must not: only the end of this process stops it for certain.
            "is_spoiled": bool(layers) and (bool(threads_now() - threads) or processes_left() > 0),
        }

    def _ceilings(self, device: str, dtypes: list[str], threads: int, budget_s: float) -> dict[str, Any]:
        torch.set_num_threads(threads)
        self._marker.write("ceilings", "")
        return measure_ceilings(find_device(device), dtypes, budget_s=budget_s)

    def _check(
        self,
        workload: dict[str, Any],
        contender: str,
        layer: str | None = None,
        batch_first: bool = True,
        input_scale: float = 1.0,
        self_check: bool = False,
    ) -> dict[str, Any]:
        point = Workload.from_dict(workload)
        torch.set_num_threads(point.threads)
        self._marker.write("check", contender)
        started = time.perf_counter()
        options: dict[str, Any] = {
            "d_model": point.d_model,
            "num_heads": point.num_heads,
            "batch_size": point.batch_size,
            "seq_len": point.seq_len,
            "dtype": torch_dtype(point),
            "device": find_device(point.device).torch_device,
            "causal": point.causal,
            "seed": point.seed,
            "batch_first": batch_first,
            "input_scale": input_scale,
            "self_check": self_check,
        }
        if layer is None:
            options["need_weights"] = NEED_WEIGHTS[reference_of(contender) or contender]
            report = check_consistency(LAYERS[contender], bias=point.bias, **options).to_dict()
        else:
            report = _check_own(layer, point, options)
        asked = report["comparisons"][0] if report["comparisons"] else {}
        errors = {name: asked.get(name) for name in ("max_abs_error_oracle", "official_max_abs_error_oracle")}
        seconds = time.perf_counter() - started
        return {**report, **errors, "torch_version": torch.__version__, "seconds": seconds}

    def _time_planted(
        self, workload: dict[str, Any], time_budget_s: float, order_seed: int, **planted: Any
    ) -> dict[str, Any]:
        point = Workload.from_dict(workload)
        device = find_device(point.device)
        return {"samples_s": time_planted(point, device, budget_s=time_budget_s, order_seed=order_seed, **planted)}

    def _time_one_after_other(
        self, workload: dict[str, Any], contenders: list[str], seconds_each: float
    ) -> dict[str, Any]:
        return {"median_s": time_one_after_other(Workload.from_dict(workload), contenders, seconds_each)}

    def _operators(
        self,
        workload: dict[str, Any],
        contenders: list[str],
        profiled: list[str],
        num_calls: int,
        num_trace_calls: int = 0,
        layers: dict[str, str] | None = None,
        reference: str = OFFICIAL[0],
    ) -> dict[str, Any]:
        self._has_profiled = True
        point = Workload.from_dict(workload)
        device = find_device(point.device)
        self._operator_pass = OperatorPass(
            point, contenders, profiled, device, say=self._say, layers=layers or {}, reference=reference
        )
        found = self._operator_pass.profile_all(num_calls)
        trace_bytes, why_none = None, ""
        try:
            trace_bytes = self._operator_pass.trace_bytes(num_trace_calls) if num_trace_calls else None
        except (OSError, Unavailable) as error:  # what was profiled stands all the same
            why_none = str(error)
        return {"contenders": found, "trace_bytes": trace_bytes, "no_trace_reason": why_none}

    def _operator_trace(self, num_trace_calls: int) -> dict[str, Any]:
        if self._operator_pass is None:
            return {"path": None, "reason": "nothing was profiled in this process"}
        try:
            return {"path": str(self._operator_pass.write_trace(num_trace_calls))}
        except (OSError, ValueError, Unavailable) as error:
            return {"path": None, "reason": str(error)}

    def _memory_now(self, device: str, threads: int) -> dict[str, Any]:
        return memory_now(find_device(device), threads)

    def _try_call(self, workload: dict[str, Any], contender: str, **how: Any) -> dict[str, Any]:
        point = Workload.from_dict(workload)
        return try_call(point, contender, find_device(point.device), say=self._say, **how)


def _check_own(layer: str, point: Workload, options: dict[str, Any]) -> dict[str, Any]:
    """The report on a layer of one's own; whatever it raises, also an exit, is an answer."""
    try:
        # Biases as the layer has, unless they are asked for: set to zero they would hide one that is forgotten.
        return check_consistency(load_layer(layer), bias=point.bias or None, **options).to_dict()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        is_theirs = isinstance(error, ValueError | SystemExit) or place_of(error)
        reason = words_of(error) if is_theirs else f"the check itself broke, which is a fault of it: {words_of(error)}"
        return error_report(reason, f"{LayerFile.from_spec(layer).name} at {point.label}")
