"""How far each row of a run is from what the machine can do at its arithmetic intensity: the roofline.

A call can be no faster than the machine multiplies matrices, nor than it moves the bytes that have to be moved:
the lower of the two roofs is `min(matmul_gflop_per_s, arithmetic_intensity · copy_gb_per_s)`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pandas as pd

from profiling.ceilings import ceilings_of
from profiling.costs import arithmetic_intensity
from profiling.typed_columns import typed
from profiling.workload import Workload

# Beyond it neither caches nor a busy moment explain it.
IMPOSSIBLE = 3.0
COLUMNS = {
    "arithmetic_intensity": "float",
    "matmul_gflop_per_s": "float",
    "copy_gb_per_s": "float",
    "roofline_fraction": "float",
    "warnings": "text",
}


def with_roofline(table: pd.DataFrame, environment: Mapping[str, Any]) -> pd.DataFrame:
    """A run's table with the columns that follow from its rows' shapes and the ceilings in its environment."""
    needed = (*Workload.__dataclass_fields__, "status", "achieved_gflop_per_s", "warnings")
    columns = [table[name].astype(object).where(table[name].notna(), None).tolist() for name in needed]
    ceilings = {dtype: ceilings_of(environment, dtype) for dtype in set(columns[needed.index("dtype")])}
    rows = (dict(zip(needed, row, strict=True)) for row in zip(*columns, strict=True))
    cells = [_cells(row, *ceilings[row["dtype"]]) for row in rows]
    added = {name: typed([each[name] for each in cells], kind) for name, kind in COLUMNS.items()}
    return table.assign(**added)


def roofline_cells(row: Mapping[Any, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
    """The cells `COLUMNS` of one row; None where something that they follow from is not known.

    A row above its roof keeps its number, and is warned of: the roof is too low. Not so a causal one, whose operations
    are counted in full whether they are done or not.
    """
    return _cells(row, *ceilings_of(environment, row["dtype"]))


def _cells(row: Mapping[Any, Any], matmul: float | None, copy: float | None) -> dict[str, Any]:
    intensity = _intensity(row) if row["status"] == "ok" else None
    fraction = warning = None
    if intensity is not None and matmul is not None and copy is not None:
        roof = min(matmul, intensity * copy)
        if row["achieved_gflop_per_s"] is not None:
            fraction = row["achieved_gflop_per_s"] / roof
            warning = None if row["causal"] else warning_of(fraction, is_memory=roof < matmul)
    return {
        "arithmetic_intensity": intensity,
        "matmul_gflop_per_s": matmul,
        "copy_gb_per_s": copy,
        "roofline_fraction": fraction,
        "warnings": "; ".join(text for text in (row["warnings"], warning) if text) or None,
    }


def warning_of(fraction: float, *, is_memory: bool) -> str | None:
    """What a row above its roof is warned of; None for one that is not.

    Args:
        fraction: of the roof.
        is_memory: whether the roof is that of moving bytes, and not that of matrix products.
    """
    if round(100 * fraction) <= 100:
        return None
    if fraction > IMPOSSIBLE:
        return (
            f"at {fraction:,.0%} of what this machine was measured to do: the call cannot have done the work that is "
            "counted, as where it gives back a stored result"
        )
    if is_memory:
        return (
            f"at {fraction:.0%} of what memory was measured to deliver: its tensors stay in the processor's caches "
            "from call to call, so that ceiling does not bind it"
        )
    return (
        f"at {fraction:.0%} of the measured ceiling: the ceiling is too low, since the machine was busier or slower "
        "when it was measured; measure again on a quiet machine"
    )


def _intensity(row: Mapping[Any, Any]) -> float | None:
    fields = tuple(row[name] for name in Workload.__dataclass_fields__)
    needed = ("batch_size", "seq_len", "num_heads", "d_model", "dtype", "mode", "bias")
    return None if any(row[name] is None for name in needed) else _intensity_of(fields)


@functools.lru_cache(maxsize=1024)
def _intensity_of(fields: tuple[Any, ...]) -> float | None:
    # Kept for the contenders of a point, which stand next to each other.
    try:
        return arithmetic_intensity(Workload(**dict(zip(Workload.__dataclass_fields__, fields, strict=True))))
    except KeyError:  # an element type that this version does not know
        return None
