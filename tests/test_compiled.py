from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_runs import make_workload
from own_layers import RIGHT, write_layer
from torch import Tensor

from profiling.child_process import MeasuringChild
from profiling.measuring import passes
from profiling.measuring.contenders import compiled as module
from profiling.measuring.contenders.compiled import Compilation, compile_now, compiled, start_compiler
from profiling.measuring.contenders.known import make_contender, make_input, make_weights, source_hash
from profiling.measuring.contenders.loading import loaded_hash
from profiling.measuring.devices import Cpu
from profiling.measuring.failures import Unavailable, failure
from profiling.measuring.passes import measure
from profiling.settings import CLONE


class Clock(Cpu):
    """A device on which the calls take the seconds that it is given, one after the other, the last for ever."""

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self.seconds = list(seconds)

    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        call()
        return num_calls * (self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0])


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """torch.compile without a compiler: it gives the function back. The list holds what was given to it."""
    given: list[Callable[[], Any]] = []

    def compile_nothing(function: Callable[[], Any], **_: Any) -> Callable[[], Any]:
        given.append(function)
        return function

    monkeypatch.setattr(torch, "compile", compile_nothing)
    return given


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch, eager: list[Any]) -> Callable[[Compilation | BaseException], None]:
    """Makes compiling a contender give, or raise, this."""

    def set_up(result: Compilation | BaseException) -> None:
        def compile_contender(*_: object) -> Compilation:
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr(passes, "compile_contender", compile_contender)

    return set_up


def run(*contenders: str, layers: dict[str, str] | None = None, **changes: Any) -> dict[str, dict[str, Any]]:
    said: list[tuple[str, str]] = []
    rows = measure(
        make_workload(**changes),
        list(contenders),
        Clock(1e-3),
        budget_s=0.02,
        order_seed=7,
        say=lambda phase, name: said.append((phase, name)),
        layers=layers,
    )
    assert [name for phase, name in said if phase == "compile"] == [c for c in contenders if c.startswith("compiled:")]
    return {name: row.cells for name, row in rows.items() if not name.startswith(CLONE)}


# -- rows, with a compiler that compiles nothing ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_compiled_contender_is_compared_and_has_its_compile_time_in_a_column_of_its_own(
    mode: str, plant: Callable[..., None], eager: list[Any]
) -> None:
    plant(Compilation(seconds=2.5, warnings=("compiled in parts (1 graph break): planted",), kernels=frozenset()))
    rows = run("custom", "compiled:custom", "official", mode=mode)
    row = rows["compiled:custom"]
    assert (row["status"], row["compile_s"], row["check_verdict"]) == ("ok", 2.5, "pass")
    assert row["latency_median_ms"] == pytest.approx(1.0)
    assert row["speedup"] == pytest.approx(1.0)
    assert row["warnings"].startswith("compiled in parts (1 graph break): planted")
    assert row["source_hash"] == rows["custom"]["source_hash"] == source_hash("custom")
    assert row["peak_memory_mib"] > 0
    assert not {"compile_s", "fast_path_reason"} & rows["custom"].keys()
    assert len(eager) == 1


def test_the_functions_that_were_generated_tell_which_program_ran(plant: Callable[..., None]) -> None:
    plant(Compilation(seconds=0.0, warnings=(), kernels=frozenset({"cpp_fused__softmax_bmm_0"})))
    assert run("compiled:custom", "official")["compiled:custom"]["kernel"] == "compiled: explicit"


def test_an_official_call_compiled_is_compared_with_that_call(plant: Callable[..., None]) -> None:
    plant(Compilation(seconds=0.0, warnings=(), kernels=frozenset()))
    rows = run("compiled:official-fused", "official-fused", bias=True, num_heads=2)
    assert rows["compiled:official-fused"]["check_verdict"] == "pass"
    assert rows["compiled:official-fused"]["max_abs_error"] == 0.0
    assert rows["compiled:official-fused"]["fast_path_reason"] == "switched off here: compare official-fastpath"


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_layer_of_ones_own_can_be_compiled_beside_itself(
    mode: str, plant: Callable[..., None], tmp_path: Path
) -> None:
    plant(Compilation(seconds=1.5, warnings=(), kernels=frozenset()))
    name = f"{write_layer(tmp_path)}:Right"
    rows = run(f"compiled:{name}", name, "official", layers={name: name, f"compiled:{name}": name}, mode=mode)
    assert {rows[each]["check_verdict"] for each in (name, f"compiled:{name}")} == {"pass"}
    assert rows[f"compiled:{name}"]["source_hash"] == rows[name]["source_hash"] == loaded_hash(name)
    assert rows[f"compiled:{name}"]["compile_s"] == 1.5


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (Unavailable("torch.compile needs a C++ compiler"), "unavailable", "torch.compile needs a C++ compiler"),
        (RuntimeError("no such graph"), "error", "RuntimeError: no such graph"),
    ],
)
def test_what_cannot_be_compiled_costs_its_own_row_and_is_not_timed(
    error: BaseException, status: str, reason: str, plant: Callable[..., None]
) -> None:
    plant(error)
    rows = run("custom", "compiled:custom", "official")
    assert (rows["compiled:custom"]["status"], rows["compiled:custom"]["status_reason"]) == (status, reason)
    assert "latency_median_ms" not in rows["compiled:custom"]
    assert rows["custom"]["check_verdict"] == "pass"


