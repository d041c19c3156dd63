"""A layer out of what a person has: a class, a factory or a ready-made layer, whatever its arguments are called."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from mha.reading.layouts import parameters_of
from mha.reading.reader import is_readable
from mha.reading.usual_names import (
    BIAS_NAMES,
    CAUSAL_NAMES,
    CONFIG_NAMES,
    DROPOUT_NAMES,
    HEAD_DIM_NAMES,
    HEADS_NAMES,
    KV_HEADS_NAMES,
    LENGTH_NAMES,
    WIDTH_NAMES,
)

MAX_LENGTH = 4096  # for a layer that asks how long a sequence may be; more where a longer one is run


class BuildError(ValueError):
    """The layer cannot be built; the message names the argument and what to do."""


def build_layer(
    target: Any,
    d_model: int,
    num_heads: int,
    *,
    bias: bool | None = None,
    causal: bool = False,
    dropout: float | None = None,
    max_length: int = MAX_LENGTH,
) -> nn.Module:
    """Build a layer of a width and a number of heads; of a ready-made one, make a copy.

    Arguments are recognised by their names (``embed_dim``, ``n_head``, ``dim_head``, ``block_size`` ...); the first two
    that are not are taken for d_model and num_heads, in this order. Arguments with a default keep it, but for the bias
    and the causal mask where they are asked for.

    Args:
        target: a class or another callable that takes the two sizes, or a layer.
        d_model, num_heads: E and H; a ready-made layer has decided both.
        bias: for an argument such as ``bias`` or ``qkv_bias``; None leaves its default.
        causal: for an argument such as ``causal``.
        dropout: for an argument such as ``dropout`` or ``attn_drop``; None leaves its default, 0 where it has none.
        max_length: for an argument such as ``block_size``.

    Raises:
        BuildError: where an argument's meaning cannot be told, or the result is no ``torch.nn.Module``.
        Exception: whatever the constructor raises.
    """
    if isinstance(target, nn.Module):
        return copy.deepcopy(target)
    if not callable(target):
        raise BuildError(f"a layer must be a class, a factory or a torch.nn.Module, got a {type(target).__name__}")
    positional, values = arguments_of(
        target, d_model, num_heads, bias=bias, causal=causal, dropout=dropout, max_length=max_length
    )
    layer = target(*positional, **values)
    if not isinstance(layer, nn.Module):
        raise BuildError(f"{name_of(target)} returned a {type(layer).__name__}, not a torch.nn.Module")
    return layer


def arguments_of(
    target: Callable[..., Any],
    d_model: int,
    num_heads: int,
    *,
    bias: bool | None = None,
    causal: bool = False,
    dropout: float | None = None,
    max_length: int = MAX_LENGTH,
) -> tuple[list[Any], dict[str, Any]]:
    """What :func:`build_layer` passes to a class or a factory: by position, and by name.

    Raises:
        BuildError: where an argument's meaning cannot be told.
    """
    values, positional = _arguments(target, d_model, num_heads, bias, causal, dropout, max(max_length, MAX_LENGTH))
    return positional, values


def name_of(target: Any) -> str:
    """What to call a layer, a class or a factory."""
    if isinstance(target, nn.Module):
        return type(target).__name__
    return getattr(target, "__name__", None) or type(target).__name__


def sizes_of(layer: nn.Module, d_model: int, num_heads: int) -> tuple[int, int]:
    """Width and number of heads of a ready-made layer: at which its parameters can be read.

    Told by attributes (its own or its modules'), else by linear maps and shapes; where nothing tells them, as given.
    """
    linear = [module.in_features for module in layer.modules() if isinstance(module, nn.Linear)]
    shapes = sorted({size for tensor in parameters_of(layer).values() for size in tensor.shape}, reverse=True)
    widths = list(dict.fromkeys([*_attributes(layer, WIDTH_NAMES), *linear, *shapes, d_model]))
    told = _attributes(layer, HEADS_NAMES)
    for choices in (told or [num_heads], range(1, max(shapes, default=1) + 1)):
        for width in widths:
            for heads in choices:
                if heads > 0 and width % heads == 0 and is_readable(layer, width, heads):
                    return width, heads
    return (widths or [d_model])[0], (told or [num_heads])[0]


def _attributes(layer: nn.Module, names: frozenset[str]) -> list[int]:
    found = []
    for module in layer.modules():
        if not isinstance(module, (nn.Linear, nn.LayerNorm)):
            found += [
                value
                for name, value in vars(module).items()
                if name.lower() in names and isinstance(value, int) and not isinstance(value, bool) and value > 0
            ]
    return list(dict.fromkeys(found))


def takes_option(target: Any, names: frozenset[str]) -> bool:
    """Whether a class or factory has an argument of one of these names; False for a ready-made layer."""
    if isinstance(target, nn.Module):
        return False
    return any(parameter.name.lower() in names for parameter in _parameters(target) or ())


def _parameters(target: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # a builtin
        return None


def _arguments(
    target: Callable[..., Any],
    d_model: int,
    num_heads: int,
    bias: bool | None,
    causal: bool,
    dropout: float | None,
    max_length: int,
) -> tuple[dict[str, Any], list[Any]]:
    """What to pass by name and what by position."""
    parameters = _parameters(target)
    if parameters is None:
        return {}, [d_model, num_heads]
    known: list[tuple[frozenset[str], Any]] = [
        (WIDTH_NAMES, d_model),
        (HEADS_NAMES, num_heads),
        (KV_HEADS_NAMES, num_heads),
        (HEAD_DIM_NAMES, d_model // num_heads),
        (LENGTH_NAMES, max_length),
        (DROPOUT_NAMES, dropout or 0.0),
        (BIAS_NAMES, bool(bias)),
        (CAUSAL_NAMES, causal),
    ]
    values: dict[str, Any] = {}
    unnamed: list[inspect.Parameter] = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        name, is_required = parameter.name.lower(), parameter.default is parameter.empty
        names, value = next(((names, value) for names, value in known if name in names), (None, None))
        if names is None:
            if is_required:
                unnamed.append(parameter)
            continue
        asked = (names is BIAS_NAMES and bias is not None) or (names is CAUSAL_NAMES and causal)
        asked = asked or (names is DROPOUT_NAMES and dropout is not None)
        sizes = names in (WIDTH_NAMES, HEADS_NAMES)
        # A default such as dim_head=64 is for another width: heads side by side must be as wide as the model.
        fits = names is HEAD_DIM_NAMES and isinstance(parameter.default, int)
        length = names is LENGTH_NAMES and isinstance(parameter.default, int) and parameter.default < max_length
        if is_required or asked or sizes or fits or length:
            values[parameter.name] = value
    return _settle_unnamed(target, parameters, values, unnamed, d_model, num_heads)


def _settle_unnamed(
    target: Callable[..., Any],
    parameters: list[inspect.Parameter],
    values: dict[str, Any],
    unnamed: list[inspect.Parameter],
    d_model: int,
    num_heads: int,
) -> tuple[dict[str, Any], list[Any]]:
    """Give required arguments of unknown names the sizes that no other argument has taken."""
    taken = {name.lower() for name in values}
    sizes = [] if taken & WIDTH_NAMES else [d_model]
    sizes += [] if taken & HEADS_NAMES else [num_heads]
    if unnamed and unnamed[0].name.lower() in CONFIG_NAMES:
        raise BuildError(
            f"{name_of(target)} takes a configuration ({unnamed[0].name}): write a factory that makes one, "
            f"def make(d_model, num_heads): return {name_of(target)}(...), and check that"
        )
    if len(unnamed) > len(sizes):
        names = ", ".join(parameter.name for parameter in unnamed[len(sizes) :])
        raise BuildError(
            f"{name_of(target)} asks for {names}, of which this check cannot tell the meaning: write a factory, "
            f"def make(d_model, num_heads): return {name_of(target)}(...), and check that"
        )
    if not values and not unnamed:  # *args, or nothing at all
        takes_any = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
        takes_named = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        if takes_any:
            return {}, [d_model, num_heads]
        return ({"d_model": d_model, "num_heads": num_heads} if takes_named else {}), []
    positional: list[Any] = []
    for parameter, size in zip(unnamed, sizes):  # noqa: B905 - Python 3.8 has no strict=
        values[parameter.name] = size
    for parameter in parameters:  # what may only be given by position
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.name in values:
            positional.append(values.pop(parameter.name))
    return values, positional
