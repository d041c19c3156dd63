"""How a layer of one's own is asked to be causal in a call: found by giving it switches and masks until it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mha.checking.masks import KINDS, written
from mha.reading.calling import Calling
from profiling.workload import Workload

PROBE_LENGTH = 5
# A mask over queries and keys is usually asked for as (S, S), (1, 1, S, S) or (B, S, S).
_NUM_AXES = (2, 4, 3)

Arguments = Callable[[Tensor], dict[str, Any]]


def causal_arguments(layer: nn.Module, calling: Calling, workload: Workload, x: Tensor) -> dict[str, Any] | None:
    """The arguments by which a layer's calls become causal; none where it is so by itself, None where nothing does.

    The layer is run on a few short inputs; which kind of mask it obeys is seen by what a change of one token changes.
    """
    generator = torch.Generator().manual_seed(workload.seed)
    probe = torch.randn(2, PROBE_LENGTH, workload.d_model, generator=generator).to(x)
    was_training = layer.training
    layer.eval()
    try:
        found = next((ask for ask in _ways(calling) if _is_causal(layer, calling, ask(probe), probe)), None)
    finally:
        layer.train(was_training)
    return found(x) if found else None


def _ways(calling: Calling) -> Iterator[Arguments]:
    """What to pass for an input (B, S, E), the simplest first."""
    yield lambda _: {}
    for flag in calling.causal_flags:
        yield partial(_switch, flag)
    for argument in calling.masks:
        for num_axes in _NUM_AXES:
            for kind in KINDS:
                yield partial(_mask, argument, num_axes, kind)


def _switch(flag: str, _: Tensor) -> dict[str, Any]:
    return {flag: True}


def _mask(argument: str, num_axes: int, kind: str, x: Tensor) -> dict[str, Any]:
    batch_size, seq_len, _ = x.shape
    past = torch.ones(seq_len, seq_len, dtype=torch.bool, device=x.device).tril()
    shape = {2: (), 3: (batch_size,), 4: (1, 1)}[num_axes]
    return {argument: written(past.expand(*shape, seq_len, seq_len), kind, x.dtype)}


def _is_causal(layer: nn.Module, calling: Calling, arguments: dict[str, Any], probe: Tensor) -> bool:
    """Whether a change of the last token shows in the last output alone, and one of the first in the last output."""
    first, last = probe.clone(), probe.clone()
    first[:, 0] += 1
    last[:, -1] += 1
    try:
        with torch.no_grad():
            plain, after_first, after_last = (calling(layer, x.clone(), **arguments) for x in (probe, first, last))
    except Exception:  # it does not take this kind of mask
        return False
    if plain.shape != probe.shape or not bool(torch.isfinite(plain).all()):
        return False
    bound = 4 * torch.finfo(plain.dtype).eps + 1e-5
    sees_the_future = not torch.allclose(plain[:, :-1], after_last[:, :-1], rtol=bound, atol=bound)
    sees_the_past = not torch.allclose(plain[:, -1], after_first[:, -1], rtol=bound, atol=bound)
    return sees_the_past and not sees_the_future
