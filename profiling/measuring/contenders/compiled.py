"""A contender run through torch.compile: compiled before anything is timed, and the time that this took.

Compiled under the workload's own mode, for its very shape, with torch's default settings. Nothing falls back in
silence: what cannot be compiled is unavailable, and what is compiled in parts only says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import types
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import torch

from mha import MultiHeadAttention
from profiling.measuring.devices import Device
from profiling.measuring.failures import Unavailable

T = TypeVar("T")

# A call that still compiles after so many calls does so each time: nothing of it could be timed.
MAX_CALLS = 10
_ANEW = "torch.compile compiles it anew at each call"
# Where the compiler keeps its files; a measuring child has a folder of its own for them.
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_NO_CXX_COMPILER = "InvalidCxxCompiler"
# Functions that inductor generates are named after the operators that they stand for.
_GENERATED = re.compile(r"\b(?:cpp|triton)_\w*fused_\w+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compilation:
    """What compiling a call took and gave.

    Attributes:
        seconds: time of the calls that compiled, less as many calls that did not.
        warnings: what a reader of its numbers should know.
        kernels: names of the functions that were generated, which a profile of a CPU does not show.
    """

    seconds: float
    warnings: tuple[str, ...]
    kernels: frozenset[str]


def compiled(function: Callable[[], T]) -> Callable[[], T]:
    """The function as torch.compile runs it; it compiles when it is first called."""
    # torch keeps what it has compiled with the code object, which all calls of one kind of contender share: one of its
    # own makes each compile anew, and lets none reach the limit of versions that torch keeps of one code.
    assert isinstance(function, types.FunctionType)
    own = types.FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__, None, function.__closure__
    )
    # The call rather than the module: of a module of torch's own, such as the official layer, torch makes no graph.
    result: Callable[[], T] = torch.compile(own, dynamic=False)
    return result


def compile_now(
    call: Callable[[], object], device: Device, timed: Callable[[Callable[[], object]], float] | None = None
) -> Compilation:
    """Calls until nothing is compiled any more, beginning with an empty cache.

    Args:
        call: what compiles when it is called.
        device: where it runs.
        timed: runs a call and tells its seconds; None for the device's own way, which on an accelerator takes memory.

    Raises:
        Unavailable: nothing of it can be compiled, or each call compiles anew.
        BaseException: whatever the compiler or the layer raises.
    """
    import torch._dynamo.utils
    import torch._inductor.utils

    counters = torch._dynamo.utils.counters
    counters.clear()
    folder = os.environ.get(CACHE_VARIABLE)
    with torch._inductor.utils.fresh_cache(dir=folder), _generated_sources() as sources:
        seconds = _call_until_settled(
            call, timed or partial(device.time_calls, num_calls=1), lambda: counters["frames"]["total"]
        )
    if not counters["stats"]["unique_graphs"]:
        raise Unavailable(f"torch.compile makes no graph of it: {_first_reason(counters)}")
    return Compilation(
        seconds=max(0.0, sum(seconds) - len(seconds) * seconds[-1]),
        warnings=_warnings(counters),
        kernels=frozenset(name for source in sources for name in _GENERATED.findall(source)),
    )


def _call_until_settled(
    call: Callable[[], object], timed: Callable[[Callable[[], object]], float], num_compiled: Callable[[], int]
) -> list[float]:
    """Seconds of each call until one compiles nothing; that one is the last."""
    from torch._dynamo.exc import FailOnRecompileLimitHit

    seconds: list[float] = []
    is_new = True
    while is_new:
        if len(seconds) == MAX_CALLS:
            raise Unavailable(_ANEW)
        before = num_compiled()
        try:
            seconds.append(timed(call))
        except FailOnRecompileLimitHit:
            raise Unavailable(_ANEW) from None
        is_new = num_compiled() > before
    return seconds


def _warnings(counters: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    num_breaks = sum(counters["graph_break"].values())
    num_left = counters["frames"]["total"] - counters["frames"]["ok"]
    said = [f"{num_breaks} graph break{'s' * (num_breaks > 1)}"] * (num_breaks > 0)
    said += [f"{num_left} frame{'s' * (num_left > 1)} left uncompiled"] * (num_left > 0)
    return (f"compiled in parts ({', '.join(said)}): {_first_reason(counters)}",) if said else ()


def _first_reason(counters: Mapping[str, Mapping[str, int]]) -> str:
    """The first line of the first reason that torch gives for what it did not compile."""
    told = next(iter([*counters["graph_break"], *counters["unimplemented"]]), "torch gives no reason")
    return told.partition("\n")[0].strip().rstrip(".")


def forget_compiled() -> None:
    """Lets go of what was compiled for another workload, which would count towards the limits of this one."""
    torch.compiler.reset()


def start_compiler(device: Device) -> None:
    """Makes torch.compile ready, once per process, so that no layer pays for what comes before the first of all.

    Raises:
        Unavailable: there is no compiler, or none that torch can use.
    """
    if reason := _why_not(device.torch_device):
        raise Unavailable(reason)


@functools.cache
def _why_not(device: torch.device) -> str:
    """Compiles a small layer; a sentence where this fails, else nothing."""
    try:
        _configure()
        import torch._inductor.utils

        layer = MultiHeadAttention(4, 2, device=device).eval()
        x = torch.zeros(2, 3, 4, device=device)
        folder = os.environ.get(CACHE_VARIABLE)
        with torch._inductor.utils.fresh_cache(dir=folder), torch.inference_mode():
            compiled(lambda: layer(x))()
    except Exception as error:  # torch wraps it by where it came from, and another torch otherwise
        if _NO_CXX_COMPILER in f"{type(error).__name__} {error}":
            return "torch.compile needs a C++ compiler, such as g++ or clang++, and finds none here"
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return f"torch.compile does not work here: {said[:300]}"
    return ""


def _configure() -> None:
    import torch._dynamo.config
    import torch._inductor.config

    # In this process: workers would outlive the compiling, and compete with what is timed.
    torch._inductor.config.compile_threads = 1
    # Beyond the limit of versions torch would run it uncompiled, without a word.
    torch._dynamo.config.fail_on_recompile_limit_hit = True


@contextlib.contextmanager
def _generated_sources() -> Iterator[list[str]]:
    """The source texts that inductor generates within the block; none where torch has no such hook."""
    import torch._inductor.graph

    graph: Any = torch._inductor.graph.GraphLowering
    before = getattr(graph, "save_output_code", None)
    sources: list[str] = []
    graph.save_output_code = staticmethod(sources.append)
    try:
        yield sources
    finally:
        graph.save_output_code = before if before is None else staticmethod(before)
