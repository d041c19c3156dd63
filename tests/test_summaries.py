from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import make_workload

from profiling.estimate import call_flop
from profiling.measuring.summaries import latency_cells, quantile


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
