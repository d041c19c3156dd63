"""A layer that runs a profiler of its own takes ours away without a word: it is told, and costs its own profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from made_up_runs import make_workload
from own_layers import RIGHT, write_layer
from torch.autograd.profiler import profile

from profiling.measuring.call_recording import record_calls, stop_profilers
from profiling.measuring.devices import Cpu
from profiling.measuring.failures import Unavailable
from profiling.measuring.operators import OperatorPass
from profiling.operators.result import ContenderProfile

PROFILERS = (
    RIGHT
    + """
from torch.autograd.profiler import emit_itt, profile


class Inside(Right):
    def forward(self, x):
        with profile():
            return super().forward(x)


class InsideAnOlderOne(Right):
    def forward(self, x):
        with torch.autograd.profiler_legacy.profile():
            return super().forward(x)


class NeverStops(Right):
    def forward(self, x):
        self.seen = profile()
        self.seen.__enter__()
        return super().forward(x)


class LeavesOneOnce(Right):
    seen = None

    def forward(self, x):
        if LeavesOneOnce.seen is None:
            LeavesOneOnce.seen = profile()
            LeavesOneOnce.seen.__enter__()
        return super().forward(x)


class StopsOurs(Right):
    def forward(self, x):
        if torch.autograd._profiler_enabled():
            torch.autograd._disable_profiler()
        return super().forward(x)
"""
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_layer(tmp_path_factory.mktemp("own"), "profilers.py", PROFILERS)


@pytest.fixture(autouse=True)
def _nothing_runs_on() -> Iterator[None]:
    yield
    assert not stop_profilers()


def profiled(name: str) -> tuple[OperatorPass, dict[str, ContenderProfile]]:
    names = [name, "official"]
    made = OperatorPass(
        make_workload(), names, names, Cpu(), say=lambda *_: None, layers={name: name}, reference="official"
    )
    return made, {each: ContenderProfile.from_answer(each, told) for each, told in made.profile_all(2).items()}


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ("Inside", "it runs torch's profiler within its own call"),
        ("InsideAnOlderOne", "it runs torch's profiler within its own call"),
        ("StopsOurs", "it runs torch's profiler within its own call"),
        ("NeverStops", "it starts torch's profiler within its own call and does not stop it"),
    ],
)
def test_a_layer_that_runs_a_profiler_cannot_be_profiled_and_says_so(path: Path, layer: str, words: str) -> None:
    made, found = profiled(f"{path}:{layer}")
    own, official = found.values()
    assert (own.status, own.is_measured) == ("unavailable", False)
    assert own.status_reason.startswith(words)
    assert own.status_reason.endswith("Take the profiler out of the layer, and profile it again")
    assert (official.status, official.num_calls, official.mismatch) == ("ok", 2, None)
    assert made.trace_bytes(1), "of those that are left"


def test_a_profiler_that_a_layer_left_once_is_stopped_and_told(path: Path) -> None:
    found = profiled(f"{path}:LeavesOneOnce")[1]
    assert [(each.status, each.num_calls, each.mismatch) for each in found.values()] == [("ok", 2, None)] * 2
    assert all("had left torch's profiler running" in each.warnings for each in found.values())


def test_one_call_of_many_that_is_lost_is_noticed() -> None:
    calls = iter(range(3))

    def third_call_profiles() -> None:
        if next(calls) == 2:
            with profile():
                torch.ones(3)

    with pytest.raises(Unavailable, match="torch has one profiler at a time"):
        record_calls({"mine": third_call_profiles}, 3, Cpu())


def test_what_a_call_raises_by_itself_is_its_own() -> None:
    def raises() -> None:
        raise RuntimeError("my own fault")

    with pytest.raises(RuntimeError, match="my own fault"):
        record_calls({"mine": raises}, 1, Cpu())
