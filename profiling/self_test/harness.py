"""What a sweep costs beyond the work that it times: a real one, in a temporary folder, watched from outside."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from profiling.self_test.settings import SHAPES, SelfTestSettings
from profiling.settings import CLONE
from profiling.stopping import StopSwitch
from profiling.sweep import sweep

TIME_BUDGET_S = 1.0


def harness_cost(settings: SelfTestSettings, stop: StopSwitch) -> tuple[float, float]:
    """Wall seconds of a sweep with a budget of 1 s, and the seconds of it inside timed samples.

    Errors are those of `profiling.run_sweep`.
    """
    batch_size, seq_len, num_heads, d_model = SHAPES[-1]
    options = {
        "batch_size": [1, batch_size],
        "seq_len": [seq_len],
        "num_heads": [num_heads],
        "d_model": d_model,
        "device": settings.device,
        "threads": settings.threads,
        "seed": settings.seed,
        "time_budget_s": TIME_BUDGET_S,
        "quiet_wait_s": 0,  # to wait for others is no cost of the harness
    }
    with tempfile.TemporaryDirectory(prefix="mha-bench-self-test-", ignore_cleanup_errors=True) as folder:
        started = time.monotonic()
        sweep(options, Path(folder) / "run", stop=stop)
        wall_s = time.monotonic() - started
        return wall_s, timed_seconds(Path(folder) / "run")


def timed_seconds(folder: Path) -> float:
    """Seconds inside the timed samples of a run: each sample's time of one call, times the calls in it."""
    from profiling.table import load_measurements, load_samples

    rows = load_measurements(folder)
    calls = {
        (row["replicate"], row["point"], row["contender"]): row["calls_per_sample"]
        for row in rows.to_dict("records")
        if row["status"] == "ok"
    }
    total_ms = 0.0
    for sample in load_samples(folder).to_dict("records"):
        # A clone has as many calls in a sample as its original, which takes as long.
        name = str(sample["contender"]).removeprefix(CLONE)
        total_ms += float(sample["latency_ms"]) * int(calls[sample["replicate"], sample["point"], name])
    return total_ms / 1e3
