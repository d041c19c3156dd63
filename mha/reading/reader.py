"""Reads a layer's parameters: which can hold which roles, by their names and shapes, in every way that is possible."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor, nn

from mha.reading.layouts import Reading, UnknownLayoutError, parameters_of
from mha.reading.roles import is_norm, is_plain_output, roles_of, without_index
from mha.reading.storage import Stored, arrangements

if TYPE_CHECKING:
    from mha.reading.storage import Axes

MAX_READINGS = 400
# Of matrices that no name tells: the first so many, in so many ways; more cannot be told apart in a second.
MAX_LOOSE = 6
MAX_WAYS = 360

# Names that have settled what they pack; of others (``to_qvk``) the letters' order may mean nothing.
SETTLED_PACKS = (("q", "k", "v"), ("k", "v"))


def readings(layer: nn.Module, d_model: int, num_heads: int) -> list[Reading]:
    """All ways to read a layer's parameters, the likeliest first.

    Raises:
        UnknownLayoutError: where there is none.
    """
    return _Reader(layer, d_model, num_heads).readings()


def is_readable(layer: nn.Module, d_model: int, num_heads: int) -> bool:
    """Whether the layer's parameters can be read at these sizes as weights of which every head has its own."""
    try:
        first = readings(layer, d_model, num_heads)[0]
    except UnknownLayoutError:
        return False
    return not any(one.is_shared for one in first.stored)


