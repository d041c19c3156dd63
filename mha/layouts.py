"""How a layer stores its weights: readings of its parameters, by their names and shapes, the likeliest first.

A reading says which parameter holds which role and in which order its axes run. Names settle the roles where they tell
them, and are never overruled; shapes settle what they can; what is left open (is a square matrix stored (out, in) or
(in, out)?, is a block packed q, k, v or head by head?, which of four nameless matrices makes the keys?) makes several
readings, and running the layer tells which of them is true (see :mod:`mha.diagnosis`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mha.roles import is_norm, is_plain_output, roles_of, without_index
from mha.storage import Stored, arrangements

if TYPE_CHECKING:
    from mha.storage import Axes

MAX_READINGS = 400


class UnknownLayoutError(ValueError):
    """A layer's parameters cannot be read as the weights of multi-head attention; the message says which and why."""


@dataclass(frozen=True)
class Reading:
    """One way to read a layer's parameters.

    Attributes:
        stored: what is stored where.
        unmatched: names of parameters that have no counterpart in the official layer.
        sizes: letter -> size, see :mod:`mha.storage`.
        by_search: whether names left the roles open.
    """

    stored: tuple[Stored, ...]
    unmatched: tuple[str, ...]
    sizes: Mapping[str, int]
    by_search: bool = False

    @property
    def roles(self) -> frozenset[str]:
        """The roles that the layer has: ``w_q``, ``b_q`` and so on."""
        return frozenset(f"{one.kind}_{role}" for one in self.stored for role in one.roles)

    @property
    def signature(self) -> tuple[object, ...]:
        """What is stored where, whatever the sizes: the same for the same layer at another width."""
        return tuple(
            (one.kind, one.roles, without_index(one.names[0]), one.letters, len(one.names) > 1) for one in self.stored
        )

    @property
    def is_shared(self) -> bool:
        """Whether heads or roles share values, so that the official layer's weights cannot all be copied in."""
        return any(one.is_shared for one in self.stored)

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
        for one in self.stored:
            if one.is_shared:
                raise UnknownLayoutError(f"{one.label} is shared by several heads: it has no place for weights of each")
        tensors = parameters_of(layer)
        with torch.no_grad():
            for one in self.stored:
                one.write(tensors, self.sizes, values)


def parameters_of(layer: nn.Module) -> dict[str, Tensor]:
    """All parameters by name, detached, tied ones under each of their names."""
    try:
        named = list(layer.named_parameters(remove_duplicate=False))
    except TypeError:  # torch 1.9
        named = list(layer.named_parameters())
    return {name: parameter.detach() for name, parameter in named}


def readings(layer: nn.Module, d_model: int, num_heads: int) -> list[Reading]:
    """All ways to read a layer's parameters, the likeliest first.

    Raises:
        UnknownLayoutError: where there is none.
    """
    return _Reader(layer, d_model, num_heads).readings()


def readable_width(layer: nn.Module, num_heads: int) -> int | None:
    """A d_model at which the layer's parameters can be read, the largest of their sizes first; None where none is."""
    sizes = {size for tensor in parameters_of(layer).values() for size in tensor.shape}
    for size in sorted(sizes, reverse=True):
        if num_heads > 0 and size % num_heads == 0:
            try:
                readings(layer, size, num_heads)
            except UnknownLayoutError:
                continue
            return size
    return None


