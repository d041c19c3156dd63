"""Stand-ins for what measures, so that the page's tests need neither torch nor time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from profiling.workload import Workload

ENVIRONMENT = {
    "device": "cpu",
    "device_name": "Test CPU",
    "torch_version": "2.13.0",
    "torch_threads": 2,
    "devices": [{"name": "cpu", "kind": "cpu", "description": "Test CPU"}],
}


def report(**changes: Any) -> dict[str, Any]:
    """A check's report as the measuring process gives it; `changes` replace fields."""
    comparison = {
        **{"d_model": 512, "num_heads": 4, "batch_size": 1, "seq_len": 64, "verdict": "pass"},
        **{"max_abs_error": 0.0, "error_ratio": 0.87, "num_non_finite": 0},
    }
    return {
        "verdict": "pass",
        "reason": "as near the float64 truth as the official layer at 2 of 2 shapes",
        "scope": "eval mode without gradients",
        "max_abs_error": 6e-8,
        "error_ratio": 0.87,
        "tolerance": 2.0,
        "plain_tolerance": 1e-5,
        "plain_holds": True,
        "num_non_finite": 0,
        "comparisons": [comparison, {**comparison, "d_model": 14, "max_abs_error": 6e-8}],
        "mapping": [{"theirs": "W_Q.weight", "official": "in_proj_weight[0:64]", "how": "copied"}],
        "torch_version": "2.13.0",
        "seconds": 0.01,
        **changes,
    }


def full_report(**changes: Any) -> dict[str, Any]:
    """A report of a layer that fails, with everything that a check can find; `changes` replace fields."""
    worst = {"worst": [1, 5, 11], "max_abs_error": 0.27, "error_ratio": 4e5, "verdict": "fail"}
    asked = {**report()["comparisons"][0], **worst}
    return report(
        **{
            "verdict": "fail",
            "reason": "at d_model 15: 3e5 times as far from the truth as the official layer",
            "max_abs_error": 0.31,
            "error_ratio": 4e5,
            "plain_holds": False,
            "comparisons": [asked, {**asked, "d_model": 14, "max_abs_error": 0.31}],
            "unmatched": ["norm.weight"],
            "diagnosis": [
                {"fault": "scale-d-model", "sentence": "The scores are divided by sqrt(d_model): use head_dim."}
            ],
            "parts": [
                {
                    "part": "self-attention",
                    "verdict": "fail",
                    "max_abs_error": 0.27,
                    "error_ratio": 4e5,
                    "reason": "off",
                },
                {"part": "key padding", "verdict": "not-run", "max_abs_error": None, "error_ratio": None, "reason": ""},
            ],
            "gradients": [
                {"name": "input", "max_abs_error": 1e-7, "error_ratio": 0.9, "verdict": "pass"},
                {"name": "W_Q.weight", "max_abs_error": 0.5, "error_ratio": 5e5, "verdict": "fail"},
            ],
            "probes": [{"probe": "equal tokens", "finding": "the weights sum to one"}],
            "notes": ["it divides by a constant that depends on the width"],
            "error_map": {"positions": [0, 1, 2], "heads": [0, 1], "values": [[0.0, 1e-7], [0.27, 0.0], [None, 3e-8]]},
            "planted_caught": 14,
            "planted_total": 14,
            **changes,
        }
    )


class FakeChecker:
    """Answers checks from a dictionary by contender: a report, or an exception to raise."""

    def __init__(self, answers: dict[str, Any] | None = None, *, environment: Any = ENVIRONMENT) -> None:
        self.answers = answers or {}
        self.asked: list[tuple[Workload, str]] = []
        self.options: list[dict[str, Any]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_closed = False
        self._environment = environment

    def environment(self) -> dict[str, Any]:
        if isinstance(self._environment, Exception):
            raise self._environment
        return self._environment

    def check(self, workload: Workload, contender: str, **options: Any) -> dict[str, Any]:
        assert self.may_answer.wait(10)
        self.asked.append((workload, contender))
        self.options.append(options)
        answer = self.answers.get(contender, report())
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.is_closed = True


class FakeJobs:
    """Remembers what it was asked for and starts nothing."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.resumed: list[Any] = []
        self.added: list[Any] = []
        self.stopped: list[Any] = []
        self.refusal: Exception | None = None
        self.last = None

    def start(self, grid: Any, settings: Any, device: str) -> Any:
        if self.refusal is not None:
            raise self.refusal
        self.started.append((grid, settings, device))
        return type("Job", (), {"run_id": "new"})()

    def resume(self, run: Any) -> None:
        self.resumed.append(run.run_id)

    def add_replicates(self, run: Any, replicates: int) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.added.append((run.run_id, replicates))

    def stop(self, run: Any) -> None:
        self.stopped.append(run.run_id)

    def of(self, run_id: str) -> None:
        return None

    def alive(self) -> None:
        return None


def opened(**params: str) -> AppTest:
    """The page as its address opens it, without an exception in it."""
    app = AppTest.from_file(str(Path(__file__).resolve().parent.parent / "dashboard" / "app.py"), default_timeout=20)
    app.query_params.update(params)
    app.run()
    assert not app.exception
    return app
