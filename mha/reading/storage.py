"""How one stored tensor holds its weights: in which order its axes run over roles, heads, head_dim and width.

Axes are told by letters: R the roles that are packed into one tensor (q, k, v), H heads, D head_dim, E d_model; G heads
of keys and values where they are fewer than H. ``(("R", "H", "D"), ("E",))`` is torch's ``in_proj_weight``: rows for q,
k and v one after the other, each head by head. ``(("H", "R", "D"), ("E",))`` has the same shape and another order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    Axes = tuple[tuple[str, ...], ...]  # one tuple of letters for each axis of the tensor


@dataclass(frozen=True)
class Stored:
    """One tensor, or one per head, and what it holds.

    Attributes:
        kind: ``w`` for a weight, ``b`` for a bias.
        roles: the roles in it, in their order: ("q",), ("k", "v"), ("q", "k", "v"), ("o",).
        names: the parameter's name; with one matrix per head, the names head by head.
        axes: the order of its axes; of the heads' tensors stacked, where there is one per head.
        span: (axis, start, stop) where only a part of the parameter is meant.
    """

    kind: str
    roles: tuple[str, ...]
    names: tuple[str, ...]
    axes: Axes
    span: tuple[int, int, int] | None = None

    @property
    def letters(self) -> tuple[str, ...]:
        """All letters in the order in which memory runs over them."""
        return tuple(itertools.chain.from_iterable(self.axes))

    @property
    def is_shared(self) -> bool:
        """Whether several heads or roles use the same values, so that other layers' weights have no place here."""
        several = len(self.roles) > 1 and "R" not in self.letters
        return "G" in self.letters or "d" in self.letters or several

    @property
    def is_transposed(self) -> bool:
        """Whether a matrix is stored (in, out)."""
        if len(self.axes) != 2:
            return False
        inward = "d" if "d" in self.letters else ("D" if self.roles == ("o",) else "E")
        return inward in self.axes[0]

    def read(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> dict[str, Tensor]:
        """Role -> (HD, E), for ``o`` (E, HD), of a bias (HD) or (E): views where the order allows, else copies."""
        order = self._canonical()
        seen = self._seen(tensors, sizes).permute([self.letters.index(letter) for letter in order])
        if "R" not in order:
            return {f"{self.kind}_{role}": self._flat(seen, sizes) for role in self.roles}
        return {f"{self.kind}_{role}": self._flat(seen[i], sizes) for i, role in enumerate(self.roles)}

    def write(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], values: Mapping[str, Tensor]) -> None:
        """Copy role -> values, shaped as :meth:`read` gives them, to where they are stored."""
        order = self._canonical()
        blocks = [values[f"{self.kind}_{role}"] for role in self.roles]
        block = torch.stack(blocks) if "R" in order else blocks[0]
        block = block.reshape([sizes[letter] for letter in order])
        block = block.permute([order.index(letter) for letter in self.letters])
        if len(self.names) == 1:
            target = self._part(tensors[self.names[0]])
            target.copy_(block.reshape(target.shape))
            return
        for name, head in zip(self.names, block):  # noqa: B905 - Python 3.8 has no strict=
            tensors[name].copy_(head.reshape(tensors[name].shape))

    def how(self) -> str:
        """In words, how values go in: ``copied``, ``transposed``, ``packed head by head`` and the like."""
        told = []
        letters = [letter for letter in self.letters if letter in "RHDG"]
        if self.span is not None:
            told.append("a part of it")
        if len(self.names) > 1:
            told.append("one tensor per head")
        elif len(self.axes) > 2:
            words = {"R": "q k v", "H": "heads", "G": "key heads", "D": "head_dim", "E": "d_model", "d": "head_dim"}
            told.append("axes (" + ", ".join(" ".join(words[letter] for letter in axis) for axis in self.axes) + ")")
        if self.kind == "w" and self.is_transposed:
            told.append("transposed: stored (in, out)")
        if letters == ["H", "R", "D"]:
            told.append("packed head by head")
        elif "".join(letters) not in ("", "HD", "GD", "RHD", "RGD", "D"):
            words = {"R": "q k v", "H": "heads", "G": "key heads", "D": "head_dim"}
            told.append("in the order (" + ", ".join(words[letter] for letter in letters) + ")")
        if "G" in letters:
            told.append("each key head repeated for its queries")
        if "d" in self.letters:
            told.append("repeated for every head")
        return ", ".join(told) or "copied"

    @property
    def label(self) -> str:
        """The parameter's name; with one per head, the first and the last."""
        name = self.names[0] if len(self.names) == 1 else f"{self.names[0]} ... {self.names[-1]}"
        return name if self.span is None else f"{name}[{self.span[1]}:{self.span[2]}]"

    def label_of(self, role: str) -> str:
        """The parameter's name, and which of the roles in it is meant."""
        return self.label if len(self.roles) == 1 else f"{self.label} ({role})"

    def _canonical(self) -> tuple[str, ...]:
        order = ("E", "H", "D") if self.roles == ("o",) else ("R", "G", "H", "D", "d", "E")
        return tuple(letter for letter in order if letter in self.letters)

    def _part(self, tensor: Tensor) -> Tensor:
        if self.span is None:
            return tensor
        axis, start, stop = self.span
        return tensor.narrow(axis, start, stop - start)

    def _seen(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> Tensor:
        whole = tensors[self.names[0]] if len(self.names) == 1 else torch.stack([tensors[name] for name in self.names])
        return self._part(whole).reshape([sizes[letter] for letter in self.letters])

    def _flat(self, block: Tensor, sizes: Mapping[str, int]) -> Tensor:
        """Heads side by side; keys' heads repeated for their queries, a shared head's values for every head."""
        num_heads, head_dim, letters = sizes["H"], sizes["D"], self.letters
        if "G" in letters:  # (G, D, E) or (G, D)
            block = block.repeat_interleave(num_heads // sizes["G"], 0)
        if "d" in letters:  # (D, d): the same small matrix on every head's slice of the input
            diagonal: Tensor = torch.block_diag(*[block] * num_heads)  # type: ignore[no-untyped-call]
            return diagonal
        if "H" not in letters and "G" not in letters and "D" in letters:  # a bias (D) for every head
            return block.repeat(num_heads)
        if self.roles == ("o",):
            return block.reshape(sizes["E"], num_heads * head_dim) if self.kind == "w" else block.reshape(sizes["E"])
        rows = num_heads * head_dim
        return block.reshape(rows, sizes["E"]) if self.kind == "w" else block.reshape(rows)


def arrangements(shape: Sequence[int], letters: str, sizes: Mapping[str, int]) -> Iterator[Axes]:
    """All orders of these letters that give a tensor of this shape, the plain order first.

    The width E (or d) has an axis of its own; other letters may share one.
    """
    for order in itertools.permutations(letters):
        yield from _cuts(tuple(shape), order, sizes)


def _cuts(shape: tuple[int, ...], order: tuple[str, ...], sizes: Mapping[str, int]) -> Iterator[Axes]:
    """Ways to cut an order of letters into one group for each axis."""
    if not shape:
        if not order:
            yield ()
        return
    for count in range(len(order) + 1):
        group = order[:count]
        if prod(sizes[letter] for letter in group) != shape[0] or (count > 1 and set(group) & {"E", "d"}):
            continue
        for rest in _cuts(shape[1:], order[count:], sizes):
            yield (group, *rest)
