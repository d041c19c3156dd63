"""Operators as torch's profiler really tells them, and what a process does once it has profiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_runs import make_workload
from own_layers import MISBEHAVING, write_layer
from torch._C._autograd import DeviceType

from profiling.measuring.answers import Answerer
from profiling.measuring.devices import Cpu
from profiling.measuring.operators import OperatorPass
from profiling.measuring.recording import device_total_ns, recorded_events
from profiling.operators.result import ContenderProfile
from profiling.protocol import Marker, encode


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_layer(tmp_path_factory.mktemp("own"), text=MISBEHAVING)


def profiled(*contenders: str, num_calls: int = 3, **changes: Any) -> tuple[OperatorPass, dict[str, ContenderProfile]]:
    said: list[tuple[str, str]] = []
    names = list(contenders)
    layers = {name: name for name in names if ":" in name}
    point = make_workload(**changes)
    made = OperatorPass(
        point, names, names, Cpu(), say=lambda *words: said.append(words), layers=layers, reference="official"
    )
    found = made.profile_all(num_calls)
    return made, {name: ContenderProfile.from_answer(name, told) for name, told in found.items()}


def calls_in(profile: ContenderProfile, role: str, *, is_backward: bool = False) -> dict[str, float]:
    (found,) = (each for each in profile.roles() if (each.role, each.is_backward) == (role, is_backward))
    return {each.name: each.num_calls / profile.num_calls for each in found.operators}


@pytest.fixture(scope="module")
def inference() -> tuple[OperatorPass, dict[str, ContenderProfile]]:
    return profiled("official", "custom", "custom-fused", "official-fused")


def test_each_contender_adds_up_and_is_checked_as_in_a_sweep(
    inference: tuple[OperatorPass, dict[str, ContenderProfile]],
) -> None:
    for name, profile in inference[1].items():
        assert (profile.status, profile.num_calls, profile.mismatch) == ("ok", 3, None), name
        assert profile.is_fused == name.endswith("-fused")
        assert profile.check_verdict == ("pass" if name.startswith("custom") else None)
        assert [len(times) for times in profile.role_ns.values()] == [3] * len(profile.roles())
        assert calls_in(profile, "projections")["aten::mm"] == 1
        assert calls_in(profile, "output projection")["aten::mm"] == 1


def test_explicit_layers_have_the_parts_and_fused_ones_the_kernel(
    inference: tuple[OperatorPass, dict[str, ContenderProfile]],
) -> None:
    explicit, fused = inference[1]["custom"], inference[1]["custom-fused"]
    assert explicit.kernel == "explicit"
    for role, operator in (("scores", "bmm"), ("softmax", "_softmax"), ("weighted sum", "bmm")):
        assert calls_in(explicit, role)[f"aten::{operator}"] == 1
    assert {role.role for role in fused.roles()}.isdisjoint({"scores", "softmax", "weighted sum"})
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in calls_in(fused, "fused attention")


def test_what_the_official_default_call_does_besides_is_other_by_name(
    inference: tuple[OperatorPass, dict[str, ContenderProfile]],
) -> None:
    assert calls_in(inference[1]["official"], "other")["aten::mean"] == 1
    assert not any(role.role == "other" for role in inference[1]["custom"].roles())


def test_the_size_of_a_trace_is_told_from_one_call_and_two(
    inference: tuple[OperatorPass, dict[str, ContenderProfile]],
) -> None:
    made, profiles = inference
    expected = made.trace_bytes(3)
    path = made.write_trace(3)
    try:
        text = path.read_text(encoding="ascii")
    finally:
        path.unlink()
    assert expected == pytest.approx(len(text), rel=0.05)
    names = [event["name"] for event in json.loads(text)["traceEvents"] if event.get("cat") == "user_annotation"]
    assert names.count("mha-bench: call") == 3 * len(profiles)
    assert set(profiles) <= set(names)
    assert str(path.parent) not in text


def test_training_has_each_role_again_backward(mine: Path) -> None:
    _, found = profiled("official", f"{mine}:Right", mode="training", num_calls=2)
    right = found[f"{mine}:Right"]
    assert (right.status, right.mismatch, right.check_verdict) == ("ok", None, "pass")
    for role, count in (("projections", 6), ("scores", 2), ("weighted sum", 2), ("output projection", 2)):
        backward = calls_in(right, role, is_backward=True)
        assert backward.get("aten::mm", 0) + backward.get("aten::bmm", 0) == count, role
    assert "aten::_softmax_backward_data" in calls_in(right, "softmax", is_backward=True)
    assert "autograd engine" in calls_in(right, "framework overhead", is_backward=True)


def test_the_fast_path_is_told_by_what_runs_within_it() -> None:
    _, found = profiled("official-fastpath", bias=True)
    fast = found["official-fastpath"]
    assert (fast.kernel, fast.mismatch) == ("official fast path", None)
    assert calls_in(fast, "scores")["aten::bmm"] == 1
    assert calls_in(fast, "weighted sum")["aten::bmm"] == 1
    assert set(calls_in(fast, "other")) == {"aten::_native_multi_head_attention"}


def test_a_layer_that_raises_costs_its_own_profile_only(mine: Path) -> None:
    made, found = profiled("official", f"{mine}:Raises")
    raises = found[f"{mine}:Raises"]
    assert (raises.status, raises.is_measured) == ("error", False)
    assert "my own fault" in raises.status_reason
    assert found["official"].is_measured
    assert made.trace_bytes(1)


def test_a_process_that_has_profiled_times_nothing_more(tmp_path: Path, mine: Path) -> None:
    child = Answerer(Marker(tmp_path / "running"))

    def ask(request: str, **fields: Any) -> dict[str, Any]:
        return child.answer(encode({"request": request, **fields}))

    point = make_workload().to_dict()
    assert ask("environment", device="cpu").keys() == {"answer"}
    answer = ask("operators", workload=point, contenders=["custom"], profiled=["custom"], num_calls=1)["answer"]
    assert answer["contenders"]["custom"]["status"] == "ok"
    assert (answer["trace_bytes"], answer["no_trace_reason"]) == (None, "")
    json.dumps(answer)
    refused = {
        "measure": {"workload": point, "contenders": ["custom"], "time_budget_s": 0.005, "order_seed": 1},
        "ceilings": {"device": "cpu", "dtypes": ["float32"], "threads": 1, "budget_s": 0.01},
        "time_one_after_other": {"workload": point, "contenders": ["custom"], "seconds_each": 0.01},
        "check": {"workload": point, "contender": "custom"},
        "environment": {"device": "cpu"},
    }
    for request, fields in refused.items():
        assert ask(request, **fields) == {
            "error": "this process has profiled operators, which slows it: ask a fresh one"
        }, request
    assert ask("operators", workload=point, contenders=["custom"], profiled=["custom"], num_calls=1).keys() == {
        "answer"
    }


def test_a_process_that_failed_to_profile_times_nothing_more_either(tmp_path: Path) -> None:
    child = Answerer(Marker(tmp_path / "running"))
    point = make_workload(device="xpu:5").to_dict()
    request = {"request": "operators", "workload": point, "contenders": ["custom"], "profiled": ["custom"]}
    assert "xpu:5" in child.answer(encode({**request, "num_calls": 1}))["error"]
    assert "fresh one" in child.answer(encode({"request": "environment", "device": "cpu"}))["error"]


def test_a_trace_without_a_profile_is_answered_with_the_reason(tmp_path: Path) -> None:
    child = Answerer(Marker(tmp_path / "running"))
    answer = child.answer(encode({"request": "operator_trace", "num_trace_calls": 1}))["answer"]
    assert answer == {"path": None, "reason": "nothing was profiled in this process"}


class Raw:
    """One event as the profiler has it."""

    def __init__(
        self, name: str, activity: str, start: int, length: int, *, on: Any = DeviceType.CPU, **ids: int
    ) -> None:
        self._told = {
            "name": name,
            "activity_type": activity,
            "start_ns": start,
            "duration_ns": length,
            "device_type": on,
        }
        self._told |= {"shapes": [], "sequence_nr": -1, "fwd_thread_id": 0, "start_thread_id": 1}
        self._told |= {"correlation_id": 0, "linked_correlation_id": 0, **ids}

    def __getattr__(self, name: str) -> Any:
        if name not in self._told:
            raise AttributeError(name)
        return lambda: self._told[name]


class Recorded:
    def __init__(self, *events: Raw) -> None:
        self.kineto_results = self
        self._events = events

    def events(self) -> tuple[Raw, ...]:
        return self._events


def test_kernels_are_counted_to_the_operator_that_launched_them() -> None:
    gpu = DeviceType.CUDA
    seen: Any = Recorded(
        Raw("aten::mm", "cpu_op", 10, 20, correlation_id=3),
        Raw("cudaLaunchKernel", "cuda_runtime", 12, 5, correlation_id=901),
        Raw("aten::bmm", "cpu_op", 40, 20, correlation_id=5),
        Raw("sgemm", "kernel", 30, 700, on=gpu, linked_correlation_id=3),
        Raw("splitk_reduce", "kernel", 740, 50, on=gpu, linked_correlation_id=3),
        Raw("mha-bench: call", "gpu_user_annotation", 30, 760, on=gpu, linked_correlation_id=3),
        Raw("lost", "gpu_memset", 800, 11, on=gpu, linked_correlation_id=77),
    )
    assert [(event.name, event.device_ns) for event in recorded_events(seen)] == [("aten::mm", 750), ("aten::bmm", 0)]
    assert device_total_ns(seen) == 761


def test_without_an_accelerator_no_time_of_one_is_told() -> None:
    seen: Any = Recorded(Raw("aten::mm", "cpu_op", 10, 20, fwd_thread_id=1, sequence_nr=13))
    (event,) = recorded_events(seen)
    assert (event.device_ns, event.is_node, event.sequence, event.end_ns) == (None, True, 13, 30)
    assert device_total_ns(seen) is None


def test_the_accumulation_of_gradients_is_the_engines() -> None:
    seen: Any = Recorded(Raw("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "cpu_op", 1, 2))
    assert recorded_events(seen)[0].is_node


def test_this_torch_tells_what_kind_of_activity_each_event_is() -> None:
    with torch.autograd.profiler.profile() as seen, torch.autograd.profiler.record_function("mine"):
        torch.ones(3).sum()
    assert {event.activity_type() for event in seen.kineto_results.events()} >= {"cpu_op", "user_annotation"}


def test_a_name_of_ones_own_is_cut_however_long_it_is() -> None:
    name = "a" * 100_000 + "z"
    with torch.autograd.profiler.profile() as seen, torch.autograd.profiler.record_function(name):
        pass
    (event,) = [event for event in recorded_events(seen) if event.name.startswith("aa")]
    assert len(event.name) == 400
    assert event.name.endswith("z")
