"""Scripts of rows, run within a test as far as their definitions go."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch


def namespace(script: str) -> dict[str, Any]:
    """What a script defines, as an import would leave it."""
    names: dict[str, Any] = {"__name__": "script", "__file__": "script.py"}
    exec(compile(script, "script.py", "exec"), names)
    return names


@contextlib.contextmanager
def settings_of_torch() -> Iterator[None]:
    """A script sets torch up as it likes: it is put back."""
    threads, fast, path = torch.get_num_threads(), torch.backends.mha.get_fastpath_enabled(), list(sys.path)
    yield
    torch.set_num_threads(threads)
    torch.backends.mha.set_fastpath_enabled(fast)
    torch.set_grad_enabled(True)
    sys.path[:] = path
    sys.dont_write_bytecode = False
