"""How a layer stores its weights: readings of its parameters, by their names and shapes, the likeliest first.

A reading says which parameter holds which role and in which order its axes run. Names settle the roles where they tell
them, and are never overruled; shapes settle what they can; what is left open (is a square matrix stored (out, in) or
(in, out)?, is a block packed q, k, v or head by head?, which of four nameless matrices makes the keys?) makes several
readings, and running the layer tells which of them is true (see :mod:`mha.checking.diagnosis`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mha.reading.roles import without_index
from mha.reading.storage import Stored

if TYPE_CHECKING:
    pass

MAX_READINGS = 400


class UnknownLayoutError(ValueError):
    """A layer's parameters cannot be read as the weights of multi-head attention; the message says which and why."""


@dataclass(frozen=True)
class Reading:
    """One way to read a layer's parameters.

    Attributes:
        stored: what is stored where.
        unmatched: names of parameters that have no counterpart in the official layer.
        sizes: letter -> size, see :mod:`mha.reading.storage`.
        by_search: whether names left the roles open.
        is_tied: whether one tensor is stored under the names of several roles.
    """

    stored: tuple[Stored, ...]
    unmatched: tuple[str, ...]
    sizes: Mapping[str, int]
    by_search: bool = False
    is_tied: bool = False

    @property
    def roles(self) -> frozenset[str]:
        """The roles that the layer has: ``w_q``, ``b_q`` and so on."""
        return frozenset(f"{one.kind}_{role}" for one in self.stored for role in one.roles)

    @property
    def signature(self) -> tuple[object, ...]:
        """What is stored where, whatever the sizes: the same for the same layer at another width."""
        return tuple(
            (one.kind, one.roles, one.names[0] if len(one.names) == 1 else without_index(one.names[0]), one.letters)
            for one in self.stored
        )

    @property
    def is_shared(self) -> bool:
        """Whether heads or roles share values, so that the official layer's weights cannot all be copied in."""
        return self.is_tied or any(one.is_shared for one in self.stored)

    def read(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Role -> values: weights (E, E) out x in, biases (E). Of parameters, or of tensors shaped like them."""
        found: dict[str, Tensor] = {}
        for one in self.stored:
            found.update(one.read(tensors, self.sizes))
        return found

    def write(self, layer: nn.Module, values: Mapping[str, Tensor]) -> None:
        """Copy role -> values into the layer, in place.

        Raises:
            UnknownLayoutError: where heads share values and the others have no place.
        """
        if self.is_tied:
            raise UnknownLayoutError("one weight is tied to several roles: it has no place for weights of each")
        for one in self.stored:
            if one.is_shared:
                raise UnknownLayoutError(f"{one.label} is shared by several heads: it has no place for weights of each")
        tensors = parameters_of(layer)
        with torch.no_grad():
            for one in self.stored:
                one.write(tensors, self.sizes, values)


def parameters_of(layer: nn.Module) -> dict[str, Tensor]:
    """All parameters by name, detached, tied ones under each of their names."""
    return {name: parameter.detach() for name, parameter in named_parameters(layer)}


def named_parameters(layer: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """All parameters and their names, tied ones under each of their names."""
    try:
        return list(layer.named_parameters(remove_duplicate=False))
    except TypeError:  # torch 1.9
        return list(layer.named_parameters())
