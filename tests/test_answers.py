from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_runs import make_workload

from profiling.measuring.answers import Answerer
from profiling.measuring.contenders.known import source_hash
from profiling.measuring.devices import Cpu
from profiling.measuring.torch_environment import torch_environment
from profiling.protocol import Marker, encode


@pytest.fixture
def child(tmp_path: Path) -> Answerer:
    return Answerer(Marker(tmp_path / "running"))


def ask(child: Answerer, request: str, **fields: Any) -> dict[str, Any]:
    return child.answer(encode({"request": request, **fields}))


def test_the_environment_names_device_torch_and_sources(child: Answerer) -> None:
    answer = ask(child, "environment", device="cpu")["answer"]
    assert answer["device"] == "cpu"
    assert answer["torch_threads"] >= 1
    assert answer["torch"] == torch_environment("cpu")
    assert answer["sources"]["custom"] == source_hash("custom")
    assert answer["devices"][-1]["kind"] == "cpu"


def test_an_absent_device_is_answered_with_a_sentence(child: Answerer) -> None:
    answer = ask(child, "environment", device="xpu:5")
    assert answer.keys() == {"error"}
    assert "xpu:5" in answer["error"]


def test_a_measurement_waits_as_far_as_it_may_and_says_so_where_the_asker_looks(
    child: Answerer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cpu, "other_processes", lambda _: 1)  # one that stays
    monkeypatch.setattr("profiling.measuring.disturbance.quiet.LOOK_S", 0.01)
    answer = ask(
        child,
        "measure",
        workload=make_workload().to_dict(),
        contenders=["official"],
        time_budget_s=0.005,
        order_seed=7,
        quiet_wait_s=0.015,
    )["answer"]
    waited_s = answer["rows"]["official"]["waited_s"]
    assert waited_s >= 0.01
    assert Marker(tmp_path / "running").read().waited_s == 0.01
    assert ask(child, "environment", device="cpu")
    assert Marker(tmp_path / "running").read().waited_s == 0.0


def test_a_measurement_answers_rows_and_samples_also_of_the_clones(child: Answerer) -> None:
    answer = ask(
        child,
        "measure",
        workload=make_workload().to_dict(),
        contenders=["custom", "official"],
        time_budget_s=0.005,
        order_seed=7,
    )["answer"]
    assert set(answer["rows"]) == {"custom", "official"}
    assert set(answer["samples_s"]) == {"custom", "official", "clone:official"}
    assert len({len(samples) for samples in answer["samples_s"].values()}) == 1


@pytest.mark.parametrize("contender", ["custom", "custom-fused"])
def test_a_check_answers_a_verdict_with_its_evidence(child: Answerer, contender: str) -> None:
    answer = ask(child, "check", workload=make_workload().to_dict(), contender=contender)["answer"]
    assert answer["verdict"] == "pass"
    assert answer["max_abs_error"] == 0.0
    assert 0 < answer["official_max_abs_error_oracle"] < 1e-5
    assert 0 < answer["max_abs_error_oracle"] < 1e-5
    assert answer["seconds"] > 0
    assert answer["mapping"]


def test_a_check_of_a_wrong_layer_fails(child: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    from mha import MultiHeadAttention
    from profiling.measuring import answers as module

    class Unscaled(MultiHeadAttention):
        """Forgets to scale the scores."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.scale = 1.0

    monkeypatch.setitem(module.LAYERS, "custom", Unscaled)
    answer = ask(child, "check", workload=make_workload().to_dict(), contender="custom")["answer"]
    assert answer["verdict"] == "fail"
    assert answer["max_abs_error"] > 0.01


def test_a_request_that_nobody_knows_looks_like_a_bug(child: Answerer) -> None:
    with pytest.raises(KeyError):
        ask(child, "dance")
