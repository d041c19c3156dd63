"""The options of commands that hold one workload, and how it is measured: those of `sweep`, with one value each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

# Name, placeholder, meaning, default as it is told; the first ones also as a text to parse.
_SIZES = (
    ("batch-size", "N", "Sequences per call.", "1"),
    ("seq-len", "N", "Tokens per sequence.", "512"),
    ("num-heads", "N", "Attention heads.", "8"),
)
_OTHERS = (
    ("d-model", "N", "Width of the layer.", "512"),
    ("head-dim", "N", "Instead of --d-model: channels per head.", "none"),
    ("dtype", "NAME", "float32, bfloat16, float16, float64.", "float32"),
    ("mode", "NAME", "inference, training (forward and backward).", "inference"),
    ("bias", "no|yes", "Whether the projections have biases.", "no"),
    ("causal", "no|yes", "Whether a token sees only itself and earlier ones.", "no"),
    ("device", "NAME", "auto (the best of CUDA, XPU, MPS, CPU), cpu, cuda:0, ….", "auto"),
    ("threads", "N", "Threads torch computes with.", "torch's own choice"),
    ("seed", "N", "Seed of weights, input and order.", "42"),
)
SIZE_DEFAULTS = {name.replace("-", "_"): default for name, _, _, default in _SIZES}


def workload_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a workload to a command, each a text or None; `parse_workload_options` reads them."""
    for name, metavar, meaning, default in reversed((*_SIZES, *_OTHERS)):
        command = click.option(f"--{name}", metavar=metavar, help=f"{meaning}  [default: {default}]")(command)
    return command


def parse_workload_options(texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Fields of `Grid` from the texts that were given; the sizes that were not have the defaults of here.

    Raises:
        GridError: a text cannot be read.
    """
    from profiling.parsing import parse_number, parse_switches, parse_words

    options: dict[str, Any] = {}
    for name, text in {**SIZE_DEFAULTS, **{name: text for name, text in texts.items() if text is not None}}.items():
        if name in SIZE_DEFAULTS:
            options[name] = (parse_number(name, text),)
        elif name in ("d_model", "head_dim", "threads", "seed"):
            options[name] = parse_number(name, text)
        elif name in ("bias", "causal"):
            options[name] = parse_switches(name, text)
        elif name in ("dtype", "mode"):
            options[name] = parse_words(name, text)
        elif name == "device":
            options[name] = text
    return options
