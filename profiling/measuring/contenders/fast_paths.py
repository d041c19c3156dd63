"""The official layer's fast path: how it is switched on for one contender, and why torch did not take it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import nn

from mha import fast_path
from profiling.measuring.contenders.kernels import FAST_PATH, observe_kernel

T = TypeVar("T")

SWITCHED_OFF = "switched off here: compare official-fastpath"
# Where torch keeps its own words for it, while a call lasts.
_VARIABLE = "why_not_fast_path"
_FORWARD = nn.MultiheadAttention.forward.__code__


def with_fast_path(call: Callable[[], T]) -> Callable[[], T]:
    """The call with torch's switch on while it lasts; beside it all contenders run with the switch off.

    The switch is global and read by each call, so it has to be part of it: 0.2 µs, measured.
    """
    get, turn = torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled

    def switched() -> T:
        before = get()
        turn(True)
        try:
            return call()
        finally:
            turn(before)

    return switched


def fast_path_reason(call: Callable[[], object], layer: nn.Module) -> str:
    """Why a call of the official layer, which was seen not to take its fast path, does not: in torch's own words.

    It is run once with the switch on, uncompiled: where it then takes the path, only the switch has kept it off.

    Args:
        call: a call in the mode in which it is timed.
        layer: the official layer that it calls.
    """
    reasons: list[str] = []
    with fast_path(True), _uncompiled():
        program = observe_kernel(lambda: _watched(call, reasons))
    if program == FAST_PATH:
        return SWITCHED_OFF
    said = next((reason for reason in reasons if reason), "")
    if said:
        return said.rstrip(".")
    # The one condition that torch has no words for: it asks for the biases, and goes on without a reason.
    if getattr(layer, "in_proj_bias", None) is None:
        return "bias=False: in_proj_bias is None"
    return "torch gives no reason"


def _uncompiled() -> AbstractContextManager[object]:
    # Without the compiler loaded nothing is compiled; and to ask for it would load it, which takes a second.
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _watched(call: Callable[[], object], reasons: list[str]) -> object:
    """Runs the call, and notes what torch keeps of its reason when its forward returns."""

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is _FORWARD:
            reasons.append(str(frame.f_locals.get(_VARIABLE, "")))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        return call()
    finally:
        sys.setprofile(before)
