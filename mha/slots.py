"""Where our layers and the official one keep their weights, by role.

A role is what a weight does (``w_q``: makes queries; ``b_o``: is added to the output), not where it stands. Here the
layout is known beforehand; :mod:`mha.reading.layouts` finds out that of any other layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mha.reading.layouts import UnknownLayoutError

WEIGHT_ROLES = ("w_q", "w_k", "w_v", "w_o")
BIAS_ROLES = ("b_q", "b_k", "b_v", "b_o")


class Slot(NamedTuple):
    """Where a layer keeps one role: a name to show, a tensor that reads and writes it, and how values go in."""

    label: str
    tensor: Tensor
    how: str = "copied"


@dataclass(frozen=True)
class Layout:
    """How a layer stores the eight roles.

    ``find`` gives the slots of the roles that the layer has, or None where the layer is of another layout.
    """

    name: str
    find: Callable[[nn.Module], dict[str, Slot] | None]


def slots(layer: nn.Module) -> dict[str, Slot]:
    """Find where a layer keeps its weights: role -> slot, four weights and, where it has them, biases.

    Every weight is (E, E), out x in, every bias (E,); the slots share the layer's storage.

    Raises:
        UnknownLayoutError: where no layout fits, or a shape cannot correspond to four (E, E) projections.
    """
    for layout in LAYOUTS:
        found = layout.find(layer)
        if found is not None:
            _require_square(layer, found)
            return found
    names = ", ".join(name for name, _ in layer.named_parameters()) or "none"
    known = "; ".join(layout.name for layout in LAYOUTS)
    raise UnknownLayoutError(f"{type(layer).__name__} has no layout known here ({known}); its parameters: {names}")


def randomize_(layer: nn.Module, seed: int | torch.Generator = 0) -> nn.Module:
    """Fill a layer with random weights and random biases, in place; returns the layer.

    Weights are normal with deviation 1/sqrt(E), so that queries and keys of normal input have deviation 1 and the
    attention is far from uniform; biases normal with deviation 0.5 (a fresh official layer's are zero, and hide a bias
    that is forgotten). Drawn on the CPU in float32 by role: the same seed gives the same values in every layout, and
    on every device up to rounding.
    """
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
    found = slots(layer)
    for role in WEIGHT_ROLES + BIAS_ROLES:
        if role in found:
            tensor = found[role].tensor
            std = tensor.shape[-1] ** -0.5 if role in WEIGHT_ROLES else 0.5
            tensor.copy_(torch.randn(tuple(tensor.shape), generator=generator) * std)
    return layer


def _packed(layer: nn.Module) -> dict[str, Slot] | None:
    """Our layers and the official one: ``in_proj_weight`` (3E, E) and ``out_proj`` or ``W_O``."""
    block = getattr(layer, "in_proj_weight", None)
    out_name = "out_proj" if hasattr(layer, "out_proj") else "W_O"
    out = getattr(layer, out_name, None)
    if not isinstance(block, Tensor) or not isinstance(out, nn.Module):
        return None
    named = hasattr(layer, "W_Q")  # ours: the thirds of the block have names of their own
    found = _thirds("w", block, "W_{}.weight" if named else "in_proj_weight[{}:{}]")
    if isinstance(out.weight, Tensor):
        found["w_o"] = Slot(f"{out_name}.weight", _tensor(out.weight))
    bias = getattr(layer, "in_proj_bias", None)
    if isinstance(bias, Tensor):
        found.update(_thirds("b", bias, "W_{}.bias" if named else "in_proj_bias[{}:{}]"))
    if isinstance(out.bias, Tensor):
        found["b_o"] = Slot(f"{out_name}.bias", _tensor(out.bias))
    return found


def _thirds(kind: str, block: Tensor, label: str) -> dict[str, Slot]:
    size = block.shape[0] // 3
    found = {}
    for i, role in enumerate("qkv"):
        rows = (i * size, (i + 1) * size)
        name = label.format(role.upper()) if label.startswith("W_") else label.format(*rows)
        found[f"{kind}_{role}"] = Slot(name, _tensor(block)[rows[0] : rows[1]])
    return found


def _tensor(parameter: Tensor) -> Tensor:
    return parameter.detach()  # shares storage: writing to it writes to the layer


def _require_square(layer: nn.Module, found: dict[str, Slot]) -> None:
    d_model = found["w_o"].tensor.shape[0]
    for role, slot in found.items():
        wanted = (d_model, d_model) if role in WEIGHT_ROLES else (d_model,)
        if tuple(slot.tensor.shape) != wanted:
            raise UnknownLayoutError(
                f"{type(layer).__name__}: {slot.label} has shape {tuple(slot.tensor.shape)}, not {wanted}: "
                f"its shapes do not correspond to the official layer's"
            )


LAYOUTS: list[Layout] = [
    Layout("in_proj_weight with out_proj or W_O", _packed),
]
