"""The script for machines with an accelerator, here without one: it passes what is right and fails what is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accelerator_checks
import pandas as pd
import pytest
import torch
from accelerator_checks import (
    NO_ACCELERATOR,
    Wrong,
    a_compiled_layer_is_measured,
    a_missing_wait_would_show,
    a_sweep_fills_its_rows,
    checks_of,
    kernels_are_seen,
    launches_are_hidden,
    layer_is_right,
    main,
    peak_of_a_known_allocation,
    peak_of_the_explicit_layer,
    run,
    tells_what_it_is,
    times_agree_with_a_clock_that_waits,
)
from fake_accelerators import FakeBackend

from mha import MultiHeadAttention
from mha.checking.planted import PLANTED
from profiling.measuring.devices import accelerators
from profiling.measuring.devices.accelerators import Cuda
from profiling.measuring.devices.cpu import Cpu
from profiling.measuring.devices.seam import UnavailableDevice

SCRIPT = Path(accelerator_checks.__file__)
ClockCheck = Callable[[Any, Callable[[], object], Callable[[], float]], str]


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """The time line of a fake device, on which a launch costs the host 10 µs."""
    line = FakeBackend("cuda:1", launch_ms=0.01)
    monkeypatch.setattr(accelerators, "torch", type("FakeTorch", (), {"empty": line.empty, "int8": torch.int8}))
    return line


def cuda(line: FakeBackend, kind: type[Cuda] = Cuda) -> Cuda:
    return kind(line.name, line, line.new_event, line.host_clock, run=lambda arguments: None)


# -- the clock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "kernel_ms"),
    [
        (times_agree_with_a_clock_that_waits, 7.0),
        (a_missing_wait_would_show, 7.0),
        (launches_are_hidden, 0.002),
    ],
)
def test_a_true_device_passes(line: FakeBackend, check: ClockCheck, kernel_ms: float) -> None:
    check(cuda(line), lambda: line.launch(kernel_ms), line.host_clock)


def test_events_that_tell_less_than_the_clock_fail(line: FakeBackend) -> None:
    class Hasty(Cuda):
        def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
            return 0.8 * super().time_calls(call, num_calls)

    with pytest.raises(Wrong, match=r"events 89\.60 ms, clock 112\.01 ms, -20\.0%"):
        times_agree_with_a_clock_that_waits(cuda(line, Hasty), lambda: line.launch(7.0), line.host_clock)


def test_a_device_that_works_while_it_is_launched_fails_to_show_a_missing_wait() -> None:
    with pytest.raises(Wrong, match="instead of"):
        a_missing_wait_would_show(Cpu(), lambda: sum(range(20_000)))


def test_launches_that_are_in_the_time_fail(line: FakeBackend) -> None:
    def call() -> None:
        line.launch(0.002)
        line.wait()

    with pytest.raises(Wrong, match="ahead: False"):
        launches_are_hidden(cuda(line), call, line.host_clock)


def test_the_device_tells_its_name_and_what_it_knows(line: FakeBackend) -> None:
    told = tells_what_it_is(cuda(line))
    assert told == "cuda:1: Fake 7; MHz None, throttles {}, other processes None"
    line.get_device_name = lambda device: " "  # type: ignore[method-assign] # a driver that tells nothing
    with pytest.raises(Wrong):
        tells_what_it_is(cuda(line))


# -- memory -----------------------------------------------------------------------------------------------------------


class Generous(Cpu):
    """Tells a twentieth too much."""

    def peak_bytes(self, call: Callable[[], object]) -> int:
        return super().peak_bytes(call) * 21 // 20


class Silent(Cpu):
    """Tells no peak, and is not the one kind of which that is known."""

    @property
    def no_peak_reason(self) -> str | None:
        return "planted"


@pytest.mark.parametrize(
    ("check", "worked"), [(peak_of_a_known_allocation, "128.00"), (peak_of_the_explicit_layer, "152.00")]
)
def test_a_peak_is_held_to_the_one_worked_by_hand(check: Callable[[Any], str], worked: str) -> None:
    assert check(Cpu()) == f"{worked} MiB, worked by hand {worked} MiB, +0.00%"
    with pytest.raises(Wrong, match=r"\+5\.00%"):
        check(Generous())
    with pytest.raises(Wrong, match="no figure: planted"):
        check(Silent())


# -- the layers -------------------------------------------------------------------------------------------------------


def test_a_right_layer_passes_and_a_wrong_one_fails_with_the_reason() -> None:
    assert layer_is_right(Cpu(), MultiHeadAttention, "bfloat16").startswith("pass")
    with pytest.raises(Wrong, match=r"^fail: .*differs from the official layer"):
        layer_is_right(Cpu(), PLANTED["scale-d-model"], "float32")


def test_kernels_other_than_the_layers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "custom-fused: sdpa" in kernels_are_seen(Cpu())
    monkeypatch.setattr(accelerator_checks, "observe_kernel", lambda call: "explicit")
    with pytest.raises(Wrong, match="custom-fused: explicit"):
        kernels_are_seen(Cpu())


@pytest.mark.soak
def test_a_real_sweep_passes() -> None:
    told = a_sweep_fills_its_rows(Cpu(), ("custom", "official"))
    assert told.count(": ok, ") == 4


def table(**changes: Any) -> pd.DataFrame:
    """A table of two points and two contenders, as a sweep would give it; the changes fall on its first row."""
    row = {
        "status": "ok",
        "check_verdict": "pass",
        "latency_median_ms": 3.0,
        "peak_memory_mib": 5.0,
        "speedup": 1.1,
        "status_reason": None,
    }
    names = [(name, seq_len) for seq_len in (64, 256) for name in ("custom", "official")]
    rows = [{**row, "contender": name, "seq_len": seq_len} for name, seq_len in names]
    return pd.DataFrame([{**rows[0], **changes}, *rows[1:]])


@pytest.mark.parametrize(
    "changes",
    [{"status": "crashed"}, {"check_verdict": "fail"}, {"latency_median_ms": None}, {"peak_memory_mib": None}],
)
def test_a_sweep_with_a_hole_or_a_wrong_layer_fails(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator_checks, "run_sweep", lambda **_: table())
    a_sweep_fills_its_rows(Cpu(), ("custom", "official"))
    monkeypatch.setattr(accelerator_checks, "run_sweep", lambda **_: table(**changes))
    with pytest.raises(Wrong, match="custom at 64"):
        a_sweep_fills_its_rows(Cpu(), ("custom", "official"))


def test_a_sweep_that_lacks_rows_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator_checks, "run_sweep", lambda **_: table().iloc[1:])
    with pytest.raises(Wrong):
        a_sweep_fills_its_rows(Cpu(), ("custom", "official"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "ok, pass, 3.000 ms, speed-up 1.10"),
        ({"status": "unavailable", "status_reason": "no compiler"}, "unavailable: no compiler"),
    ],
)
def test_a_compiled_layer_is_ok_or_says_why_not(
    changes: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def give(**options: Any) -> pd.DataFrame:
        asked.update(options)
        return table(contender="compiled:custom", **changes)

    monkeypatch.setattr(accelerator_checks, "run_sweep", give)
    assert a_compiled_layer_is_measured(Cpu()) == told
    assert "compiled:custom" in asked["contenders"]


@pytest.mark.parametrize("changes", [{"status": "error"}, {"check_verdict": "fail"}, {"status": "unavailable"}])
def test_a_compiled_layer_that_is_neither_fails(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        accelerator_checks,
        "run_sweep",
        lambda **_: table(**{"contender": "compiled:custom", "status_reason": "", **changes}),
    )
    with pytest.raises(Wrong):
        a_compiled_layer_is_measured(Cpu())


# -- the script -------------------------------------------------------------------------------------------------------


def test_all_checks_run_though_some_fail_or_raise(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong() -> str:
        raise Wrong("3 instead of 5")

    def broken() -> str:
        raise RuntimeError("no kernel image")

    assert run({"one": wrong, "two": broken, "three": lambda: "7 ms"}) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["FAIL", "FAIL", "pass", "1"]
    assert lines[0].endswith("3 instead of 5")
    assert lines[1].endswith("RuntimeError: no kernel image")
    assert lines[3] == "1 of 3 checks passed"


@pytest.mark.parametrize(("figures", "status"), [("7 ms", 0), (None, 1)])
def test_the_exit_status_tells_whether_all_passed(
    line: FakeBackend, figures: str | None, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> str:
        if figures is None:
            raise Wrong("planted")
        return figures

    monkeypatch.setattr(accelerator_checks, "find_device", lambda name: cuda(line))
    monkeypatch.setattr(accelerator_checks, "checks_of", lambda device: {"planted": check})
    assert main([]) == status


def test_without_an_accelerator_the_script_says_so_and_leaves_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accelerator_checks, "find_device", lambda name: Cpu())
    assert main([]) == NO_ACCELERATOR == 3
    assert capsys.readouterr().out == "no accelerator here: torch finds cpu only\n"

    def absent(name: str) -> Any:
        raise UnavailableDevice(f"there is no {name}")

    monkeypatch.setattr(accelerator_checks, "find_device", absent)
    assert main(["--device", "xpu"]) == 3
    assert capsys.readouterr().out == "no accelerator here: there is no xpu\n"


def test_the_script_runs_by_itself() -> None:
    # No machine has that many.
    command = [sys.executable, str(SCRIPT), "--device", "cuda:97"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SCRIPT.parents[1], check=False)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("no accelerator here: device must be auto or one that torch finds here")


def test_every_check_of_the_script_is_run(line: FakeBackend) -> None:
    names = list(checks_of(cuda(line)))
    assert len(names) == 15
    assert {"time by events", "a missing wait", "peak, explicit layer", "fused layer, float16", "sweep"} <= set(names)
