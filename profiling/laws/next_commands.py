"""The command lines that go on where a run's laws end: the exact crossover, and the longest sequence that fits."""

from __future__ import annotations

import shlex
from typing import Any

import pandas as pd

from profiling.laws.telling import telling_rows
from profiling.layers import is_layer
from profiling.settings import SweepSettings
from profiling.workload import Workload


def crossover_command(table: pd.DataFrame, settings: SweepSettings) -> str | None:
    """Finds from which seq_len on the first compared contender is faster than its reference; None where none is.

    Args:
        table: a run's, as `profiling.table.load_run` gives it.
        settings: of that run.
    """
    rows = telling_rows(table[table["reference"].notna()], "seq_len")
    if rows.empty:
        return None
    row = rows.iloc[0]
    pair = f"{_name(str(row['contender']), settings)},{row['reference']}"
    sizes = [int(size) for size in rows["seq_len"]]
    # Beyond what was measured on either side: there the signs are known.
    span = {"from": max(1, min(sizes) // 2), "to": 2 * max(sizes)}
    return _command("crossover", {"contenders": pair, **span}, row)


def fits_command(table: pd.DataFrame, settings: SweepSettings) -> str | None:
    """Finds the longest sequence of the first contender that fits into memory; None where nothing was measured."""
    rows = telling_rows(table[table["status"] == "ok"], "seq_len")
    return None if rows.empty else _command("fits", {"": _name(str(rows.iloc[0]["contender"]), settings)}, rows.iloc[0])


def _name(contender: str, settings: SweepSettings) -> str:
    """A contender as a command takes it anywhere: a layer of one's own by where its file lies."""
    layer = settings.layer_files().get(contender) if is_layer(contender) else None
    return contender if layer is None else f"{layer.path}:{layer.name}"


def _command(name: str, first: dict[str, Any], row: pd.Series[Any]) -> str:
    words = ["python", "-m", "profiling", name]
    for option, value in first.items():
        words += [f"--{option}", str(value)] if option else [str(value)]
    for field in Workload.__dataclass_fields__:
        value = row[field]
        if field == "seq_len" or pd.isna(value):
            continue
        text = {True: "yes", False: "no"}[bool(value)] if field in ("bias", "causal") else str(value)
        words += [f"--{field.replace('_', '-')}", text]
    return shlex.join(words)
