from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import FakeChild, make_workload
from own_layers import RIGHT, write_layer

from profiling.child_process import ChildDied, MeasuringError
from profiling.device_lock import DeviceBusy, DeviceLock, owner
from profiling.live_check import LiveChecker
from profiling.workload import GridError


@pytest.fixture(scope="module")
def checker() -> Iterator[LiveChecker]:
    with LiveChecker("cpu") as shared:
        yield shared


def test_a_right_layer_passes_and_the_child_stays(checker: LiveChecker) -> None:
    first = checker.check(make_workload(), "custom")
    assert (first["verdict"], first["max_abs_error"]) == ("pass", 0.0)
    assert checker._child is not None
    pid = checker._child.pid
    assert checker.check(make_workload(seq_len=11), "custom-fused")["verdict"] == "pass"
    assert checker._child.pid == pid
    assert owner("cpu") is None


def test_the_devices_are_listed_best_first(checker: LiveChecker) -> None:
    assert checker.devices()[-1]["name"] == "cpu"
    assert checker.environment()["torch_version"]


def test_a_check_is_refused_while_a_sweep_measures(checker: LiveChecker) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="long")
    try:
        with pytest.raises(DeviceBusy, match="with sweep long"):
            checker.check(make_workload(), "custom")
    finally:
        lock.release()
    assert checker.check(make_workload(), "custom")["verdict"] == "pass"


def test_a_dead_child_is_started_anew(checker: LiveChecker) -> None:
    checker.environment()
    assert checker._child is not None
    pid = checker._child.pid
    os.kill(pid, signal.SIGKILL)
    checker._child._process.wait(timeout=30)
    assert checker.check(make_workload(), "custom")["verdict"] == "pass"
    assert checker._child.pid != pid


def test_an_edited_layer_is_checked_as_it_is_now_in_a_new_child(checker: LiveChecker, tmp_path: Path) -> None:
    text = "from helpers import factor\n" + RIGHT.replace("1 / math.sqrt(head_dim)", "factor / math.sqrt(head_dim)")
    name = f"{write_layer(tmp_path, text=text)}:Right"
    write_layer(tmp_path, "helpers.py", "factor = 1.0")
    assert checker.check(make_workload(), name)["verdict"] == "pass"
    assert checker._child is not None
    pid = checker._child.pid
    assert checker.check(make_workload(seq_len=11), name)["verdict"] == "pass"
    assert checker._child.pid == pid, "what has not changed stays loaded"
    write_layer(tmp_path, "helpers.py", "factor = 2.0")
    assert checker.check(make_workload(), name)["verdict"] == "fail"
    assert checker._child.pid != pid
    write_layer(tmp_path, text="import torch\nraise RuntimeError('half written')")
    report = checker.check(make_workload(), name)
    assert (report["verdict"], report["reason"]) == ("error", "mine.py, line 2: RuntimeError: half written")
    write_layer(tmp_path, text=RIGHT)
    assert checker.check(make_workload(), name)["verdict"] == "pass"


def test_a_layer_that_takes_sequences_first_is_checked_so(checker: LiveChecker, tmp_path: Path) -> None:
    sequence_first = "\n\nclass Turned(Right):\n    def forward(self, x):\n"
    sequence_first += "        return super().forward(x.transpose(0, 1)).transpose(0, 1)\n"
    name = f"{write_layer(tmp_path, text=RIGHT + sequence_first)}:Turned"
    assert checker.check(make_workload(), name, batch_first=False)["verdict"] == "pass"
    assert checker.check(make_workload(), name)["verdict"] == "fail"
    assert checker.check(make_workload(), name, batch_first=False, input_scale=3.0)["verdict"] == "pass"


def test_a_layer_whose_file_is_missing_is_refused_before_a_child_starts() -> None:
    checker = LiveChecker("cpu")
    with pytest.raises(GridError, match=r"there is no file none\.py in "):
        checker.check(make_workload(), "none.py:X")
    assert checker._child is None


class Children(FakeChild):
    """Refuses its device at first, and dies in a check."""

    refusals = 1

    def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
        if request["request"] == "environment" and Children.refusals:
            Children.refusals -= 1
            raise MeasuringError("no such device")
        if request["request"] == "check":
            self.close()
            from profiling.protocol import Running

            raise ChildDied("crashed", "planted", Running("check", "custom"))
        return super().ask(request, limit_s=limit_s)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Children]:
    FakeChild.reset()
    Children.refusals = 1
    monkeypatch.setattr("profiling.live_check.MeasuringChild", Children)
    return Children


def test_a_device_that_was_refused_is_asked_for_again(fake: type[Children]) -> None:
    with LiveChecker("cuda:7") as checker:
        with pytest.raises(MeasuringError, match="no such device"):
            checker.environment()
        assert fake.alive == []
        assert checker.environment()["device"] == "cpu"


def test_a_death_in_a_check_frees_the_device_and_the_next_question_is_answered(fake: type[Children]) -> None:
    fake.refusals = 0
    with LiveChecker("cpu") as checker:
        with pytest.raises(ChildDied, match="planted"):
            checker.check(make_workload(), "custom")
        assert owner("cpu") is None
        assert checker.environment()["device"] == "cpu"
    assert fake.alive == []


def test_closing_without_a_question_starts_nothing(fake: type[Children]) -> None:
    LiveChecker("cpu").close()
    assert fake.asked == []
