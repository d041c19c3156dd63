"""What is held still around a run: the random state, the number of threads, dropout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from mha.checking.report import Shape

SMALL_WORK = 2**20  # multiplications for one weight and for the scores: a millisecond or so


@contextlib.contextmanager
def own_random_state(device: torch.device | str) -> Iterator[None]:
    """Put the global random state back after (the CPU's, and a CUDA device's), the default dtype and grad mode."""
    device = torch.device(device)
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:  # whatever a layer set for the whole process
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)


@contextlib.contextmanager
def threads_for(shape: Shape) -> Iterator[None]:
    """One thread where the work is small: to share it out costs more than to do it, the more so on a busy machine."""
    before = torch.get_num_threads()
    tokens = shape.batch_size * shape.seq_len
    if tokens * shape.d_model * (shape.d_model + shape.seq_len) <= SMALL_WORK:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def dropout_at_rest() -> Iterator[None]:
    """Keep torch's dropout, also that inside of its attention, from doing anything within the block."""

    def same(x: Tensor, *_: Any, **__: Any) -> Tensor:
        return x

    attention = getattr(F, "scaled_dot_product_attention", None)

    def undropped(*args: Any, **options: Any) -> Any:
        options.pop("dropout_p", None)  # given by name, or as the fifth
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {name: value for name, value in zip(names, args) if name != "dropout_p"}  # noqa: B905 - Python 3.8 has no strict=
        assert attention is not None
        return attention(**given, **options)

    with contextlib.ExitStack() as stack:
        for name in ("dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d"):
            if hasattr(F, name):
                stack.enter_context(mock.patch.object(F, name, same))
        if attention is not None:
            stack.enter_context(mock.patch.object(F, "scaled_dot_product_attention", undropped))
        yield
