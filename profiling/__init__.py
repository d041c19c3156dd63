"""Measures attention layers: sweeps over workloads, in processes of their own, into run folders.

The names below load what they need when they are first used, so that `python -m profiling --help` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profiling.sweep import run_sweep
    from profiling.table import load_run

__all__ = ["load_run", "run_sweep"]

_HOMES = {"run_sweep": "profiling.sweep", "load_run": "profiling.table"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'profiling' has no attribute {name!r}")
