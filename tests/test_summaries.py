from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import make_workload

from profiling.estimate import call_flop
from profiling.measuring.latency import Rounds
from profiling.measuring.summaries import cells_of_rounds, latency_cells, quantile


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert quantile(sorted(values), share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-9)


def test_the_latency_columns_of_known_samples() -> None:
    point = make_workload(mode="training")
    cells = latency_cells([0.005, 0.001, 0.002, 0.004, 0.003], point)
    assert [cells[f"latency_{q}_ms"] for q in ("p5", "p25", "median", "p75", "p95")] == [
        pytest.approx(ms) for ms in (1.2, 2.0, 3.0, 4.0, 4.8)
    ]
    assert cells["num_samples"] == 5
    assert cells["throughput_tokens_per_s"] == pytest.approx(21 / 0.003)
    assert cells["achieved_gflop_per_s"] == pytest.approx(call_flop(point) / 0.003 / 1e9)


def test_the_cells_of_rounds_by_hand() -> None:
    rounds = Rounds(
        samples={
            "custom": [0.002, 0.002, 0.004],
            "official": [0.003, 0.004, 0.004],
            "clone:official": [0.0025, 0.004, 0.005],
            "official-fused": [0.001, 0.001, 0.001],
        },
        calls_per_sample={"custom": 2, "official": 3, "clone:official": 3, "official-fused": 5},
        stop_reason="time budget of 0.01 s spent",
        faults_per_call={"custom": 7.0, "official": 0.0, "clone:official": 0.0, "official-fused": None},
    )
    references = {"custom": "official", "official": None, "official-fused": None}
    found = cells_of_rounds(rounds, references, make_workload(), 1e-7)
    assert list(found) == ["custom", "official", "official-fused"]
    cells, _ = found["custom"]
    # Ratios 1.5, 2 and 1; of the clone 1.2, 1 and 0.8.
    assert (cells["speedup"], cells["clone_speedup"], cells["noise_floor"]) == (pytest.approx(1.5), 1.0, 0.0)
    assert (cells["calls_per_sample"], cells["page_faults_per_call"]) == (2, 7.0)
    assert "speedup" not in found["official"][0]
    assert found["official-fused"][0]["page_faults_per_call"] is None
    assert any("3 rounds only" in text for text in found["custom"][1])


def test_a_contender_whose_reference_was_not_timed_has_no_speedup() -> None:
    rounds = Rounds(
        samples={"custom": [0.002]}, calls_per_sample={"custom": 2}, stop_reason="", faults_per_call={"custom": 0.0}
    )
    cells, _ = cells_of_rounds(rounds, {"custom": "official"}, make_workload(), 1e-7)["custom"]
    assert "speedup" not in cells
    assert cells["latency_median_ms"] == 2.0
