"""Lifts the limit on memory while torch.compile works, and tells what that took: a compiler is no part of the call."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from profiling.measuring.devices import Device
from profiling.measuring.failures import Unavailable


class CompilerRoom:
    """Within it a call may compile beyond the limit; what the call itself allocates stays under it.

    Args:
        device: whose limit it is.
        limit_bytes: that holds whenever nothing compiles; None for no limit.
        say: told `compile` when compiling begins, and `warm-up` when the call goes on.

    Attributes:
        seconds: that compiling took so far.
        left_bytes: what it has left in this process.

    Raises:
        Unavailable: torch does not tell when it compiles.
    """

    def __init__(self, device: Device, limit_bytes: int | None, say: Callable[[str], None]) -> None:
        self._device, self._limit_bytes, self._say = device, limit_bytes, say
        self._began_s, self._held_before = 0.0, 0
        self.seconds, self.left_bytes = 0.0, 0

    def __enter__(self) -> CompilerRoom:
        handler = _handler()
        handler.register_start_callback(self._begin)
        handler.register_end_callback(self._end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        handler = _handler()
        handler.remove_start_callback(self._begin)
        handler.remove_end_callback(self._end)

    def _begin(self, *_: object) -> None:
        self._say("compile")
        if self._limit_bytes is not None:
            self._device.limit_bytes(None)
        self._held_before, self._began_s = self._device.held_bytes() or 0, time.perf_counter()

    def _end(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began_s
        self.left_bytes += (self._device.held_bytes() or 0) - self._held_before
        if self._limit_bytes is not None:
            self._device.limit_bytes(self._limit_bytes)
        self._say("warm-up")


def is_compilers(error: BaseException) -> bool:
    """Whether the compiler raised it, rather than the call; in a process that has compiled."""
    from torch._dynamo.exc import TorchDynamoException

    return isinstance(error, TorchDynamoException)


def _handler() -> Any:
    try:
        from torch._dynamo.callback import callback_handler
    except ImportError:
        raise Unavailable("this torch does not tell when it compiles, so a compiler and a call look alike") from None
    return callback_handler
