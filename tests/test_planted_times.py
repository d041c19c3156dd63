from __future__ import annotations

from pathlib import Path

import pytest
import torch
from made_up_runs import make_workload

from profiling.child_process import MeasuringChild
from profiling.measuring.devices import find_device
from profiling.measuring.one_after_other import time_one_after_other
from profiling.measuring.planted_times import slowed, time_planted
from profiling.self_test.settings import PLANTED, SelfTestSettings
from profiling.self_test.trials import CONTROL, ONE_AFTER_OTHER, PAIRED, Launcher
from profiling.stopping import StopSwitch


class Clock:
    """A clock that moves by a step at each look, and by the work that is done."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.mark.parametrize(("work_ns", "slowdown"), [(1000, 1.03), (7001, 1.1), (50, 2.0)])
def test_a_planted_slow_down_takes_the_time_that_it_says(work_ns: int, slowdown: float) -> None:
    clock = Clock()
    results = []

    def work() -> str:
        clock.now += work_ns
        return "done"

    started = clock.now
    results.append(slowed(work, slowdown, clock)())
    # Four looks besides the work at most: the first, the second, and the one that ends it.
    assert clock.now - started == pytest.approx(work_ns * slowdown, abs=5)
    assert results == ["done"]


@pytest.fixture
def _threads() -> object:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
def test_every_planted_copy_runs_in_every_round() -> None:
    times = time_planted(
        make_workload(seq_len=11),
        find_device("cpu"),
        slowdowns=PLANTED,
        real="custom",
        reference="official",
        budget_s=0.01,
        order_seed=5,
    )
    assert set(times) == {"official", CONTROL, "custom", *PLANTED}
    (num_rounds,) = {len(values) for values in times.values()}
    assert num_rounds >= 5
    assert all(seconds > 0 for values in times.values() for seconds in values)


@pytest.mark.usefixtures("_threads")
def test_on_a_device_behind_a_queue_the_time_told_is_made_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    device = find_device("cpu")
    monkeypatch.setattr(device, "name", "cuda:0", raising=False)
    monkeypatch.setattr(type(device), "time_calls", lambda self, call, num_calls: 0.005 * num_calls)
    times = time_planted(
        make_workload(),
        device,
        slowdowns={"same": 1.0, "slower": 1.25},
        real="custom",
        reference="official",
        budget_s=0.01,
        order_seed=5,
    )
    assert set(times["same"]) == {0.005}
    assert set(times["slower"]) == {0.00625}


@pytest.mark.usefixtures("_threads")
def test_one_after_the_other_gives_one_time_for_each() -> None:
    times = time_one_after_other(make_workload(seq_len=11), ["official", "custom", CONTROL], 0.001)
    assert list(times) == ["official", "custom", CONTROL]
    assert all(seconds > 0 for seconds in times.values())


@pytest.mark.soak
def test_a_set_holds_every_replicate_in_a_process_of_its_own_and_the_other_method_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[MeasuringChild] = []

    class Child(MeasuringChild):
        def __init__(self, **options: object) -> None:
            super().__init__(heap=str(options["heap"]))
            started.append(self)

    monkeypatch.setattr("profiling.self_test.trials.MeasuringChild", Child)
    settings = SelfTestSettings(replicates=2, time_budget_s=0.005, threads=1)
    workload = make_workload(seq_len=13)
    trials = list(Launcher(settings, "cpu", None, StopSwitch()).one_set(1, [workload]))
    assert len({child.pid for child in started}) == 3
    assert not any(child.is_alive() for child in started)
    ours = [trial for trial in trials if trial.method == PAIRED]
    assert {(t.replicate, t.contender) for t in ours} == {
        (replicate, name) for replicate in (1, 2) for name in ("custom", CONTROL, *PLANTED)
    }
    other = [trial for trial in trials if trial.method == ONE_AFTER_OTHER]
    assert {trial.contender for trial in other} == {"custom", CONTROL}
    assert {trial.workload for trial in trials} == {workload.label}
