"""Weights from one layer to another: by role, as copies, and with the mapping told."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from mha.checking.settling import settled_reading
from mha.reading.building import sizes_of
from mha.reading.layouts import Reading, UnknownLayoutError, parameters_of
from mha.slots import Slot, slots


class TransplantError(ValueError):
    """The weights of one layer have no place in the other; the message names both shapes."""


class MappingEntry(NamedTuple):
    """One step of a transplant: from where, to where, and how the values went."""

    source: str
    target: str
    how: str


def transplant(source: nn.Module, target: nn.Module) -> list[MappingEntry]:
    """Copy the weights of one layer into another, role by role, in either direction; no storage is shared.

    Where a layer is neither ours nor the official one, its layout is found out as the check does it: by names and
    shapes, and where these leave it open, by running a copy of it on a small input
    (:mod:`mha.checking.settling`). Biases that only the target has become zero; the entry says so. Values are converted
    to the target's dtype and device.

    Returns:
        One entry per role of the target: (where it came from, where it went, how).

    Raises:
        UnknownLayoutError: where a layer's layout cannot be found out, or its heads share weights and the source's
            have no place.
        TransplantError: where shapes differ, or the source has biases other than zero and the target has none.
    """
    return read_and_transplant(source, target)[0]


def read_and_transplant(source: nn.Module, target: nn.Module) -> tuple[list[MappingEntry], Reading | None]:
    """The same, with the reading of the target's parameters by which it was done; None where its layout is known."""
    num_heads = next((sizes_of(layer, 1, 0)[1] for layer in (source, target) if sizes_of(layer, 1, 0)[1]), 1)
    given, _ = _roles(source, num_heads)
    wanted, reading = _roles(target, num_heads)
    if reading is not None and reading.is_tied:
        raise UnknownLayoutError(f"{type(target).__name__}: one weight is tied to several roles")
    if reading is not None and reading.is_shared:
        shared = next(one for one in reading.stored if one.is_shared)
        raise UnknownLayoutError(
            f"{type(target).__name__}: {shared.label} is shared by several heads and has no place for weights of each"
        )
    for role in given:
        if role not in wanted and bool(given[role].tensor.any()):
            raise TransplantError(f"{given[role].label} is not zero and {type(target).__name__} has no place for it")
    mapping = [_copy(role, slot, given) for role, slot in wanted.items()]
    if reading is not None:  # its slots are copies where an order of axes had to be undone
        reading.write(target, {role: slot.tensor for role, slot in wanted.items()})
    return mapping, reading


def _copy(role: str, slot: Slot, given: dict[str, Slot]) -> MappingEntry:
    how = slot.how
    if role not in given:
        slot.tensor.zero_()
        return MappingEntry("none", slot.label, "set to zero")
    if given[role].tensor.shape != slot.tensor.shape:
        raise TransplantError(
            f"{given[role].label} has shape {tuple(given[role].tensor.shape)}, "
            f"{slot.label} has shape {tuple(slot.tensor.shape)}"
        )
    slot.tensor.copy_(given[role].tensor)
    return MappingEntry(given[role].label, slot.label, how)


def _roles(layer: nn.Module, num_heads: int) -> tuple[dict[str, Slot], Reading | None]:
    """Role -> slot; of a layer of another hand, slots that are copies, and the reading behind them."""
    try:
        return slots(layer), None
    except UnknownLayoutError:
        reading = settled_reading(layer, *sizes_of(layer, 1, num_heads))
    values = reading.read(parameters_of(layer))
    labels = {f"{one.kind}_{role}": (one.label, one.how()) for one in reading.stored for role in one.roles}
    return {role: Slot(labels[role][0], tensor.clone(), labels[role][1]) for role, tensor in values.items()}, reading
