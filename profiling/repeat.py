"""The command line of a sweep: of a grid, and of one row measured again, its contender next to its reference."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from profiling.layers import COMPILED, can_be_named, is_compiled, is_layer
from profiling.settings import SweepSettings
from profiling.workload import MAX_SIZE, Grid, GridError, Workload

# What a command begins with, in this order.
SIZES = ("batch_size", "seq_len", "num_heads", "d_model")

if TYPE_CHECKING:
    import pandas as pd


def sweep_arguments(
    grid: Grid, settings: SweepSettings, contenders: Iterable[str] | None = None, reference: str | None = None
) -> list[str]:
    """The words after `python -m profiling` that measure this grid in this way.

    Args:
        grid: what to measure.
        settings: how.
        contenders: which layers; None for those of the settings. Layers of one's own are named as they were given.
        reference: what those are compared with; None for that of the settings.
    """
    names = list(settings.contenders if contenders is None else contenders)
    own = [name for name in names if is_layer(name)]
    options: list[tuple[str, object]] = [
        ("batch-size", _list(grid.batch_size)),
        ("seq-len", _list(grid.seq_len)),
        ("num-heads", _list(grid.num_heads)),
        ("d-model", grid.d_model),
        ("head-dim", grid.head_dim),
        ("dtype", _list(grid.dtype)),
        ("mode", _list(grid.mode)),
        ("bias", _switches(grid.bias)),
        ("causal", _switches(grid.causal)),
        ("contenders", _list(name for name in names if not is_layer(name)) or None),
        *(("contender", name) for name in own),
        ("reference", (reference or settings.reference) if own else None),
        ("device", grid.device),
        ("threads", grid.threads),
        ("seed", grid.seed),
        ("replicates", settings.replicates),
        ("time-budget", _seconds(settings.time_budget_s)),
        ("time-limit", _seconds(settings.time_limit_s)),
        ("quiet-wait", _seconds(settings.quiet_wait_s)),
        ("heap", settings.heap),
    ]
    words = [word for name, value in options if value is not None for word in (f"--{name}", str(value))]
    return ["sweep", *words, *(["--anyway"] if settings.anyway else [])]


def repeat_command(workload: Workload, contender: str, reference: str | None, settings: SweepSettings) -> str:
    """One line for a POSIX shell, in which nothing is left to the machine that it is typed on.

    A layer of one's own is named by where it lay when it was measured, so that the line means the same in any folder;
    by the name that it was given where a command line cannot take that path.

    Args:
        workload: the row's, with the device and the threads that it was measured with.
        contender: the row's.
        reference: what it was compared with; None for a reference itself.
        settings: those of its run.
    """
    names = [_name_anywhere(name, settings) for name in _measured_with(contender, reference)]
    return shlex.join(["python", "-m", "profiling", *sweep_arguments(point_of(workload), settings, names, reference)])


def repeat_sweep(
    workload: Workload, contender: str, reference: str | None, settings: SweepSettings
) -> tuple[Grid, SweepSettings]:
    """What that command measures, for a caller in Python; the contender keeps its name."""
    again = dataclasses.replace(
        settings,
        contenders=_measured_with(contender, reference),
        reference=(reference or settings.reference) if is_layer(contender) else settings.reference,
    )
    return point_of(workload), again


def point_of(workload: Workload) -> Grid:
    """The grid of that one point.

    Raises:
        GridError: there is no such point.
    """
    return Grid(
        batch_size=(workload.batch_size,),
        seq_len=(workload.seq_len,),
        num_heads=(workload.num_heads,),
        d_model=workload.d_model,
        dtype=(workload.dtype,),
        mode=(workload.mode,),
        bias=(workload.bias,),
        causal=(workload.causal,),
        device=workload.device,
        threads=workload.threads,
        seed=workload.seed,
    )


def repeat_command_of_row(row: Mapping[str, Any], settings: SweepSettings) -> str | None:
    """The same for a row of a table; None where a cell of its workload is empty (None): someone has edited the file."""
    workload = {name: row[name] for name in Workload.__dataclass_fields__}
    if None in workload.values():
        return None
    try:
        return repeat_command(Workload.from_dict(workload), row["contender"], row["reference"], settings)
    except GridError:  # no such point: the file was edited
        return None


def repeat_commands(table: pd.DataFrame, settings: SweepSettings) -> list[str | None]:
    """The command of each row of a table, as `repeat_command_of_row` gives it."""
    fields = list(Workload.__dataclass_fields__)
    needed = [*SIZES, *(name for name in fields if name not in SIZES), "contender", "reference"]
    columns = [table[name].astype(object).where(table[name].notna(), None).tolist() for name in needed]
    # What differs in its sizes alone is made once, and so is what a point's contenders share: of 100,000 rows.
    tails: dict[tuple[Any, ...], str | None] = {}
    heads: dict[tuple[Any, ...], str | None] = {}
    commands = []
    for row in zip(*columns, strict=True):
        sizes, kind = row[: len(SIZES)], row[len(SIZES) :]
        if kind not in tails:
            smallest = dict(zip(needed, (*(1 for _ in SIZES), *kind), strict=True))
            whole = repeat_command_of_row(smallest, settings)
            tails[kind] = None if whole is None else whole.removeprefix(_head(*(1 for _ in SIZES)))
        if sizes not in heads:
            heads[sizes] = _head(*sizes) if all(map(_is_size, sizes)) else None
        head, tail = heads[sizes], tails[kind]
        commands.append(None if head is None or tail is None else head + tail)
    return commands


def _measured_with(contender: str, reference: str | None) -> tuple[str, ...]:
    # To a layer of one's own its reference is added by itself.
    return (contender,) if is_layer(contender) or reference is None else (contender, reference)


def _name_anywhere(contender: str, settings: SweepSettings) -> str:
    spec = settings.layers.get(contender)
    if spec is None:
        return contender
    name = COMPILED + spec if is_compiled(contender) else spec
    return name if can_be_named(name) else contender


def _head(batch_size: int, seq_len: int, num_heads: int, d_model: int) -> str:
    return (
        f"python -m profiling sweep --batch-size {batch_size} --seq-len {seq_len} --num-heads {num_heads} "
        f"--d-model {d_model}"
    )


def _is_size(value: object) -> bool:
    return isinstance(value, int) and 1 <= value <= MAX_SIZE


def _list(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values)


def _switches(values: tuple[bool, ...]) -> str | None:
    """`no,yes` and the like; None for what is so without being asked for."""
    return None if values == (False,) else _list("yes" if value else "no" for value in values)


def _seconds(seconds: float | None) -> str | None:
    """The shortest text for exactly this number."""
    if seconds is None:
        return None
    short = f"{seconds:g}"
    return short if float(short) == seconds else repr(seconds)