def test_without_a_compiler_the_row_says_so_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class InvalidCxxCompiler(RuntimeError):
        pass

    def no_compiler(*_: Any, **__: Any) -> Any:
        raise InvalidCxxCompiler("No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')")

    monkeypatch.setattr(torch, "compile", no_compiler)
    module._why_not.cache_clear()
    try:
        with pytest.raises(Unavailable) as caught:
            start_compiler(Cpu())
    finally:
        module._why_not.cache_clear()
    words = "torch.compile needs a C++ compiler, such as g++ or clang++, and finds none here"
    assert failure(caught.value) == ("unavailable", words)


def test_a_torch_that_cannot_compile_is_quoted_by_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("\n torch.compile is not supported on Python 3.99\nand more")

    monkeypatch.setattr(torch, "compile", refuse)
    module._why_not.cache_clear()
    try:
        with pytest.raises(
            Unavailable, match=r"^torch\.compile does not work here: torch\.compile is not supported on Python 3\.99$"
        ):
            start_compiler(Cpu())
    finally:
        module._why_not.cache_clear()


# -- the time that compiling takes ------------------------------------------------------------------------------------


def counting(*compiles: bool) -> Callable[[], None]:
    """A call that counts as dynamo does, and compiles at the calls for which this says so, afterwards at the last."""
    from torch._dynamo.utils import counters

    plan = list(compiles)

    def call() -> None:
        if plan.pop(0) if len(plan) > 1 else plan[0]:
            counters["frames"]["total"] += 1
            counters["frames"]["ok"] += 1
            counters["stats"]["unique_graphs"] += 1

    return call


def test_compile_time_is_the_first_call_less_a_warm_one() -> None:
    assert compile_now(counting(True, False), Clock(7.0, 2.0)).seconds == pytest.approx(5.0)


def test_each_call_that_compiles_counts() -> None:
    assert compile_now(counting(True, True, False), Clock(7.0, 5.0, 2.0)).seconds == pytest.approx(8.0)


def test_a_layer_that_compiles_anew_at_each_call_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"torch\.compile compiles it anew at each call"):
        compile_now(counting(True), Clock(1.0))


def test_a_call_of_which_no_graph_is_made_is_not_timed_under_that_name() -> None:
    with pytest.raises(Unavailable, match=r"torch\.compile makes no graph of it: torch gives no reason"):
        compile_now(lambda: None, Clock(1.0))


def test_what_was_left_uncompiled_is_told() -> None:
    from torch._dynamo.utils import counters

    settled = counting(True, False)

    def call() -> None:
        if not counters["graph_break"]:
            counters["frames"]["total"] += 2
            counters["graph_break"]["Call to print\n  Explanation: long"] += 3
        settled()

    words = "compiled in parts (3 graph breaks, 2 frames left uncompiled): Call to print"
    assert compile_now(call, Clock(1.0)).warnings == (words,)


# -- with torch's own compiler ----------------------------------------------------------------------------------------

TWO_KINDS = (
    RIGHT
    + """

@torch.compiler.disable
def uncompiled(scores):
    return torch.softmax(scores, -1)


class Breaks(Right):
    def forward(self, x):
        q, k, v = (self.split(project(x)) for project in (self.W_Q, self.W_K, self.W_V))
        weights = uncompiled(q @ k.transpose(-1, -2) * self.scale(q.shape[-1]))
        return self.W_O((weights @ v).transpose(1, 2).reshape(x.shape))


class Never(Right):
    def forward(self, x):
        return untouched(self, x)


@torch.compiler.disable
def untouched(layer, x):
    return Right.forward(layer, x)


class Grows(Right):
    num_calls = 0

    def forward(self, x):
        self.num_calls += 1
        return super().forward(x) if self.num_calls > 0 else x
"""
)


