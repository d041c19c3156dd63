"""Which program a call runs: compiled where its name says so, seen for its row, refused where it is another."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from profiling.layers import inner_of
from profiling.measuring.contenders.compiled import Compilation, compile_now, start_compiler
from profiling.measuring.contenders.fast_paths import SWITCHED_OFF, fast_path_reason
from profiling.measuring.contenders.kernels import FAST_PATH, observe_kernel
from profiling.measuring.contenders.known import FAST, Contender
from profiling.measuring.devices import Device
from profiling.measuring.failures import Unavailable
from profiling.settings import OFFICIAL


def compile_contender(contender: Contender, device: Device) -> Compilation:
    """Compiles a contender's call, in the mode in which it will be timed.

    Raises:
        Unavailable: there is no compiler here, or it makes nothing of the call.
    """
    start_compiler(device)
    return compile_now(contender.call, device)


def require_fast_path(contender: Contender, generated: Collection[str] = ()) -> None:
    """Looks whether a contender that is named after the fast path takes it.

    Raises:
        Unavailable: it does not; nothing else may be timed under that name.
    """
    program = observe_kernel(contender.call, generated)
    if _is_fast_path(program):
        return
    reason = fast_path_reason(contender.call, contender.layer)
    if reason == SWITCHED_OFF:  # it was on: so it is the compiler that has put another program in its place
        reason = f"torch.compile puts another program in its place ({program or 'none that is known'})"
    raise Unavailable(f"the fast path does not run: {reason}")


def program_cells(contender: Contender, generated: Collection[str] = ()) -> dict[str, Any]:
    """The cells of a row that tell which program ran, and of the official layer why its fast path did not."""
    program = observe_kernel(contender.call, generated)
    cells: dict[str, Any] = {"kernel": program}
    if inner_of(contender.name) in OFFICIAL and not _is_fast_path(program):
        cells["fast_path_reason"] = fast_path_reason(contender.call, contender.layer)
    return cells


def must_take_fast_path(name: str) -> bool:
    """Whether a contender is named after the fast path."""
    return inner_of(name) == FAST


def _is_fast_path(program: str | None) -> bool:
    return program is not None and program.endswith(FAST_PATH)
