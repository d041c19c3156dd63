"""What differs between the two sides of a comparison besides what they compute, with what to change."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from mha.checking.trial import Stopped, Trial, is_fused
from mha.checking.wording import short
from mha.reading.layouts import Reading, parameters_of


def fairness_notes(trial: Trial, reading: Reading | None) -> list[str]:
    """Sentences on dtype, bias, dropout, weights returned, grad mode and layout that would tilt a comparison."""
    notes = []
    layer = trial.layer
    dropouts = [module for module in layer.modules() if isinstance(module, nn.modules.dropout._DropoutNd) and module.p]
    if dropouts:
        notes.append(
            f"Dropout {dropouts[0].p:g} is at rest in eval mode; in training it costs time and the official layer here "
            "has none: set it to 0 to compare speed."
        )
    dtypes = {parameter.dtype for parameter in layer.parameters() if parameter.is_floating_point()}
    if len(dtypes) > 1:
        notes.append(f"The parameters are of several dtypes ({_names(dtypes)}): layer.to(dtype) makes them one.")
    frozen = [name for name, parameter in layer.named_parameters() if not parameter.requires_grad]
    if frozen:
        notes.append(
            f"{frozen[0]} takes no gradient (requires_grad=False), the official layer's weights do: training would "
            "cost it less."
        )
    if reading is not None and reading.stored:
        roles = reading.roles
        biases = {role for role in roles if role.startswith("b_")}
        if biases and len(biases) < 4:
            without = [role[2:] for role in ("b_q", "b_k", "b_v", "b_o") if role not in biases]
            notes.append(
                f"The layer has no bias for {', '.join(without)}: the official layer's is set to zero there, and still "
                "costs its addition."
            )
    moving = _unmatched_that_matter(trial, reading)
    if moving:
        notes.append(
            f"{', '.join(moving)}: no counterpart in the official layer, and left at the initial value. At another "
            "value the output is another."
        )
    if _calls_fused_kernel(trial) and not is_fused(layer):
        notes.append(
            "The layer calls scaled_dot_product_attention: compare its speed with the official layer's fused call "
            "(need_weights=False), not with its default one."
        )
    if not trial.how.batch_first:
        notes.append("The layer is sequence-first: compare its speed with an official layer that is so as well.")
    if torch.get_default_dtype() != torch.float32:
        notes.append(f"torch's default dtype is {_names({torch.get_default_dtype()})}: layers are built in it.")
    return notes


def _unmatched_that_matter(trial: Trial, reading: Reading | None) -> list[str]:
    """Parameters without counterpart, where the output changes when all of them are changed at random."""
    if reading is None or not reading.unmatched:
        return []
    tensors = parameters_of(trial.layer)
    names = [
        name
        for name in reading.unmatched
        if tensors[name].is_floating_point() and tensors[name].layout is torch.strided
    ]
    generator = torch.Generator().manual_seed(trial.how.seed + 7)
    kept = {name: tensors[name].clone() for name in names}
    try:
        before = trial.run()
        for name in names:
            tensors[name].add_(torch.randn(tuple(tensors[name].shape), generator=generator).to(tensors[name]) * 0.3)
        moved = trial.run()
    except Stopped:
        return []
    finally:
        for name in names:
            tensors[name].copy_(kept[name])
    changed = moved.shape != before.shape or not torch.allclose(moved, before, rtol=1e-4, atol=1e-5, equal_nan=True)
    return names if changed else []


def _calls_fused_kernel(trial: Trial) -> bool:
    """Whether a run of the layer calls torch's fused attention; False where this torch cannot watch for it."""
    attention = getattr(F, "scaled_dot_product_attention", None)
    try:
        from torch.overrides import TorchFunctionMode
    except ImportError:  # before torch 1.13
        return False
    called = []

    # Newer torch has types for the mode, older torch none: then its class counts as Any, which may not be inherited.
    class Watch(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            called.append(func)
            return func(*args, **(kwargs or {}))

    try:
        with Watch():
            trial.run()
    except Stopped:
        return False
    return any(func is attention for func in called)


def _names(dtypes: set[torch.dtype]) -> str:
    return ", ".join(sorted(short(dtype) for dtype in dtypes))
