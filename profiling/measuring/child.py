"""The measuring child: answers one request per line until its input ends.

The protocol has descriptors of its own: what a layer prints goes to standard error and cannot break an answer.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch

from mha import check_consistency
from profiling.measuring.contenders import LAYERS, NEED_WEIGHTS, source_hash, torch_dtype
from profiling.measuring.devices import UnavailableDevice, available_devices, find_device
from profiling.measuring.passes import measure
from profiling.protocol import Marker, decode, encode
from profiling.settings import REFERENCES
from profiling.workload import Workload

ORPHANED = 3


def main(marker: Path) -> None:
    """Serves requests from standard input to standard output until the input ends."""
    requests, answers = _private_descriptors()
    child = Child(Marker(marker))
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests, inbox), daemon=True).start()
    while True:
        answers.write(encode(child.answer(inbox.get())))
        answers.flush()


class Child:
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


def _private_descriptors() -> tuple[int, IO[bytes]]:
    """Takes standard input and output for the protocol; prints go to standard error, reads find nothing."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return requests, os.fdopen(answers, "wb")


def _read_requests(descriptor: int, inbox: queue.SimpleQueue[bytes]) -> None:
    with os.fdopen(descriptor, "rb") as stream:
        for line in stream:
            inbox.put(line)
    # Whoever asked is gone, so nobody can use the measurement in flight: end at once and free the device.
    os._exit(ORPHANED)
