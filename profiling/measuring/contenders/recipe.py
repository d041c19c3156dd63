"""How a layer of one's own was built, called and given its weights, as plain data: what another program has to repeat.

It holds for one width, number of heads, length and kind of workload; other names or sizes may make another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from mha.reading.building import arguments_of
from mha.reading.calling import Calling
from mha.reading.layouts import Reading
from mha.transplant import MappingEntry
from profiling.layers import LayerFile
from profiling.workload import Workload


def build_recipe(spec: str, target: Any, workload: Workload, options: Mapping[str, Any]) -> dict[str, Any]:
    """The name in its file, and what it was built with; `weights` None until it has been given some."""
    is_instance = isinstance(target, nn.Module)
    found = ([], {}) if is_instance else arguments_of(target, workload.d_model, workload.num_heads, **options)
    return {
        "name": LayerFile.from_spec(spec).name,
        "is_instance": is_instance,
        "args": found[0],
        "kwargs": found[1],
        "weights": None,
    }


def call_recipe(calling: Calling, given: Mapping[str, Any]) -> dict[str, Any]:
    """How it is called with one input: by which names, in which layout, with which switches and masks."""
    sides = [calling.key, calling.value] if calling.key is not None and calling.value is not None else [calling.context]
    return {
        "query": calling.query,
        "sides": [name for name in sides if name is not None] if calling.needs_sides else [],
        "empty": list(calling.empty),
        "batch_first": calling.batch_first,
        "flags": {name: value for name, value in given.items() if not isinstance(value, Tensor)},
        "masks": [_mask(name, value) for name, value in given.items() if isinstance(value, Tensor)],
    }


def weight_recipe(entries: Sequence[MappingEntry], reading: Reading | None) -> list[dict[str, Any]]:
    """What is stored where, by the letters of `mha.reading.storage`; `names` are one for each head or one for all."""
    if reading is None:
        return _packed(entries)
    return [
        {
            "kind": one.kind,
            "roles": list(one.roles),
            "names": list(one.names),
            "letters": "".join(one.letters),
            "span": None if one.span is None else list(one.span),
        }
        for one in reading.stored
    ]


def _packed(entries: Sequence[MappingEntry]) -> list[dict[str, Any]]:
    """Of a layer with torch's own names: one block for q, k and v, and the output projection's."""
    targets = {entry.target for entry in entries}
    out = "W_O" if "W_O.weight" in targets else "out_proj"
    has_bias = f"{out}.bias" in targets
    stored = [("w", "qkv", "in_proj_weight", "RHDE"), ("w", "o", f"{out}.weight", "EHD")]
    stored += [("b", "qkv", "in_proj_bias", "RHD"), ("b", "o", f"{out}.bias", "E")] if has_bias else []
    return [
        {"kind": kind, "roles": list(roles), "names": [name], "letters": letters, "span": None}
        for kind, roles, name, letters in stored
    ]


def _mask(argument: str, mask: Tensor) -> dict[str, Any]:
    """A causal mask by what it holds where a query may see a key, and where it may not, as texts: `-inf` is no JSON."""
    past = mask[..., 0, 0].flatten()[0].item()
    future = mask[..., 0, -1].flatten()[0].item()
    is_bool = isinstance(past, bool)
    return {
        "argument": argument,
        "axes": mask.dim(),
        "is_bool": is_bool,
        "past": past if is_bool else str(past),
        "future": future if is_bool else str(future),
    }