class _Reader:
    """One layer's parameters on the way to being read."""

    def __init__(self, layer: nn.Module, d_model: int, num_heads: int) -> None:
        self.name = type(layer).__name__
        self.tensors = parameters_of(layer)
        self.sizes = {
            "E": d_model,
            "H": num_heads,
            "D": max(1, d_model // num_heads),
            "d": max(1, d_model // num_heads),
        }
        self.weights: dict[tuple[str, ...], list[str]] = {}
        self.biases: dict[tuple[str, ...], list[str]] = {}
        self.loose: list[str] = []
        self._sort()

    # -- by name ------------------------------------------------------------------------------------------------------

    def _sort(self) -> None:
        """Put each parameter under its roles, or among the loose."""
        biases = []
        for name, tensor in self.tensors.items():
            if is_norm(name):
                continue
            if _is_bias(name, tensor):
                biases.append(name)
                continue
            told = roles_of(name)
            if told is None:
                if tensor.numel() > 1:  # not a gate or a temperature
                    self.loose.append(name)
            else:
                self.weights.setdefault(told, []).append(name)
        named = {self.tensors[name].data_ptr() for names in self.weights.values() for name in names}
        self.loose = [name for name in self.loose if self.tensors[name].data_ptr() not in named]  # a second name
        if not any("o" in told for told in self.weights):
            self._find_plain_output()
        owners = {_module(name): told for told, names in self.weights.items() for name in names}
        for name in biases:
            told = roles_of(name) or owners.get(_module(name)) or owners.get(name)
            if told is not None:
                self.biases.setdefault(told, []).append(name)

    def _find_plain_output(self) -> None:
        """Take ``proj``, ``fc`` or ``c_proj`` for the output projection where nothing else is."""
        plain = [name for name in self.loose if is_plain_output(name) and self._orders(self._shape([name]), "EHD")]
        if self.weights and len(plain) == 1:
            self.weights[("o",)] = plain
            self.loose.remove(plain[0])

    # -- by shape -----------------------------------------------------------------------------------------------------

    def _shape(self, names: list[str]) -> tuple[int, ...]:
        shape = tuple(self.tensors[names[0]].shape)
        return shape if len(names) == 1 else (len(names), *shape)

    def _orders(self, shape: tuple[int, ...], letters: str) -> list[Axes]:
        """Orders of the letters that give this shape: stored (out, in) and unpermuted first."""
        if prod(shape) != prod(self.sizes.get(letter, 0) for letter in letters):
            return []
        inward = "D" if letters[0] == "E" else letters[-1]

        def strangeness(axes: Axes) -> tuple[bool, bool]:
            flat = [letter for axis in axes for letter in axis]
            kept = [letter for letter in flat if letter != "E"]
            return kept != [letter for letter in letters if letter != "E"], inward in axes[0]

        found = dict.fromkeys(arrangements(shape, letters, self.sizes))
        return sorted(found, key=strangeness)

    def _stored(self, roles: tuple[str, ...], names: list[str]) -> list[Stored]:
        """All ways in which these parameters can hold the weights of these roles."""
        names = self._fitting(names)
        shape = self._shape(names)
        if roles == ("o",):
            found = [Stored("w", roles, tuple(names), axes) for axes in self._orders(shape, "EHD")]
        elif len(roles) == 1:
            found = [Stored("w", roles, tuple(names), axes) for axes in self._orders(shape, "HDE")]
            found += self._grouped(roles, names, shape) + self._shared(roles, names, shape)
        else:
            sizes, self.sizes = self.sizes, {**self.sizes, "R": len(roles)}
            found = [Stored("w", roles, tuple(names), axes) for axes in self._orders(shape, "RHDE")]
            self.sizes = sizes
            found += [Stored("w", roles, tuple(names), axes) for axes in self._orders(shape, "HDE")]
        if len(names) > 1:  # one per head
            found = [one for one in found if one.axes[0] in (("H",), ("G",))]
        return found

    def _fitting(self, names: list[str]) -> list[str]:
        """One parameter, or those of a list of heads; of several the first that is as large as it must be."""
        if len(names) == 1:
            return names
        lists: dict[str, list[str]] = {}
        for name in names:
            lists.setdefault(without_index(name), []).append(name)
        for group in lists.values():
            if len(group) == self.sizes["H"]:
                return group
        wanted = self.sizes["E"] ** 2
        return [next((name for name in names if self.tensors[name].numel() == wanted), names[0])]

    def _grouped(self, roles: tuple[str, ...], names: list[str], shape: tuple[int, ...]) -> list[Stored]:
        """Keys or values with fewer heads than queries."""
        heads = prod(shape) // (self.sizes["D"] * self.sizes["E"])
        if roles == ("q",) or heads < 1 or heads >= self.sizes["H"] or self.sizes["H"] % heads:
            return []
        self.sizes["G"] = heads
        return [Stored("w", roles, tuple(names), axes) for axes in self._orders(shape, "GDE")]

    def _shared(self, roles: tuple[str, ...], names: list[str], shape: tuple[int, ...]) -> list[Stored]:
        """One head's matrix for all heads."""
        if self.sizes["H"] == 1:
            return []
        return [Stored("w", roles, tuple(names), axes) for axes in self._orders(shape, "Dd")]

    # -- together -----------------------------------------------------------------------------------------------------

    def readings(self) -> list[Reading]:
        options: list[list[Stored]] = []
        for roles, names in self.weights.items():
            found = self._stored(roles, names)
            if not found:
                split = self._split(roles, names)
                if split is None:
                    raise UnknownLayoutError(self._misfit(roles, names))
                options += split
                continue
            options.append(found)
        covered = {role for roles in self.weights for role in roles}
        completions = self._completions([role for role in "qkvo" if role not in covered])
        made: list[Reading] = []
        for completion in completions:
            given = {role for choices in options + completion for one in choices[:1] for role in one.roles}
            if not given >= {"q", "k", "v"}:
                continue
            for stored in _alike(options + completion):
                made.append(self._reading(stored, by_search=bool(completion)))
                if len(made) >= MAX_READINGS:
                    return made
        if not made:
            raise UnknownLayoutError(self._nothing())
        return made

    def _split(self, roles: tuple[str, ...], names: list[str]) -> list[list[Stored]] | None:
        """A packed block in which keys and values have fewer heads: parts of one parameter, q, then k, then v."""
        if set(roles) != {"q", "k", "v"} or len(names) != 1:
            return None
        tensor, width = self.tensors[names[0]], self.sizes["E"]
        if tensor.dim() != 2 or width not in tensor.shape:
            return None
        axis = 0 if tensor.shape[1] == width else 1
        heads = tensor.shape[axis] // self.sizes["D"]
        kv_heads = (heads - self.sizes["H"]) // 2
        if kv_heads < 1 or (self.sizes["H"] + 2 * kv_heads) * self.sizes["D"] != tensor.shape[axis]:
            return None
        if self.sizes["H"] % kv_heads:
            return None
        self.sizes["G"] = kv_heads
        start, parts = 0, []
        for role in roles:
            letter = "H" if role == "q" else "G"
            stop = start + self.sizes[letter] * self.sizes["D"]
            axes: Axes = ((letter, "D"), ("E",)) if axis == 0 else (("E",), (letter, "D"))
            parts.append([Stored("w", (role,), tuple(names), axes, (axis, start, stop))])
            start = stop
        return parts

    def _completions(self, missing: list[str]) -> list[list[list[Stored]]]:
        """Ways to give the loose parameters the roles that no name has told; where there are none, one empty way."""
        if not missing or not self.loose:
            return [[]]
        wanted = [role for role in missing if role != "o"]
        ways: list[list[list[Stored]]] = []
        if wanted == ["q", "k", "v"]:
            for name in self.loose:
                for order in itertools.permutations(wanted):
                    packed = [one for one in self._stored(order, [name]) if "R" in one.letters]
                    rest = [other for other in self.loose if other != name and self._stored(("o",), [other])]
                    if packed:
                        outputs = [[self._stored(("o",), [other])] for other in rest] if "o" in missing else []
                        ways += [[packed, *output] for output in outputs or [[]]]
        square = [name for name in self.loose if self._orders(self._shape([name]), "HDE")]
        for count in (len(missing), len(wanted)):
            if not ways and count and len(square) >= count:
                for names in itertools.permutations(square, count):
                    ways.append([self._stored((r,), [n])[:4] for r, n in zip(missing, names)])  # noqa: B905
        if not ways and wanted and len(square) >= 1:  # fewer matrices than roles: one for several
            one = [
                Stored("w", tuple(wanted), (square[0],), axes) for axes in self._orders(self._shape(square[:1]), "HDE")
            ]
            outputs = [[self._stored(("o",), [name])] for name in square[1:]] if "o" in missing else []
            ways += [[one, *output] for output in outputs or [[]]]
        return ways or [[]]

    def _reading(self, stored: Iterable[Stored], *, by_search: bool) -> Reading:
        weights = list(stored)
        owners = {role: one for one in weights for role in one.roles}
        found = [
            bias for bias in (self._bias(roles, names, owners) for roles, names in self._bias_groups(weights)) if bias
        ]
        everything = [*weights, *found]
        used = {name for one in everything for name in one.names}
        unmatched = tuple(name for name in self.tensors if name not in used)
        sizes = {**self.sizes, "R": max([len(one.roles) for one in everything if "R" in one.letters] or [1])}
        return Reading(tuple(everything), unmatched, sizes, by_search)

    def _bias_groups(self, weights: list[Stored]) -> list[tuple[tuple[str, ...], list[str]]]:
        """Biases by the roles of their names; those of loose weights by the roles that these were given."""
        groups = [(roles, names) for roles, names in self.biases.items()]
        covered = {name for _, names in groups for name in names}
        for one in weights:
            names = [f"{_module(name)}.bias" for name in one.names]
            if all(name in self.tensors and name not in covered for name in names):
                groups.append((one.roles, names))
        return groups

    def _bias(self, roles: tuple[str, ...], names: list[str], owners: Mapping[str, Stored]) -> Stored | None:
        """The bias of these roles, in the order of the weights that it goes with; None where it does not fit."""
        if any(role not in owners for role in roles):
            return None
        owner = owners[roles[0]]
        names = names if len(names) == len(owner.names) else names[:1]
        shape = self._shape(names)
        if roles == ("o",):
            return Stored("b", roles, tuple(names), (("E",),)) if shape == (self.sizes["E"],) else None
        order = [letter for letter in owner.letters if letter not in ("E", "d", "R")]
        if len(roles) > 1:  # packed: in the order of the packed weight, or one role after the other
            if owner.span is not None:
                return None
            packed = [letter for letter in owner.letters if letter not in ("E", "d")]
            order = packed if "R" in packed else ["R", *order]
        sizes = {**self.sizes, "R": len(roles)}
        cuts = [
            axes
            for axes in arrangements(shape, "".join(order), sizes)
            if [letter for axis in axes for letter in axis] == order
        ]
        return Stored("b", roles, tuple(names), cuts[0]) if cuts else None

    # -- in words -----------------------------------------------------------------------------------------------------

    def _misfit(self, roles: tuple[str, ...], names: list[str]) -> str:
        width, num_heads = self.sizes["E"], self.sizes["H"]
        wanted = (len(roles) * width, width)
        shape = tuple(self.tensors[names[0]].shape)
        many = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        return (
            f"{self.name}: {names[0]}{many} is {shape}, and the official layer of d_model {width} and {num_heads} "
            f"heads needs {wanted} there"
        )

    def _nothing(self) -> str:
        told = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in self.tensors.items()) or "none"
        return f"{self.name}: no parameters that can be read as queries, keys and values; it has {told}"


def _is_bias(name: str, tensor: Tensor) -> bool:
    leaf = name.rsplit(".", 1)[-1]
    return "bias" in leaf.lower() or bool(re.match(r"b_?(q|k|v|o|qkv|kv)?$", leaf, re.IGNORECASE)) or tensor.dim() == 1


def _module(name: str) -> str:
    return name.rsplit(".", 1)[0] if "." in name else ""


def _alike(options: list[list[Stored]]) -> Iterable[tuple[Stored, ...]]:
    """Combinations in which queries, keys and values are stored in like order; the output projection as it likes.

    The likeliest first: few departures from the plain order before many.
    """
    ranked = [list(enumerate(choices)) for choices in options]
    combinations = sorted(itertools.product(*ranked), key=lambda chosen: sum(rank for rank, _ in chosen))
    could_agree = _could_agree(options)
    for chosen in combinations:
        stored = tuple(one for _, one in chosen)
        if not could_agree or len({_order(one) for one in stored if one.roles != ("o",)}) <= 1:
            yield stored


def _could_agree(options: list[list[Stored]]) -> bool:
    """Whether some order is open to all of queries, keys and values."""
    orders = [{_order(one) for one in choices} for choices in options if choices and choices[0].roles != ("o",)]
    return bool(set.intersection(*orders)) if orders else True


def _order(one: Stored) -> tuple[str, ...]:
    return tuple(letter.replace("G", "H").replace("d", "E") for letter in one.letters if letter != "R")