@pytest.fixture
def no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is not made ready first, which takes as long as compiling does: it is settled how, that is all."""
    module._configure()
    monkeypatch.setattr(module, "_why_not", lambda _: "")


@pytest.fixture
def only_traced(monkeypatch: pytest.MonkeyPatch, no_start: None) -> None:
    """torch.compile traces and makes graphs as ever, and runs them as they are: quick, and needs no C++."""
    really = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **options: really(function, backend="eager", **options))


@pytest.mark.parametrize(
    ("layer", "status", "words"),
    [
        ("Right", "ok", ""),
        (
            "Breaks",
            "ok",
            r"compiled in parts \(\d+ graph breaks?\): Skip calling `torch\.compiler\.disable\(\)`d function",
        ),
        ("Never", "unavailable", r"torch\.compile makes no graph of it: Skip calling `torch\.compiler\.disable"),
        ("Grows", "unavailable", r"torch\.compile compiles it anew at each call$"),
    ],
)
def test_what_torch_makes_of_a_layer_of_ones_own_is_told(
    layer: str, status: str, words: str, only_traced: None, tmp_path: Path
) -> None:
    name = f"{write_layer(tmp_path, text=TWO_KINDS)}:{layer}"
    row = run(f"compiled:{name}", "official", layers={f"compiled:{name}": name})[f"compiled:{name}"]
    assert row["status"] == status, row
    assert re.match(words, row["status_reason"] if status == "unavailable" else row["warnings"]), row
    assert ("compiled in parts" in row.get("warnings", "")) == (layer == "Breaks")
    assert ("latency_median_ms" in row) == (status == "ok")


@pytest.mark.soak
def test_many_layers_of_one_class_stay_compiled(only_traced: None, tmp_path: Path) -> None:
    # Beyond 8 versions of one code torch would run the ninth uncompiled.
    text = RIGHT + "".join(
        f"\n\ndef make_{n}(d_model, num_heads):\n    return Right(d_model, num_heads)\n" for n in range(9)
    )
    path = write_layer(tmp_path, text=text)
    layers = {f"compiled:{path}:make_{n}": f"{path}:make_{n}" for n in range(9)}
    rows = run(*layers, "official", layers=layers)
    assert {row["status"] for row in rows.values()} == {"ok"}


@pytest.mark.soak
def test_the_official_call_is_really_compiled_and_the_program_within_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_start: None
) -> None:
    monkeypatch.setenv(module.CACHE_VARIABLE, str(tmp_path))
    names = ["official", "compiled:official"]
    rows = measure(make_workload(), names, Cpu(), budget_s=0.02, order_seed=7, say=lambda *_: None)
    cells = rows["compiled:official"].cells
    assert (cells["status"], cells["check_verdict"]) == ("ok", "pass"), cells
    # It computes explicitly; inductor knows the pattern, and puts the fused kernel in its place.
    assert cells["kernel"] == "compiled: sdpa flash (cpu)"
    assert cells["compile_s"] > 0
    assert "compiled in parts" not in cells.get("warnings", "")
    assert os.listdir(tmp_path) == []  # nothing is left for the next one to find


@pytest.mark.soak
def test_a_training_call_is_compiled_with_its_gradients() -> None:
    point = make_workload(mode="training")
    x, weights = make_input(point), make_weights(point)
    mine, theirs = (make_contender(name, point, weights, x) for name in ("compiled:custom", "custom"))
    compilation = compile_now(mine.call, Cpu())
    assert any("backward" in kernel for kernel in compilation.kernels), compilation
    assert compilation.warnings == ()
    gradients, expected = mine.call(), theirs.call()
    assert isinstance(gradients, tuple)
    assert isinstance(expected, tuple)
    for mine_, theirs_ in zip(gradients, expected, strict=True):
        torch.testing.assert_close(mine_, theirs_, rtol=1e-4, atol=1e-6)


def test_each_compiled_call_is_compiled_for_itself(eager: list[Callable[[], Tensor]]) -> None:
    x = torch.ones(3)
    functions = [compiled(lambda: x + 1) for _ in range(2)]
    assert all(torch.equal(function(), x + 1) for function in functions)
    assert eager[0].__code__ is not eager[1].__code__  # dynamo keeps what it has compiled with the code


SAYS_WHERE = (
    RIGHT
    + """

import os, pathlib


class SaysWhere(Right):
    def forward(self, x):
        folder = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        folder.mkdir(exist_ok=True)
        (folder / "left behind").touch()
        raise ValueError(str(folder))
"""
)


def test_a_child_compiles_into_a_folder_that_goes_with_it(tmp_path: Path) -> None:
    spec = f"{write_layer(tmp_path, text=SAYS_WHERE)}:SaysWhere"
    with MeasuringChild() as child:
        answer = child.ask(
            {
                "request": "measure",
                "workload": make_workload().to_dict(),
                "contenders": [spec],
                "layers": {spec: spec},
                "time_budget_s": 0.01,
                "order_seed": 7,
            },
            limit_s=120,
        )
        said = re.search(r"ValueError: (\S+)", answer["rows"][spec]["status_reason"])
        assert said, answer
        assert (Path(said[1]) / "left behind").is_file()
    assert not Path(said[1]).parent.exists()
