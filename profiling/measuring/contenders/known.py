"""Names → layers ready to run: each with weights of its own, equal in value, and a call that is the work to time."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mha import FusedMultiHeadAttention, MultiHeadAttention, official_layer, randomize_, transplant
from mha.official import call_official, causal_mask
from profiling.layers import inner_of, is_compiled
from profiling.measuring.contenders.compiled import compiled
from profiling.measuring.contenders.fast_paths import with_fast_path
from profiling.workload import Workload

FAST = "official-fastpath"
# A contender's class; the official calls are told apart by `need_weights` below, and by the switch of the fast path.
LAYERS: dict[str, type[nn.Module]] = {
    "custom": MultiHeadAttention,
    "custom-fused": FusedMultiHeadAttention,
    "official": nn.MultiheadAttention,
    "official-fused": nn.MultiheadAttention,
    FAST: nn.MultiheadAttention,
}
# How the official layer is called as that contender: the default call runs explicit products, without weights it
# runs the fused kernel. The fast path is taken by either, and asked for no weights it does the least.
NEED_WEIGHTS = {"official": True, "official-fused": False, FAST: False}


@dataclasses.dataclass(frozen=True)
class Contender:
    """A layer ready to run.

    Attributes:
        name: its name in the sweep.
        layer: the module, with weights of its own.
        forward: (B, S, E) → (B, S, E), without regard to gradients.
        call: one call of the workload, the work that is timed.
        x: the input where it has one of its own.
        warnings: what a reader of its numbers should know.
        incomparable: why its output cannot be compared with the reference's; empty where it can.
        recipe: of a layer of one's own, how it was built, called and given its weights, ready for JSON.
    """

    name: str
    layer: nn.Module
    forward: Callable[[], Tensor]
    call: Callable[[], object]
    x: Tensor | None = None
    warnings: tuple[str, ...] = ()
    incomparable: str = ""
    recipe: dict[str, Any] | None = None


def make_input(workload: Workload) -> Tensor:
    """The input (B, S, E) of a workload: normal numbers, the same for one seed whatever the device or dtype."""
    generator = torch.Generator().manual_seed(workload.seed)
    x = torch.randn(workload.batch_size, workload.seq_len, workload.d_model, generator=generator)
    x = x.to(device=workload.device, dtype=torch_dtype(workload))
    return x.requires_grad_(workload.mode == "training")


def make_weights(workload: Workload) -> nn.MultiheadAttention:
    """An official layer with the workload's random weights and biases: what every contender is copied from."""
    official = official_layer(
        workload.d_model,
        workload.num_heads,
        bias=workload.bias,
        device=torch.device(workload.device),
        dtype=torch_dtype(workload),
    )
    # Another seed than the input's, so that the two are independent.
    randomize_(official, workload.seed + 1)
    return official


def make_contender(name: str, workload: Workload, weights: nn.Module, x: Tensor) -> Contender:
    """The contender `name` for a workload, with a copy of `weights`; a compiled one compiles at its first call.

    Raises:
        ValueError: what the layer itself refuses.
    """
    inner = inner_of(name)
    layer = _make_layer(inner, workload)
    transplant(weights, layer)
    layer.train(workload.mode == "training")
    forward = _forward(inner, layer, workload, x)
    forward = compiled(forward) if is_compiled(name) else forward
    forward = with_fast_path(forward) if inner == FAST else forward
    return Contender(name, layer, forward, _training(layer, forward, x) if workload.mode == "training" else forward)


def source_hash(name: str) -> str:
    """A hash of the source files that a contender's class consists of: torch's own as well as ours."""
    digest = hashlib.sha256()
    classes = LAYERS[inner_of(name)].__mro__
    for path in sorted({inspect.getfile(cls) for cls in classes if cls not in (nn.Module, object)}):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]


def torch_dtype(workload: Workload) -> torch.dtype:
    """The workload's element type as torch's functions take it."""
    dtype: torch.dtype = getattr(torch, workload.dtype)
    return dtype


def _make_layer(name: str, workload: Workload) -> nn.Module:
    options: dict[str, Any] = {"device": torch.device(workload.device), "dtype": torch_dtype(workload)}
    if name in NEED_WEIGHTS:
        return official_layer(workload.d_model, workload.num_heads, bias=workload.bias, **options)
    return LAYERS[name](workload.d_model, workload.num_heads, bias=workload.bias, causal=workload.causal, **options)


def _forward(name: str, layer: nn.Module, workload: Workload, x: Tensor) -> Callable[[], Tensor]:
    if name not in NEED_WEIGHTS:
        return lambda: layer(x)
    assert isinstance(layer, nn.MultiheadAttention)
    need_weights = NEED_WEIGHTS[name]
    # Built once: the mask is an argument of the official call, not part of its work. An additive one, which spares the
    # call a conversion, would keep it off the fast path.
    dtype = None if name == FAST else x.dtype
    mask = causal_mask(workload.seq_len, dtype=dtype, device=x.device) if workload.causal else None
    return lambda: call_official(layer, x, need_weights=need_weights, causal_mask=mask)


def _training(layer: nn.Module, forward: Callable[[], Tensor], x: Tensor) -> Callable[[], object]:
    inputs = [x, *layer.parameters()]
    # Gradients are returned, not added to `.grad`: so none has to be cleared between the calls of one sample.
    gradient = torch.ones_like(x)
    return lambda: torch.autograd.grad(forward(), inputs, gradient)
