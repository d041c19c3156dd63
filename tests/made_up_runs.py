"""Runs, rows and children as a test needs them, without measuring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiling.child_process import ChildStopped
from profiling.run_writer import RunWriter
from profiling.runs import Progress, Run
from profiling.settings import REFERENCES, SweepSettings
from profiling.workload import Grid, Workload

ENVIRONMENT = {
    "torch_version": "2.13.0",
    "python_version": "3.11.7",
    "device_name": "Made-up Processor",
    "platform": "Linux x86_64",
    "commit": "0123456789ab",
}


def make_workload(**changes: Any) -> Workload:
    fields: dict[str, Any] = {
        "batch_size": 3,
        "seq_len": 7,
        "num_heads": 2,
        "d_model": 10,
        "dtype": "float32",
        "device": "cpu",
        "mode": "inference",
        "bias": False,
        "causal": False,
        "threads": 1,
        "seed": 42,
    }
    return Workload(**fields | changes)


def make_run(**changes: Any) -> Run:
    grid = Grid(batch_size=(3,), seq_len=(5, 7), num_heads=(2,), d_model=10, device="cpu")
    settings = SweepSettings(contenders=("custom", "official"), replicates=2, time_budget_s=0.02)
    fields: dict[str, Any] = {
        "run_id": "made-up",
        "state": "finished",
        "state_reason": "",
        "started_at": "2026-01-02T03:04:05+00:00",
        "updated_at": "2026-01-02T03:05:05+00:00",
        "ended_at": "2026-01-02T03:05:05+00:00",
        "grid": grid,
        "settings": settings,
        "device": "cpu",
        "threads": 1,
        "environment": ENVIRONMENT,
        "sources": {name: f"hash of {name}" for name in settings.contenders},
        "progress": Progress(done=4, total=4),
        "pid": 1,
        "process_started": 0.0,
    }
    return Run(**fields | changes)


def make_row(contender: str = "custom", *, replicate: int = 1, point: int = 1, **changes: Any) -> dict[str, Any]:
    workload = make_workload(seq_len=(5, 7)[(point - 1) % 2])
    measured = {
        "status": "ok",
        "latency_median_ms": 2.0,
        "num_samples": 5,
        "calls_per_sample": 3,
        "stop_reason": "time budget of 0.02 s spent",
        "throughput_tokens_per_s": 10_500.0,
        "peak_memory_mib": 0.25,
        "max_abs_error_oracle": 1e-7,
        "kernel": "explicit",
        "source_hash": f"hash of {contender}",
        "measured_at": "2026-01-02T03:05:05+00:00",
    }
    if REFERENCES[contender] is not None:
        measured |= {
            "speedup": 1.5,
            "clone_speedup": 1.01,
            "noise_floor": 0.01,
            "max_abs_error": 0.0,
            "error_ratio": 1.0,
        }
        measured["check_verdict"] = "pass"
    return {
        "run_id": "made-up",
        "replicate": replicate,
        "point": point,
        **workload.to_dict(),
        "head_dim": workload.head_dim,
        "contender": contender,
        "reference": REFERENCES[contender],
        **measured,
        **changes,
    }


def lost_row(contender: str, status: str, reason: str, **place: int) -> dict[str, Any]:
    kept = ("run_id", "replicate", "point", *Workload.__dataclass_fields__, "head_dim", "contender", "reference")
    row = make_row(contender, **place)
    return {name: row[name] for name in kept} | {"status": status, "status_reason": reason}


def write_run(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> Path:
    writer = RunWriter(folder, make_run(**changes))
    writer.append_measurements(rows)
    return folder


class FakeChild:
    """Stands in for `MeasuringChild`: answers as it is told, and keeps what it was asked.

    `script` maps (contender, seq_len) to an exception to raise whenever that contender is asked for at that length.
    """

    script: dict[tuple[str, int], Exception] = {}  # noqa: RUF012 - set by each test
    asked: list[dict[str, Any]] = []  # noqa: RUF012
    alive: list[FakeChild] = []  # noqa: RUF012
    # What it answers, or raises, when it is asked for the ceilings, in turn; then nothing.
    ceilings: list[dict[str, Any] | Exception] = []  # noqa: RUF012
    torch_version = "2.13.0"

    def __init__(self, *, heap: str = "as-is", lock_fd: int | None = None) -> None:
        self.heap, self.lock_fd, self.is_stopped, self.is_dead = heap, lock_fd, False, False
        FakeChild.alive.append(self)

    @classmethod
    def reset(cls) -> None:
        cls.script, cls.asked, cls.alive, cls.ceilings = {}, [], [], []

    def is_alive(self) -> bool:
        return not self.is_dead

    def stop(self) -> None:
        self.is_stopped = True

    def close(self) -> None:
        self.is_dead = True
        if self in FakeChild.alive:
            FakeChild.alive.remove(self)

    def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
        assert not self.is_dead, "asked after its end"
        FakeChild.asked.append(request)
        if self.is_stopped:
            raise ChildStopped
        if request["request"] == "environment":
            return {
                "device": "cpu",
                "device_name": "Made-up Processor",
                "torch_version": self.torch_version,
                "torch_threads": 1,
                "torch": {"blas": "MKL 2024.2", "heap_pinned": self.heap == "pinned"},
                "sources": {name: f"hash of {name}" for name in REFERENCES},
                "devices": [],
            }
        if request["request"] == "ceilings":
            answer = self.ceilings.pop(0) if self.ceilings else {}
            if isinstance(answer, Exception):
                raise answer
            return answer
        for name in request["contenders"]:
            error = self.script.get((name, request["workload"]["seq_len"]))
            if error is not None:
                raise error
        return {
            "rows": {name: {"status": "ok", "latency_median_ms": 2.0} for name in request["contenders"]},
            "samples_s": {name: [0.002, 0.003] for name in request["contenders"]},
        }


def measured_points(asked: list[dict[str, Any]]) -> list[int]:
    """The sequence lengths that were asked to be measured, in order."""
    return [request["workload"]["seq_len"] for request in asked if request["request"] == "measure"]
