"""The profiler, as lean as it comes: what one call makes torch do on the host, operator by operator, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def new_profile(*, memory: bool = False) -> torch.autograd.profiler.profile:
    """A profile to enter; with `memory` it also tells of the blocks that the allocator hands out and takes back.

    Not `torch.profiler.profile`, which is made of it: that one loads the whole of the compiler when it first begins, a
    second or more in each measuring process.
    """
    return torch.autograd.profiler.profile(use_device=None, profile_memory=memory)


def events_of(profile: torch.autograd.profiler.profile) -> Sequence[Any]:
    """The raw events of a finished profile: each has `name()`, `start_ns()` and `nbytes()`."""
    results = profile.kineto_results
    return [] if results is None else list(results.events())
