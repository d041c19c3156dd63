"""How far each row of a run is from what the machine can do at its arithmetic intensity: the roofline.

A call can be no faster than the machine multiplies matrices, nor than it moves the bytes that have to be moved:
the lower of the two roofs is `min(matmul_gflop_per_s, arithmetic_intensity · copy_gb_per_s)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from profiling.ceilings import ceilings_of
from profiling.costs import arithmetic_intensity
from profiling.typed_columns import typed
from profiling.wording import rounded_percent
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
    """A run's table with the columns that follow from its rows' shapes and the ceilings in its environment.

    They are empty where something that they follow from is not known. A row above its roof keeps its number, and is
    warned of: the roof is too low. Not so a causal one, whose operations are counted in full whether they are done or
    not.
    """
    fields = list(Workload.__dataclass_fields__)
    # A point's contenders have the same shape, and there may be 100,000 rows: each shape is looked at once.
    shape = table.groupby(fields, sort=False, dropna=False).ngroup()
    first = table.loc[~shape.duplicated(), fields]
    shapes = [dict(zip(fields, values, strict=True)) for values in zip(*_values(first, fields), strict=True)]
    intensities = [_intensity(row) for row in shapes]
    of_dtype = {dtype: ceilings_of(environment, dtype) for dtype in {row["dtype"] for row in shapes}}
    ceilings = [of_dtype[row["dtype"]] for row in shapes]
    columns = _values(table, ["status", "achieved_gflop_per_s", "causal", "warnings"])
    cells = [
        _cells(*row, intensity=intensities[number], ceilings=ceilings[number])
        for number, row in zip(shape.tolist(), zip(*columns, strict=True), strict=True)
    ]
    by_column = list(zip(*cells, strict=True)) or [()] * len(COLUMNS)
    added = {name: typed(values, kind) for (name, kind), values in zip(COLUMNS.items(), by_column, strict=True)}
    return table.assign(**added)


def _values(table: pd.DataFrame, columns: list[str]) -> list[list[Any]]:
    """Each column as a list, None where a cell is empty."""
    return [table[name].astype(object).where(table[name].notna(), None).tolist() for name in columns]


def _cells(
    status: str | None,
    achieved: float | None,
    causal: bool | None,
    warnings: str | None,
    *,
    intensity: float | None,
    ceilings: tuple[float | None, float | None],
) -> tuple[float | None, float | None, float | None, float | None, str | None]:
    matmul, copy = ceilings
    fraction = warning = None
    if status != "ok":
        intensity = None
    if intensity is not None and matmul is not None and copy is not None and achieved is not None:
        roof = min(matmul, intensity * copy)
        fraction = achieved / roof
        warning = None if causal else warning_of(fraction, is_memory=roof < matmul)
    said = "; ".join(text for text in (warnings, warning) if text) if warnings or warning else None
    return intensity, matmul, copy, fraction, said


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
            f"at {rounded_percent(fraction, 0)} of what this machine was measured to do: the call cannot have done the "
            "work that is counted, as where it gives back a stored result"
        )
    if is_memory:
        return (
            f"at {rounded_percent(fraction, 0)} of what memory was measured to deliver: its tensors stay in the "
            "processor's caches from call to call, so that ceiling does not bind it"
        )
    return (
        f"at {rounded_percent(fraction, 0)} of the measured ceiling: the ceiling is too low, since the machine was "
        "busier or slower when it was measured; measure again on a quiet machine"
    )


def _intensity(row: Mapping[Any, Any]) -> float | None:
    fields = {name: row[name] for name in Workload.__dataclass_fields__}
    needed = ("batch_size", "seq_len", "num_heads", "d_model", "dtype", "mode", "bias")
    if any(fields[name] is None for name in needed):
        return None
    try:
        return arithmetic_intensity(Workload(**fields))
    except KeyError:  # an element type that this version does not know
        return None