class _Reader:
    """One layer's parameters on the way to being read."""

    def __init__(self, layer: nn.Module, d_model: int, num_heads: int) -> None:
        self.name = type(layer).__name__
        self.tensors = parameters_of(layer)
        head_dim = max(1, d_model // num_heads)
        self.sizes = {"E": d_model, "H": num_heads, "D": head_dim, "d": head_dim}
        # Bare parameters are mostly used as x @ W, so stored (in, out); a module keeps its own as torch does.
        self.bare = {name for module, name in _owned(layer) if not isinstance(module, _MODULES_OUT_IN)}
        self.weights: dict[tuple[str, ...], list[str]] = {}
        self.biases: dict[tuple[str, ...], list[str]] = {}
        self.loose: list[list[str]] = []  # parameters, or lists of one per head, of which no name tells the role
        self._sort()

    # -- by name ------------------------------------------------------------------------------------------------------

    def _sort(self) -> None:
        """Put each parameter under its roles, or among the loose."""
        biases, loose = [], []
        for name, tensor in self.tensors.items():
            if is_norm(name):
                continue
            if _is_bias(name, tensor):
                biases.append(name)
                continue
            told = roles_of(name)
            if told is not None:
                self.weights.setdefault(told, []).append(name)
            elif tensor.numel() > 1 or self.sizes["E"] == 1:  # not a gate or a temperature
                loose.append(name)
        named = {_memory(self.tensors[name]) for names in self.weights.values() for name in names}
        self.loose = self._units([name for name in loose if _memory(self.tensors[name]) not in named])
        if not any("o" in told for told in self.weights):
            self._find_plain_output()
        owners = {_module(name): told for told, names in self.weights.items() for name in names}
        for name in biases:
            told = roles_of(name) or owners.get(_module(name)) or owners.get(name)
            if told is not None:
                self.biases.setdefault(told, []).append(name)

    def _units(self, names: list[str]) -> list[list[str]]:
        """The parameters one by one, those of a list with one for each head together."""
        alike: dict[str, list[str]] = {}
        for name in names:
            alike.setdefault(without_index(name), []).append(name)
        units = []
        for group in alike.values():
            whole = self.tensors[group[0]].numel() * self.sizes["H"] == self.sizes["E"] ** 2
            units += [group] if len(group) == self.sizes["H"] > 1 and whole else [[name] for name in group]
        return units

    def _find_plain_output(self) -> None:
        """Take ``proj``, ``fc`` or ``c_proj`` for the output projection where nothing else is."""
        plain = [unit for unit in self.loose if is_plain_output(unit[0]) and self._orders(self._shape(unit), "EHD")]
        if self.weights and len(plain) == 1:
            self.weights[("o",)] = plain[0]
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

        plain = "".join(letter for letter in letters if letter != "E")

        def strangeness(axes: Axes) -> tuple[int, bool]:
            order = "".join(letter for axis in axes for letter in axis if letter != "E")
            return (0 if order == plain else 1 if order == "HRD" else 2), inward in axes[0]

        found = dict.fromkeys(arrangements(shape, letters, self.sizes))
        return sorted(found, key=strangeness)

    def _stored(self, roles: tuple[str, ...], names: list[str]) -> list[Stored]:
        """All ways in which these parameters can hold the weights of these roles, the likeliest first."""
        names = self._fitting(roles, names)
        shape = self._shape(names)
        if roles == ("o",):
            found = self._each(roles, names, shape, "EHD")
        elif len(roles) == 1:
            found = self._each(roles, names, shape, "HDE")
            found += self._grouped(roles, names, shape) + self._shared(roles, names, shape)
        else:
            sizes, self.sizes = self.sizes, {**self.sizes, "R": len(roles)}
            found = self._each(roles, names, shape, "RHDE")
            if roles not in SETTLED_PACKS:
                found += self._each(tuple(sorted(roles, key="qkv".index)), names, shape, "RHDE")
            self.sizes = sizes
            found += self._each(roles, names, shape, "HDE")
        if len(names) > 1:  # one per head
            found = [one for one in found if one.axes[0] in (("H",), ("G",))]
        if names[0] in self.bare:
            found.sort(key=lambda one: not one.is_transposed)
        return found

    def _each(self, roles: tuple[str, ...], names: list[str], shape: tuple[int, ...], letters: str) -> list[Stored]:
        return [Stored("w", roles, tuple(names), axes) for axes in self._orders(shape, letters)]

    def _fitting(self, roles: tuple[str, ...], names: list[str]) -> list[str]:
        """One parameter, or those of a list of heads; of several the first that is as large as it must be."""
        if len(names) == 1:
            return names
        for unit in self._units(names):
            if len(unit) > 1:
                return unit
        wanted = len(roles) * self.sizes["E"] ** 2
        return [next((name for name in names if self.tensors[name].numel() == wanted), names[0])]

    def _grouped(self, roles: tuple[str, ...], names: list[str], shape: tuple[int, ...]) -> list[Stored]:
        """Keys or values with fewer heads than queries."""
        heads = prod(shape) // (self.sizes["D"] * self.sizes["E"])
        if roles == ("q",) or heads < 1 or heads >= self.sizes["H"] or self.sizes["H"] % heads:
            return []
        self.sizes["G"] = heads
        return self._each(roles, names, shape, "GDE")

    def _shared(self, roles: tuple[str, ...], names: list[str], shape: tuple[int, ...]) -> list[Stored]:
        """One head's matrix for all heads."""
        return [] if self.sizes["H"] == 1 else self._each(roles, names, shape, "Dd")

    # -- together -----------------------------------------------------------------------------------------------------

    def readings(self) -> list[Reading]:
        options: list[list[Stored]] = []
        for roles, names in self.weights.items():
            found = self._stored(roles, names)
            if not found:
                split = self._split(roles, names)
                elsewhere = {role for others in self.weights if others != roles for role in others}
                if split is None and set(roles) <= elsewhere:
                    continue  # it bears the name of a role that another has
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
        wanted = tuple(role for role in missing if role != "o")
        square = [unit for unit in self.loose if self._orders(self._shape(unit), "HDE")][:MAX_LOOSE]
        ways = self._packed_ways(wanted, square, missing)
        for count in (len(missing), len(wanted)):
            if not ways and count and len(square) >= count:
                for units in itertools.islice(itertools.permutations(square, count), MAX_WAYS):
                    ways.append([self._stored((r,), unit)[:4] for r, unit in zip(missing, units)])  # noqa: B905 - Python 3.8 has no strict=
        if not ways and wanted and square:  # fewer matrices than roles: one for several
            one = self._each(wanted, square[0], self._shape(square[0]), "HDE")
            ways = [[one, *output] for output in self._outputs(square[1:], missing)]
        return ways or [[]]

    def _packed_ways(
        self, wanted: tuple[str, ...], square: list[list[str]], missing: list[str]
    ) -> list[list[list[Stored]]]:
        """A loose block of three for queries, keys and values, in any order, beside each possible output."""
        ways = []
        for unit in self.loose if wanted == ("q", "k", "v") else []:
            for order in itertools.permutations(wanted):
                packed = [one for one in self._stored(order, unit) if "R" in one.letters and one.roles == order]
                if packed:
                    ways += [[packed, *output] for output in self._outputs(square, missing)]
        return ways + self._pair_ways(wanted, square, missing)

    def _pair_ways(
        self, wanted: tuple[str, ...], square: list[list[str]], missing: list[str]
    ) -> list[list[list[Stored]]]:
        """A loose block of two of queries, keys and values, beside a matrix for the third."""
        ways = []
        for unit in self.loose if wanted == ("q", "k", "v") else []:
            for pair in itertools.permutations(wanted, 2):
                packed = [one for one in self._stored(pair, unit) if "R" in one.letters and one.roles == pair]
                third = next(role for role in wanted if role not in pair)
                for other in square if packed else []:
                    rest = [one for one in square if one is not other]
                    alone = self._stored((third,), other)[:4]
                    ways += [[packed, alone, *output] for output in self._outputs(rest, missing)]
        return ways

    def _outputs(self, square: list[list[str]], missing: list[str]) -> list[list[list[Stored]]]:
        """Ways to have an output projection where one is missing: none, where no parameter can be it."""
        found = [[self._stored(("o",), unit)] for unit in square] if "o" in missing else []
        return found or [[]]

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
        used_twice = len({_memory(self.tensors[name]) for name in used}) < len(used)
        return Reading(tuple(everything), unmatched, sizes, by_search, used_twice)

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
    return "bias" in leaf.lower() or bool(re.match(r"b_?(q|k|v|o|qkv|kv)$", leaf, re.IGNORECASE)) or tensor.dim() == 1


_MODULES_OUT_IN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Bilinear, nn.MultiheadAttention)


