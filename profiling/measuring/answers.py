"""Answers the requests of a sweep or a live check: what the device is, measure a workload, check a layer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from mha import check_consistency
from profiling.measuring.contenders import LAYERS, NEED_WEIGHTS, source_hash, torch_dtype
from profiling.measuring.devices import UnavailableDevice, available_devices, find_device
from profiling.measuring.passes import failure, measure
from profiling.protocol import Marker, decode
from profiling.settings import REFERENCES
from profiling.workload import Workload


class Answerer:
    """Answers requests: `environment`, `measure` and `check`."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self._handlers: dict[str, Callable[..., dict[str, Any]]] = {
            "environment": self._environment,
            "measure": self._measure,
            "check": self._check,
        }

    def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to one request line; a request that cannot be served is answered with the reason."""
        request = decode(line)
        handler = self._handlers[request.pop("request")]
        try:
            return {"answer": handler(**request)}
        except (UnavailableDevice, ValueError) as error:
            return {"error": str(error)}
        except (RuntimeError, MemoryError) as error:  # a shape that is too large for this machine
            return {"error": ": ".join(failure(error))}

    def _environment(self, device: str) -> dict[str, Any]:
        found = find_device(device)
        return {
            "device": found.name,
            "device_name": found.description,
            "torch_version": torch.__version__,
            "torch_threads": torch.get_num_threads(),
            "sources": {name: source_hash(name) for name in LAYERS},
            "devices": [
                {"name": each.name, "kind": each.name.partition(":")[0], "description": each.description}
                for each in available_devices()
            ],
        }

    def _measure(
        self, workload: dict[str, Any], contenders: list[str], time_budget_s: float, order_seed: int
    ) -> dict[str, Any]:
        point = Workload.from_dict(workload)
        rows = measure(
            point,
            contenders,
            find_device(point.device),
            budget_s=time_budget_s,
            order_seed=order_seed,
            say=self._marker.write,
        )
        return {
            "rows": {name: row.cells for name, row in rows.items() if row.cells},
            "samples_s": {name: row.samples_s for name, row in rows.items() if row.samples_s},
        }

    def _check(self, workload: dict[str, Any], contender: str) -> dict[str, Any]:
        point = Workload.from_dict(workload)
        torch.set_num_threads(point.threads)
        self._marker.write("check", contender)
        started = time.perf_counter()
        report = check_consistency(
            LAYERS[contender],
            d_model=point.d_model,
            num_heads=point.num_heads,
            batch_size=point.batch_size,
            seq_len=point.seq_len,
            dtype=torch_dtype(point),
            device=find_device(point.device).torch_device,
            bias=point.bias,
            causal=point.causal,
            need_weights=NEED_WEIGHTS[REFERENCES[contender] or contender],
            seed=point.seed,
        ).to_dict()
        asked = report["comparisons"][0] if report["comparisons"] else {}
        errors = {name: asked.get(name) for name in ("max_abs_error_oracle", "official_max_abs_error_oracle")}
        seconds = time.perf_counter() - started
        return {**report, **errors, "torch_version": torch.__version__, "seconds": seconds}
