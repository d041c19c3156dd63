"""Memory that is not needed any more: collected outside of what is measured, and given back after a failure."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collects no garbage on the way: no pause falls into a sample, and what an earlier call left is not freed now."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def forget(error: BaseException, *, give_back: bool = False) -> None:
    """Lets go of what an error holds: its frames, and those of the errors behind it, hold the tensors of the call.

    Args:
        error: what was raised.
        give_back: also hands freed memory back to the system, which a pinned heap would keep.
    """
    todo, seen = [error], set()
    while todo:
        each = todo.pop()
        if id(each) not in seen:
            seen.add(id(each))
            BaseException.with_traceback(each, None)  # its own setters may do anything
            todo += [behind for behind in (each.__cause__, each.__context__) if behind is not None]
    gc.collect()
    if give_back:
        give_memory_back()


def give_memory_back() -> None:
    """Hands what is free in the heap back to the system, whatever the heap was told to keep; with glibc only."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(AttributeError, OSError):  # another library of C
            ctypes.CDLL(None).malloc_trim(0)