def _owned(layer: nn.Module) -> Iterable[tuple[nn.Module, str]]:
    """Every parameter's name with the module that holds it."""
    for prefix, module in layer.named_modules():
        for name, _ in module.named_parameters(recurse=False):
            yield module, f"{prefix}.{name}" if prefix else name


def _memory(tensor: Tensor) -> object:
    """The same for two names of one tensor."""
    try:
        return tensor.data_ptr(), tensor.shape
    except RuntimeError:  # a sparse one has none
        return id(tensor)


def _module(name: str) -> str:
    return name.rsplit(".", 1)[0] if "." in name else ""


def _alike(options: list[list[Stored]]) -> Iterable[tuple[Stored, ...]]:
    """Combinations in which queries, keys and values are stored in like order; the output projection as it likes.

    The likeliest first: all as their first choice, then the output projection in the others' style.
    """
    ranked = [list(enumerate(choices)) for choices in options]
    could_agree = _could_agree(options)
    combinations = []
    for chosen in itertools.product(*ranked):
        stored = tuple(one for _, one in chosen)
        if not could_agree or len({_order(one) for one in stored if one.roles != ("o",)}) <= 1:
            styles = {one.is_transposed for one in stored}
            combinations.append((max(rank for rank, _ in chosen), len(styles), sum(r for r, _ in chosen), stored))
    return (stored for *_, stored in sorted(combinations, key=lambda known: known[:3]))


def _could_agree(options: list[list[Stored]]) -> bool:
    """Whether some order is open to all of queries, keys and values."""
    orders = [{_order(one) for one in choices} for choices in options if choices and choices[0].roles != ("o",)]
    return bool(set.intersection(*orders)) if orders else True


def _order(one: Stored) -> tuple[str, ...]:
    return tuple(letter.replace("G", "H").replace("d", "E") for letter in one.letters if letter != "R")
