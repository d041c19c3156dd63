"""What a workload will hold: against sizes worked out by hand, and against what a measuring child really held."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from made_up_runs import make_workload

from profiling import memory_estimate as module
from profiling.child_process import MeasuringChild
from profiling.memory_estimate import (
    CHILD_BASE_MIB,
    check_memory_mib,
    free_memory_mib,
    require_room_for_check,
    workload_memory_mib,
)
from profiling.settings import SweepSettings
from profiling.workload import GridError

# One (B, H, S, S) in float32 is 128 MiB, one (B, S, E) 8 MiB, the four weights 4 MiB.
POINT = {"batch_size": 4, "seq_len": 1024, "num_heads": 8, "d_model": 512}


@pytest.mark.parametrize(("heap", "mode", "copies"), [("pinned", "inference", 4), ("as-is", "training", 4.5)])
def test_scores_dominate_the_memory_of_an_explicit_layer_and_not_of_a_fused_one(
    heap: str, mode: str, copies: float
) -> None:
    point = make_workload(**POINT, mode=mode)
    explicit = workload_memory_mib(point, SweepSettings(contenders=("custom",), heap=heap))
    fused = workload_memory_mib(point, SweepSettings(contenders=("custom-fused",), heap=heap))
    assert explicit - fused == pytest.approx(copies * 128)


def test_a_compiled_layer_is_taken_for_what_it_compiles() -> None:
    point = make_workload(**POINT)
    explicit, fused = (SweepSettings(contenders=(f"compiled:{name}",)) for name in ("custom", "custom-fused"))
    assert workload_memory_mib(point, explicit) - workload_memory_mib(point, fused) == pytest.approx(4 * 128)


def test_what_a_workload_holds_is_the_layers_the_call_and_the_oracle() -> None:
    settings = SweepSettings(contenders=("custom-fused", "official-fused"))  # and the clone: three layers
    layers = (3 + 1) * 4
    call = (8 + 2 * 3) * 8
    oracle = 5 * 2 * 8 + 2 * 4 + 96  # float64, and its blocks
    assert workload_memory_mib(make_workload(**POINT), settings) == pytest.approx(layers + call + oracle)


def test_a_check_holds_scores_tokens_and_weights() -> None:
    expected = CHILD_BASE_MIB + 2.5 * 128 + 25 * 8 + 5 * 4
    assert check_memory_mib(make_workload(**POINT)) == pytest.approx(expected)


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the largest resident size as Linux tells it")
@pytest.mark.parametrize(("mode", "contender"), [("inference", "custom"), ("training", "custom-fused")])
def test_a_measuring_child_holds_about_what_is_told(mode: str, contender: str) -> None:
    point = make_workload(batch_size=1, seq_len=1536, num_heads=8, d_model=128, mode=mode)
    settings = SweepSettings(contenders=(contender,))
    told = CHILD_BASE_MIB + workload_memory_mib(point, settings)
    request = {
        "request": "measure",
        "workload": point.to_dict(),
        "contenders": list(settings.contenders),
        "time_budget_s": 0.01,
        "order_seed": 1,
    }
    with MeasuringChild(heap=settings.heap) as child:
        child.ask(request, limit_s=120)
        status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
    held = int(status.split("VmHWM:")[1].split()[0]) / 1024
    assert told / 2.5 < held < told * 1.5


def test_a_check_that_does_not_fit_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_memory_mib", lambda device: 512.0 if device == "cpu" else None)
    point = make_workload(**POINT)
    told = r"a check at batch 4, seq_len 1024, .* needs about 940 MiB of memory, of which 512 MiB are free"
    with pytest.raises(GridError, match=told):
        require_room_for_check(point, "cpu")
    require_room_for_check(point, "cuda:0")
    require_room_for_check(make_workload(batch_size=2, seq_len=5, num_heads=3, d_model=21), "cpu")


def test_free_memory_is_the_systems_or_the_containers_where_that_is_less(monkeypatch: pytest.MonkeyPatch) -> None:
    system = psutil.virtual_memory().available / 2**20
    for room, expected in ((None, system), (200.0, 200.0), (2.0**40, system)):
        monkeypatch.setattr(module, "memory_room_mib", lambda room=room: room)
        assert free_memory_mib("cpu") == pytest.approx(expected, rel=0.3)
    assert free_memory_mib("mps") is not None  # its memory is the machine's


@pytest.mark.parametrize("device", ["cuda:1", "cuda", "xpu:0"])
def test_a_device_with_memory_of_its_own_has_no_free_memory_that_we_know(device: str) -> None:
    assert free_memory_mib(device) is None
