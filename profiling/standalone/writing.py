"""Writes the script of a row: the parts that it needs, and its workload, its layers' sources and its numbers in them.

Nothing of a run's folder becomes code but sources that are held to their hash: all else is put in as literals.
"""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

from profiling.kept_sources import read_recipes, recipe_key
from profiling.layers import LayerFile, inner_of
from profiling.measured_point import MeasuredPoint
from profiling.settings import MIN_REPLICATES_FOR_VERDICT
from profiling.sources import NoSource, Source
from profiling.standalone.ours import CLASSES, layer_text

_PARTS = Path(__file__).resolve().parent
_WIDTH = 110
_LONGEST_TEXT = 200
MODULES = ("gc", "json", "math", "os", "platform", "random", "statistics", "subprocess", "sys", "time")
HEADER = '''"""Measures one point again: a multi-head attention layer next to the official one. Needs torch alone.

{what}

    python {name}        in {processes} processes, about {seconds:.0f} s of timed calls in all
    python {name} N      in N processes: more make the interval narrower

Each process gives the layer, its reference and a clone of the reference the same weights, warms them up, and times them
in random order, round by round. Speed-up: the median over rounds of reference / layer, the mean of its logarithm over
processes, and Student's t. How far the clone strays from 1 is the noise floor.
"""

'''


class NoScript(Exception):
    """A row that cannot be put into a script; the message says why."""


def script_text(point: MeasuredPoint, name: str = "repeat.py") -> str:
    """The script that measures a row again with torch alone.

    Args:
        point: the row.
        name: of the file that it will be in.

    Raises:
        NoScript: the source of its layer, or how that was built and called, is not known any more.
    """
    layers, imports, maker = _layers(point)
    processes = max(point.run.settings.replicates, MIN_REPLICATES_FOR_VERDICT)
    num_calls = 2 if point.reference is None else 3
    header = HEADER.format(
        what=textwrap.fill(_what(point), _WIDTH),
        name=name if name.isidentifier() or name.replace(".", "").replace("-", "").isalnum() else "repeat.py",
        processes=processes,
        seconds=processes * num_calls * point.run.settings.time_budget_s,
    )
    timing = "time_cpu" if point.workload.device == "cpu" else "time_accelerator"
    body = _filled(
        _part("script"),
        imports="\n".join(sorted([*(f"import {name}" for name in MODULES), *imports], key=_place_of_import)),
        functional="import torch.nn.functional as F" if inner_of(point.contender) in CLASSES else "",
        row=_constants(point, processes),
        layers=f"{layers}\n\n\n{_filled(_part('make'), maker=maker)}\n",
        timing=_part(timing),
    )
    return header + body


def _layers(point: MeasuredPoint) -> tuple[str, list[str], str]:
    """The text that makes the layers, the modules that it needs, and the expression that makes the one asked for."""
    official, inner = "make_official(inner, weights, x)", inner_of(point.contender)
    texts = [_part("official").rstrip()]
    if point.is_torchs:
        return "\n\n\n".join(texts), [], official
    try:
        source = point.source()
    except NoSource as error:
        raise NoScript(str(error)) from None
    if inner in CLASSES:
        try:
            ours = layer_text(inner, list(source.texts.values()))
        except (ValueError, SyntaxError) as error:
            raise NoScript(f"the source of {inner} cannot be put into a script: {error}") from None
        note = f"# As measured, of mha-bench (source {source.hash}), without docstrings and what no call needs.\n"
        texts = [note + ours.rstrip(), *texts, _filled(_part("ours"), **{"class": CLASSES[inner]}).rstrip()]
        imports, mine = ["import numbers", "from typing import Any"], "make_ours(weights, x)"
    else:
        assert point.layer is not None
        recipe = {**_recipe(point, source, point.layer), "root": source.root}
        files = "\n".join(f"    {name!r}: {_file_literal(data)}," for name, data in source.files.items())
        texts = [_filled(_part("own").rstrip(), recipe=_recipe_literal(recipe), files=files), *texts]
        imports = ["import atexit", "import copy", "import importlib.util", "import pathlib", "import tempfile"]
        mine = "make_own(weights, x)"
    return "\n\n\n".join(texts), imports, f"{official} if inner in OFFICIAL else {mine}"


def _recipe(point: MeasuredPoint, source: Source, layer: LayerFile) -> dict[str, Any]:
    kept = read_recipes(point.folder, source.hash).get(recipe_key(layer, point.workload))
    if not isinstance(kept, dict) or not _is_recipe(kept) or kept["name"] != layer.name:
        raise NoScript(
            f"the run has not kept how {point.contender} was built and called here: measure the row again by its "
            "command, which keeps it"
        )
    return {name: kept[name] for name in _RECIPE}


