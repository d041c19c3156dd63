"""How a layer is called: what its forward takes, in which layout, and which part of what it returns is the output."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from mha.reading.usual_names import CAUSAL_FLAG_NAMES, CONTEXT_NAMES, KEY_NAMES, MASK_NAMES, PADDING_NAMES, VALUE_NAMES

MAX_NESTING = 3  # of what a layer returns


class CallError(ValueError):
    """The layer cannot be called, or returned no output; the message says what and what to do."""


@dataclass(frozen=True)
class Calling:
    """What a layer's forward takes.

    Attributes:
        key, value: names of the arguments for keys and values; None where it takes one input.
        context: name of one argument for both keys and values; None where there is none.
        query: name of the first argument; None where it can be given by position only.
        masks, paddings, causal_flags: names of arguments for masks over (query, key), over keys, and of switches.
        empty: names of required arguments that get None.
        others: names of optional arguments of which the meaning cannot be told; they keep their default.
        needs_sides: whether keys and values must be given even where they are the queries' own.
        batch_first: whether tensors are (B, S, E); False for (S, B, E).
    """

    query: str | None = None
    key: str | None = None
    value: str | None = None
    context: str | None = None
    masks: tuple[str, ...] = ()
    paddings: tuple[str, ...] = ()
    causal_flags: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    needs_sides: bool = False
    batch_first: bool = True

    @property
    def takes_keys_and_values(self) -> bool:
        """Whether keys and values can come from elsewhere than the queries."""
        return self.context is not None or (self.key is not None and self.value is not None)

    @property
    def side_names(self) -> str:
        """What the layer calls its keys and values."""
        return self.context or f"{self.key} and {self.value}"

    def __call__(
        self, layer: nn.Module, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, **extra: Any
    ) -> Tensor:
        """Run the layer on (B, S, E) tensors and return its output (B, S, E).

        Without ``key`` and ``value`` it is self-attention. ``extra`` is passed on by name.

        Raises:
            CallError: where what came back holds no tensor.
            Exception: whatever the layer raises.
        """
        arguments: dict[str, Any] = {**dict.fromkeys(self.empty), **extra}
        is_self_attention = key is None and value is None
        key = query if key is None else key
        value = key if value is None else value
        if is_self_attention and not self.needs_sides:
            pass  # what the layer does without them is its own self-attention
        elif self.key is not None and self.value is not None:
            arguments[self.key], arguments[self.value] = self._laid_out(key), self._laid_out(value)
        elif self.context is not None:
            arguments[self.context] = self._laid_out(key)
        if self.query is None:
            returned = layer(self._laid_out(query), **arguments)
        else:
            returned = layer(**{self.query: self._laid_out(query)}, **arguments)
        output = output_of(returned, self._laid_out(query).shape)
        return output if self.batch_first or output.dim() != 3 else output.transpose(0, 1)

    def _laid_out(self, x: Tensor) -> Tensor:
        return x if self.batch_first else x.transpose(0, 1)


def calling_of(layer: nn.Module, *, batch_first: bool = True) -> Calling:
    """Read off a layer's forward how it is to be called.

    Raises:
        CallError: where it asks for something of which the meaning cannot be told.
    """
    try:
        parameters = list(inspect.signature(layer.forward).parameters.values())
    except Exception:  # a scripted or compiled layer, or a forward that cannot be looked at
        return Calling(batch_first=batch_first)
    takes = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not takes:
        return Calling(batch_first=batch_first)
    if parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:  # forward(*args, context=None)
        query, key, value, context = None, None, None, _named_in(takes, CONTEXT_NAMES)
    else:
        query, key, value, context = _inputs(layer, takes)
    rest = [p for p in takes if p.name not in (query, key, value, context)]
    if query is not None and next(p for p in takes if p.name == query).kind is inspect.Parameter.POSITIONAL_ONLY:
        query = None
    _refuse_unknown(layer, rest)
    return Calling(
        query=query,
        key=key,
        value=value,
        context=context,
        masks=tuple(p.name for p in rest if p.name.lower() in MASK_NAMES),
        paddings=tuple(p.name for p in rest if p.name.lower() in PADDING_NAMES),
        causal_flags=tuple(p.name for p in rest if p.name.lower() in CAUSAL_FLAG_NAMES),
        empty=tuple(p.name for p in rest if p.default is p.empty),
        others=tuple(p.name for p in rest if not _is_side(p) and p.default is not p.empty),
        needs_sides=any(p.default is p.empty for p in takes if p.name in (key, value, context)),
        batch_first=batch_first,
    )


def _inputs(layer: nn.Module, takes: list[inspect.Parameter]) -> tuple[str, str | None, str | None, str | None]:
    """The names of the arguments for queries, keys, values, and for both of the latter in one."""
    key, value = _named_in(takes, KEY_NAMES), _named_in(takes, VALUE_NAMES)
    if key is not None and value is not None:  # in whatever order: forward(values, keys, query)
        query = next((p.name for p in takes if p.name not in (key, value) and not _is_side(p)), None)
        if query is None:
            raise CallError(f"{type(layer).__name__}.forward takes {key} and {value} but nothing for the queries")
        return query, key, value, None
    first, rest = takes[0].name, takes[1:]
    context = _named_in(rest, CONTEXT_NAMES)
    required = [p for p in rest if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
    plain = [p.name for p in required if not _is_side(p) and p.name != context]
    if context is None and len(plain) == 2:  # forward(a, b, c): as the paper and torch order them
        return first, plain[0], plain[1], None
    if context is None and len(plain) == 1:
        return first, None, None, plain[0]
    return first, None, None, context


def output_of(returned: Any, shape: Any) -> Tensor:
    """The output among what a layer returned: itself, or the first tensor in it, one of this shape before others.

    Raises:
        CallError: where there is no tensor in it.
    """
    if isinstance(returned, Tensor):
        return returned
    tensors = list(_tensors_in(returned, MAX_NESTING))
    if not tensors:
        raise CallError(f"the layer returned a {type(returned).__name__} without a tensor in it, not a tensor")
    return next((tensor for tensor in tensors if tensor.shape == shape), tensors[0])


def _tensors_in(returned: Any, depth: int) -> Iterator[Tensor]:
    """The tensors in a tuple, a list, a mapping, or the attributes of an object such as a dataclass."""
    if isinstance(returned, Tensor):
        yield returned
    elif depth > 0:
        if isinstance(returned, Mapping):
            items: Iterable[Any] = returned.values()
        elif isinstance(returned, (tuple, list)):
            items = returned
        else:
            items = getattr(returned, "__dict__", {}).values()
        for item in items:
            yield from _tensors_in(item, depth - 1)


def _is_side(parameter: inspect.Parameter) -> bool:
    name = parameter.name.lower()
    return name in MASK_NAMES or name in PADDING_NAMES or name in CAUSAL_FLAG_NAMES


def _named_in(parameters: list[inspect.Parameter], names: frozenset[str]) -> str | None:
    return next((p.name for p in parameters if p.name.lower() in names), None)


def _refuse_unknown(layer: nn.Module, rest: list[inspect.Parameter]) -> None:
    unknown = [p.name for p in rest if p.default is p.empty and not _is_side(p)]
    if unknown:
        raise CallError(
            f"{type(layer).__name__}.forward asks for {', '.join(unknown)}, of which this check cannot tell the "
            f"meaning: wrap the layer in one whose forward takes x, or query, key and value"
        )
