from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_up_runs import make_workload

from mha.reading.building import BuildError
from profiling.columns import MEASURED_COLUMNS, names
from profiling.costs import MIB
from profiling.measuring import passes
from profiling.measuring.contenders.known import Contender
from profiling.measuring.devices import Cpu
from profiling.measuring.disturbance.machine_signs import Seen
from profiling.measuring.failures import failure
from profiling.measuring.passes import Row, measure
from profiling.settings import CLONE, CONTENDERS, REFERENCES


class KnownTimes(Cpu):
    """A device on which a call takes as long as it says; one that says nothing takes 1 ms."""

    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        for _ in range(num_calls):
            call()
        return num_calls * float(getattr(call, "seconds", 1e-3))


class FewCalls(KnownTimes):
    """Runs a call once, however many were asked for."""

    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        return super().time_calls(call, 1) * num_calls


class Call:
    """A contender's work with a known time, that may go wrong in a pass."""

    def __init__(self, run: Callable[[], Any], seconds: float) -> None:
        self.run, self.seconds = run, seconds

    def __call__(self) -> Any:
        return self.run()


def run(
    contenders: list[str] | None = None,
    *,
    said: list[tuple[str, str]] | None = None,
    device: Cpu | None = None,
    quiet_wait_s: float = 0.0,
    on_wait: Callable[[float], None] = lambda _: None,
    **changes: Any,
) -> dict[str, Row]:
    told = said if said is not None else []
    return measure(
        make_workload(**changes),
        contenders or list(CONTENDERS),
        device or FewCalls(),
        budget_s=0.02,
        order_seed=7,
        say=lambda phase, name: told.append((phase, name)),
        quiet_wait_s=quiet_wait_s,
        on_wait=on_wait,
    )


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes named contenders misbehave: `plant(custom=change)`, where `change` gets and returns a `Contender`."""
    make = passes.make_contender

    def set_up(**changes: Callable[[Contender], Contender]) -> None:
        def planted(name: str, *arguments: Any) -> Contender:
            contender = make(name, *arguments)
            change = changes.get(name.replace("-", "_"))
            return change(contender) if change else contender

        monkeypatch.setattr(passes, "make_contender", planted)

    return set_up


def taking(seconds: float) -> Callable[[Contender], Contender]:
    return lambda c: Contender(c.name, c.layer, c.forward, Call(c.call, seconds))


def raising(error: BaseException, *, in_call_only: bool = False) -> Callable[[Contender], Contender]:
    def fail() -> Any:
        raise error

    return lambda c: Contender(c.name, c.layer, c.forward if in_call_only else fail, fail)


def giving(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Contender], Contender]:
    return lambda c: Contender(c.name, c.layer, lambda: change(c.forward()), c.call)


# -- the numbers ------------------------------------------------------------------------------------------------------


def test_times_and_speedups_are_those_of_the_device(plant: Callable[..., None]) -> None:
    plant(custom=taking(0.005), official=taking(0.015), custom_fused=taking(0.014), official_fused=taking(0.007))
    rows = run()
    cells = {name: row.cells for name, row in rows.items()}
    assert cells["custom"]["latency_median_ms"] == pytest.approx(5.0)
    assert cells["official"]["latency_p95_ms"] == pytest.approx(15.0)
    assert cells["custom"]["speedup"] == pytest.approx(3.0)
    assert cells["custom-fused"]["speedup"] == pytest.approx(0.5)
    assert cells["custom"]["noise_floor"] == pytest.approx(0.0)
    assert "speedup" not in cells["official"]
    # b=3, s=7: 21 tokens in 5 ms; 22,680 operations.
    assert cells["custom"]["throughput_tokens_per_s"] == pytest.approx(4200)
    assert cells["custom"]["achieved_gflop_per_s"] == pytest.approx(22_680 / 0.005 / 1e9)
    assert cells["custom"]["calls_per_sample"] == 1
    assert cells["custom"]["num_samples"] == len(rows["custom"].samples_s) == 5
    assert cells["custom"]["stop_reason"] == "time budget of 0.02 s spent"


def test_the_noise_floor_is_how_far_the_clone_strayed(plant: Callable[..., None]) -> None:
    built: list[str] = []

    def drifting(contender: Contender) -> Contender:
        built.append(contender.name)
        return taking(0.010 if len(built) == 1 else 0.008)(contender)  # the clone is built second

    plant(official=drifting, custom=taking(0.005))
    rows = run(["custom", "official"])
    assert built == ["official", "official"]
    assert rows["custom"].cells["noise_floor"] == pytest.approx(0.25)
    assert set(rows[CLONE + "official"].samples_s) == {0.008}
    assert rows[CLONE + "official"].cells == {}


def test_every_cell_is_a_column_and_every_measured_one_is_filled() -> None:
    rows = run(["custom", "official"])
    assert rows["custom"].cells.keys() <= set(names(MEASURED_COLUMNS))
    not_for_it = {"status_reason", "warnings", "compile_s", "fast_path_reason"}
    assert set(names(MEASURED_COLUMNS)) - rows["custom"].cells.keys() <= not_for_it
    assert rows["custom"].cells["check_verdict"] == "pass"
    assert rows["custom"].cells["kernel"] == "explicit"


def test_the_fused_layers_are_seen_to_run_the_fused_kernel() -> None:
    rows = run()
    assert {name: rows[name].cells["kernel"] for name in CONTENDERS} == {
        "custom": "explicit",
        "custom-fused": "sdpa flash (cpu)",
        "official": "explicit",
        "official-fused": "sdpa flash (cpu)",
    }


@pytest.mark.parametrize("changes", [{}, {"mode": "training"}, {"bias": True}, {"causal": True}, {"dtype": "float64"}])
def test_a_right_layer_passes_in_every_kind_of_workload(changes: dict[str, Any]) -> None:
    rows = run(**changes)
    for name, row in rows.items():
        if not name.startswith(CLONE):
            assert row.cells["status"] == "ok", row.cells
            assert row.cells["max_abs_error_oracle"] < 1e-5
        if REFERENCES.get(name):
            assert row.cells["check_verdict"] == "pass", row.cells


def test_the_peaks_are_those_of_the_tensors_that_live_at_once() -> None:
    b, s, d, h = 2, 67, 12, 3
    tokens, square = b * s * d * 4, b * h * s * s * 4
    rows = run(["custom", "official"], batch_size=b, seq_len=s, num_heads=h, d_model=d)
    peaks = {name: rows[name].cells["peak_memory_mib"] * MIB for name in ("custom", "official")}
    # While it attends: q, k and v in one block, and the scores, over which the softmax writes.
    assert peaks["custom"] == 3 * tokens + square
    # The same block, scores and weights apart, and at most the scaled queries.
    assert 3 * tokens + 2 * square <= peaks["official"] <= 4 * tokens + 2 * square


def test_errors_are_the_largest_differences(plant: Callable[..., None]) -> None:
    def off(output: torch.Tensor) -> torch.Tensor:
        output = output.clone()
        output[2, 5, 3] += 0.25
        return output

    plant(custom=giving(off))
    cells = run(["custom", "official"])["custom"].cells
    assert cells["max_abs_error"] == pytest.approx(0.25, abs=1e-5)
    assert cells["max_abs_error_oracle"] == pytest.approx(0.25, abs=1e-5)
    assert cells["error_ratio"] > 1000
    assert cells["check_verdict"] == "fail"
    assert cells["status"] == "ok", "a wrong layer is measured all the same"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_output_that_is_not_finite_is_an_infinite_error_and_fails(plant: Callable[..., None], value: float) -> None:
    plant(custom=giving(lambda output: torch.full_like(output, value)))
    cells = run(["custom", "official"])["custom"].cells
    assert cells["max_abs_error"] == cells["max_abs_error_oracle"] == math.inf
    assert cells["check_verdict"] == "fail"


# -- when something goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_call_only", [False, True])
def test_a_contender_that_raises_costs_its_own_row(plant: Callable[..., None], in_call_only: bool) -> None:
    plant(custom=raising(RuntimeError("planted"), in_call_only=in_call_only))
    rows = run()
    assert rows["custom"].cells["status"] == "error"
    assert rows["custom"].cells["status_reason"] == "RuntimeError: planted"
    assert "latency_median_ms" not in rows["custom"].cells
    assert rows["custom"].samples_s == []
    assert rows["custom"].cells["source_hash"]
    for name in ("custom-fused", "official", "official-fused"):
        assert rows[name].cells["status"] == "ok"
        assert rows[name].cells["latency_median_ms"] > 0
    assert rows["custom-fused"].cells["speedup"] == pytest.approx(1.0)


def test_a_contender_that_raises_in_a_later_round_leaves_the_others_whole_rounds(plant: Callable[..., None]) -> None:
    calls: list[int] = []

    def late(contender: Contender) -> Contender:
        def call() -> object:
            calls.append(1)
            if len(calls) > 5:  # three times warmed up, then two samples
                raise RuntimeError("late")
            return contender.call()

        return Contender(contender.name, contender.layer, contender.forward, Call(call, 0.007))

    plant(custom=late)
    rows = run(["custom", "official"])
    assert rows["custom"].cells["status"] == "error"
    assert rows["official"].cells["status"] == "ok"
    assert len(rows["official"].samples_s) >= 5


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_weights_are_of_the_kind_that_a_persons_own_layer_has(plant: Callable[..., None], mode: str) -> None:
    kinds = set()

    def look(contender: Contender) -> Contender:
        kinds.update((weight.is_inference(), weight.requires_grad) for weight in contender.layer.parameters())
        return contender

    plant(custom=look, official=look)
    run(["custom", "official"], mode=mode)
    assert kinds == {(False, True)}


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit()])
@pytest.mark.parametrize("in_call_only", [False, True])
def test_a_contender_that_exits_costs_its_own_row(
    plant: Callable[..., None], error: BaseException, in_call_only: bool
) -> None:
    plant(custom=raising(error, in_call_only=in_call_only))
    rows = run(["custom", "official"])
    assert rows["custom"].cells["status"] == "error"
    assert rows["official"].cells["status"] == "ok"


def test_an_interrupt_is_for_the_process(plant: Callable[..., None]) -> None:
    plant(custom=raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run(["custom", "official"])


def test_a_contender_that_exits_once_it_is_timed_costs_its_own_row(plant: Callable[..., None]) -> None:
    def tiring(contender: Contender) -> Contender:
        calls = iter([None] * 6)

        def call() -> Any:
            if next(calls, "tired") == "tired":
                raise SystemExit(3)
            return contender.call()

        return Contender(contender.name, contender.layer, contender.forward, call)

    plant(custom=tiring)
    rows = run(["custom", "official"])
    assert (rows["custom"].cells["status"], rows["custom"].cells["status_reason"]) == ("error", "called exit(3)")
    assert rows["official"].cells["latency_median_ms"] > 0


def test_a_contender_that_raises_in_the_memory_pass_keeps_its_times_and_says_so(plant: Callable[..., None]) -> None:
    class NoMemory(FewCalls):
        def peak_bytes(self, call: Callable[[], object]) -> int:
            if getattr(call, "seconds", 0) == 0.005:
                raise RuntimeError("[enforce fail] can't allocate memory: you tried to allocate 7 bytes")
            return 3 * 2**20

    plant(custom=taking(0.005))
    rows = run(["custom", "official"], device=NoMemory())
    cells = rows["custom"].cells
    assert (cells["status"], cells["latency_median_ms"]) == ("ok", pytest.approx(5.0))
    assert "peak_memory_mib" not in cells
    assert "tried to allocate 7 bytes" in cells["warnings"]
    assert rows["official"].cells["peak_memory_mib"] == 3.0


def test_without_its_reference_a_contender_keeps_all_but_the_comparison(plant: Callable[..., None]) -> None:
    plant(official=raising(RuntimeError("planted")))
    rows = run()
    assert rows["official"].cells["status"] == "error"
    cells = rows["custom"].cells
    assert cells["status"] == "ok"
    assert cells["latency_median_ms"] > 0
    assert cells["max_abs_error_oracle"] < 1e-5
    assert cells.keys().isdisjoint({"speedup", "noise_floor", "max_abs_error", "error_ratio", "check_verdict"})
    assert rows["custom-fused"].cells["speedup"] == pytest.approx(1.0)


def test_the_clone_of_a_reference_that_is_out_is_not_timed(plant: Callable[..., None]) -> None:
    built: list[str] = []

    def only_the_first(contender: Contender) -> Contender:
        built.append(contender.name)
        return raising(RuntimeError("planted"))(contender) if len(built) == 1 else contender

    plant(official=only_the_first)
    rows = run(["custom", "official"])
    assert built == ["official", "official"]
    assert set(rows) == {"custom", "official"}


def test_a_contender_without_its_reference_in_the_workload_has_no_speedup() -> None:
    rows = run(["custom"])
    assert rows["custom"].cells["status"] == "ok"
    assert "speedup" not in rows["custom"].cells


def test_a_workload_ends_when_all_have_raised(plant: Callable[..., None]) -> None:
    plant(**{name.replace("-", "_"): raising(RuntimeError("planted"), in_call_only=True) for name in CONTENDERS})
    rows = run()
    assert {name: row.cells["status"] for name, row in rows.items()} == dict.fromkeys(CONTENDERS, "error")


def test_a_contender_out_of_memory_leaves_the_rest(plant: Callable[..., None]) -> None:
    def greedy(contender: Contender) -> Contender:
        return giving(lambda output: output + torch.empty(2**55, dtype=torch.int8)[: output.numel()].view_as(output))(
            contender
        )

    plant(custom=greedy)
    rows = run()
    assert rows["custom"].cells["status"] == "oom"
    assert "allocate" in rows["custom"].cells["status_reason"]
    assert [rows[name].cells["status"] for name in CONTENDERS[1:]] == ["ok"] * 3


def test_a_workload_that_cannot_be_built_costs_every_row_with_the_reason() -> None:
    rows = run(seq_len=2**31 - 1, batch_size=2**31 - 1, d_model=2)
    assert {row.cells["status"] for row in rows.values()} == {"oom"}, rows["custom"].cells["status_reason"]
    assert set(rows) == set(CONTENDERS)


def test_without_an_oracle_the_error_columns_are_empty_and_the_rest_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any, **__: Any) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(passes, "oracle", no_room)
    cells = run(["custom", "official"])["custom"].cells
    assert cells["status"] == "ok"
    assert cells["speedup"] == pytest.approx(1.0)
    assert "max_abs_error_oracle" not in cells


def test_a_bug_of_the_oracle_looks_like_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("shape '[3]' is invalid")

    monkeypatch.setattr(passes, "oracle", broken)
    with pytest.raises(RuntimeError, match="is invalid"):
        run(["custom", "official"])


def test_a_device_without_a_peak_leaves_it_empty_and_says_why() -> None:
    class NoPeak(FewCalls):
        @property
        def no_peak_reason(self) -> str | None:
            return "a reserved pool is none"

    cells = run(["official"], device=NoPeak())["official"].cells
    assert "peak_memory_mib" not in cells
    assert cells["warnings"].endswith("a reserved pool is none")


def test_who_runs_is_said_before_each_thing_that_could_take_the_process_down() -> None:
    said: list[tuple[str, str]] = []
    run(["custom", "official"], said=said)
    phases = list(dict.fromkeys(phase for phase, _ in said))
    assert phases == ["build", "check", "oracle", "warm-up", "latency", "memory"]
    for phase in ("build", "check", "warm-up", "latency", "memory"):
        assert {"custom", "official"} <= {name for said_phase, name in said if said_phase == phase}
    assert not any(name.startswith(CLONE) for _, name in said), "a clone runs in the name of its layer"


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: x"), "oom", "can't"),
        (RuntimeError("Storage size calculation overflowed with sizes=[3]"), "oom", "overflowed"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB"), "oom", "CUDA"),
        (MemoryError(), "oom", "no message"),
        (NotImplementedError("\"bmm\" not implemented for 'Float8'"), "unavailable", "NotImplementedError: "),
        (RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"), "unavailable", "not implemented for"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "error", "RuntimeError: mat1"),
        (ValueError(""), "error", "ValueError: no message"),
        (SystemExit(3), "error", "called exit(3)"),
        (SystemExit(), "error", "called exit()"),
        (BuildError("Mine asks for gates"), "error", "Mine asks for gates"),
        (KeyError("a\nb"), "error", "KeyError: "),
    ],
)
def test_what_a_layer_raised_has_a_status_and_words(error: BaseException, status: str, words: str) -> None:
    told, reason = failure(error)
    assert told == status
    assert words in reason
    assert "\n" not in reason


def test_what_a_layer_of_ones_own_does_not_support_is_an_error_of_its_code() -> None:
    for error in (NotImplementedError("masks"), RuntimeError("head_dim 5 is not supported")):
        assert failure(error, is_own=True)[0] == "error"
    assert failure(MemoryError(), is_own=True)[0] == "oom"


def test_an_error_that_raises_when_asked_what_it_says_is_told_by_its_class() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert failure(Silent()) == ("error", "Silent")


def test_a_long_message_is_cut() -> None:
    assert len(failure(RuntimeError("x" * 10_000))[1]) < 600


def test_threads_are_those_of_the_workload() -> None:
    before = torch.get_num_threads()
    try:
        run(["official"], threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_what_disturbs_the_rounds_is_told_in_every_row_with_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy:
        def __init__(self, device: Cpu) -> None:
            self.device = device

        def seen(self) -> Seen:
            cells = {"load_start": 1.25, "load_end": 2.5, "clock_mhz": 3100.0}
            return Seen(cells, ["other processes took 1.7 of 2 cores"])

    monkeypatch.setattr("profiling.measuring.passes.Watch", Busy)
    rows = run()
    for name in ("custom", "official"):
        assert rows[name].cells["warnings"].startswith("other processes took 1.7 of 2 cores; 5 rounds only")
        assert [rows[name].cells[cell] for cell in ("load_start", "load_end", "clock_mhz")] == [1.25, 2.5, 3100.0]


class Shared(FewCalls):
    """A device that another process leaves after so many looks."""

    def __init__(self, num_looks: int) -> None:
        super().__init__()
        self.looks = iter([1] * num_looks)

    def other_processes(self) -> int | None:
        return next(self.looks, 0)


def test_a_busy_machine_is_waited_for_after_warming_up_which_is_then_done_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("profiling.measuring.disturbance.quiet.LOOK_S", 0.01)
    said: list[tuple[str, str]] = []
    rows = run(
        ["custom", "official"],
        said=said,
        device=Shared(2),
        quiet_wait_s=60.0,
        on_wait=lambda seconds: said.append(("waiting", "")),
    )
    phases = [phase for phase, _ in said]
    waits = [index for index, phase in enumerate(phases) if phase == "waiting"]
    assert len(waits) == 2
    assert phases[waits[0] - 1] == phases[waits[1] + 1] == "warm-up"
    assert "latency" not in phases[: waits[1]]
    assert rows["custom"].cells["waited_s"] == rows["official"].cells["waited_s"] >= 0.02


def test_nobody_waits_unless_that_is_allowed() -> None:
    cells = run(["official"], device=Shared(99), on_wait=pytest.fail)["official"].cells
    assert cells["waited_s"] == 0.0
    assert "1 other process holds memory on this device" in cells["warnings"]


def test_the_faults_of_a_call_are_told_of_who_has_them(plant: Callable[..., None]) -> None:
    pytest.importorskip("resource", reason="this system counts no page faults")

    def fresh(contender: Contender) -> Contender:
        def call() -> Any:
            with mmap.mmap(-1, 16 * 2**20) as memory:
                memory[:: mmap.PAGESIZE] = b"x" * (16 * 2**20 // mmap.PAGESIZE)
            return contender.call()

        return Contender(contender.name, contender.layer, contender.forward, Call(call, 0.0001))

    plant(custom=fresh)
    rows = run(["custom", "official"])
    assert rows["custom"].cells["page_faults_per_call"] > rows["official"].cells["page_faults_per_call"] >= 0


def test_a_clock_too_coarse_is_told_in_every_row() -> None:
    class Coarse(FewCalls):
        clock_step_s = 0.01

        def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
            return super().time_calls(call, num_calls) / (1 if num_calls == 1 else 10)  # quicker than in warming up

    rows = run(["custom", "official"], device=Coarse())
    for name in ("custom", "official"):
        assert rows[name].cells["calls_per_sample"] == 1000
        assert "the clock's step of 1e+04 µs is 10 % of the shortest sample" in rows[name].cells["warnings"]


def test_a_reference_far_from_the_truth_lets_no_row_pass(plant: Callable[..., None]) -> None:
    plant(official=giving(lambda output: output + 1), custom=giving(lambda output: output + 1))
    cells = run(["custom", "official"])["custom"].cells
    assert cells["check_verdict"] == "error"
    assert "far from the float64 truth" in cells["warnings"]