def _recipe_literal(recipe: dict[str, Any]) -> str:
    """A line for each entry, and for each stored tensor."""
    lines = ["{"]
    for name, value in recipe.items():
        if name == "weights" and value:
            lines += ["    'weights': [", *(f"        {_literal(one)}," for one in value), "    ],"]
        else:
            lines.append(f"    {name!r}: {_literal(value)},")
    return "\n".join([*lines, "}"])


def _is_recipe(kept: dict[str, Any]) -> bool:
    if not all(isinstance(kept.get(name), kinds) for name, kinds in _RECIPE.items()) or "weights" not in kept:
        return False
    fields = {"kind", "roles", "names", "letters", "span"}
    return all(isinstance(one, dict) and one.keys() == fields for one in kept["weights"] or ())


_RECIPE: dict[str, tuple[type, ...]] = {
    **{"name": (str,), "is_instance": (bool,), "args": (list,), "kwargs": (dict,), "weights": (list, type(None))},
    **{"query": (str, type(None)), "sides": (list,), "empty": (list,), "batch_first": (bool,)},
    **{"flags": (dict,), "masks": (list,)},
}


def _constants(point: MeasuredPoint, processes: int) -> str:
    workload, row = point.workload, point.row
    told = point.reference_row or {}
    ms = {point.contender: row["latency_median_ms"], point.reference: told.get("latency_median_ms")}
    # Where what was asked for was not had: only glibc's heap can be pinned.
    heap = "as-is" if point.run.environment.get("heap_pinned") is False else point.run.settings.heap
    said = {
        "speedup": row["speedup"],
        "low": row["speedup_low"],
        "high": row["speedup_high"],
        "processes": row["num_speedups"] or 1,
        "noise_floor": row["noise_floor"],
        "error": row["max_abs_error"],
        "ms": {name: time for name, time in ms.items() if name is not None and time is not None},
        "on": _where(point),
    }
    lines = [
        f"B, S, H, E = {workload.batch_size}, {workload.seq_len}, {workload.num_heads}, {workload.d_model}"
        "  # batch_size, seq_len, num_heads, d_model",
        f"DTYPE, DEVICE = torch.{workload.dtype}, {workload.device!r}",
        f"IS_TRAINING, BIAS, CAUSAL = {workload.mode == 'training'}, {workload.bias}, {workload.causal}",
        f"THREADS, SEED, HEAP = {workload.threads}, {workload.seed}, {heap!r}",
        f"CONTENDER = {point.contender!r}",
        f"REFERENCE = {point.reference!r}",
        f"IS_COMPARABLE = {row['check_verdict'] != 'not-comparable'}",
        "# Seconds of timed calls for each of them in each process.",
        f"BUDGET_S, PROCESSES = {_literal(point.run.settings.time_budget_s)}, {processes}",
        "# What the row said.",
        "SAID = {",
        *(f"    {name!r}: {_literal(value)}," for name, value in said.items()),
        "}",
    ]
    return "\n".join(lines)


def _what(point: MeasuredPoint) -> str:
    """Of facts that are held to rules alone: a name that someone gave could end the text that this stands in."""
    workload = point.workload
    words = f"{workload.label}, {workload.dtype}, {workload.mode}, on {workload.device}"
    return f"{words}, {workload.threads} thread{'s' * (workload.threads > 1)}, heap {point.run.settings.heap}."


def _where(point: MeasuredPoint) -> str:
    facts = [point.run.environment.get(name) for name in ("torch_version", "device_name")]
    text = f"torch {facts[0]} on {facts[1]}, {point.row['measured_at']}"
    return " ".join(text.split())[:_LONGEST_TEXT]


def _literal(value: Any) -> str:
    """The value as Python writes it; infinity, which has no literal, by a call."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {_literal(each)}" for name, each in value.items()) + "}"
    if hasattr(value, "item"):  # a number of numpy
        return _literal(value.item())
    return repr(value)


def _file_literal(data: bytes) -> str:
    """A file's content as a literal: its text as it stands where that can be, else the bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return repr(data)
    is_plain = "'''" not in text and not text.endswith(("'", "\\")) and text.replace("\n", "").replace("\t", "")
    if is_plain and is_plain.isprintable():
        return f"r'''{text}'''"
    return repr(text)


def _place_of_import(line: str) -> tuple[bool, str]:
    return line.startswith("from "), line


def _part(name: str) -> str:
    return (_PARTS / f"{name}.py.txt").read_text(encoding="utf-8")


def _filled(text: str, **values: str) -> str:
    """The text with each `#<name>` in it replaced; all at once, so that what is put in is not looked into."""
    pieces = [text]
    for name, value in values.items():
        mark = f"#<{name}>"
        place = next(index for index, piece in enumerate(pieces) if index % 2 == 0 and mark in piece)
        before, after = pieces[place].split(mark, 1)
        if not value and after.startswith("\n"):
            after = after[1:]
        pieces[place : place + 1] = [before, value, after]
    return "".join(pieces)
