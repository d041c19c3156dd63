"""How the time and the peak memory of each contender of a run grow with seq_len, batch_size and num_heads.

All else is held fixed. With the heads either d_model stays, so that heads grow narrower, or head_dim, so that the layer
grows wider: as the run's grid had it.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from profiling.costs import ELEMENT_BYTES, MIB, call_flop
from profiling.joining import FAILED
from profiling.laws.fitting import MIN_SIZES, Curve, Exponent, bends, fit_curve, power_exponent
from profiling.workload import Workload

AXES = ("seq_len", "batch_size", "num_heads")
TIME, MEMORY = "time", "peak memory"
COLUMNS = {TIME: "latency_median_ms", MEMORY: "peak_memory_mib"}

# The largest size over the smallest: nearer together, a bend or a fixed cost passes for an exponent.
SMALLEST_SPAN = 4.0
WIDEST_INTERVAL = 0.25
# Worse than that at any size, the curve of three terms does not describe what was measured.
WORST_CURVE_ERROR = 0.10
# Peak memory is counted, not timed: a fit that is right misses it by the blocks' roundings alone.
EXACT = 0.005
NUM_LAST_SIZES = 3
# Times choose the curve that they are told by, so its interval is too narrow by itself: in made-up times with 3 to 10 %
# of noise it held the truth in 93 to 67 % instead of 95. Three sizes have so wide an interval that one which is narrow
# by chance is told: only where nearly nothing scatters do they speak.
WIDENED = 1.75
WIDEST_OF_LAST_SIZES = 0.02

ALL_SIZES, LARGEST_SIZE, LAST_SIZES = "all sizes", "largest size", "last sizes"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Law:
    """How one quantity of a contender grows along one axis.

    Attributes:
        contender, quantity, axis: `quantity` is `time` or `peak memory`.
        fixed: the workload's other fields, by name; with num_heads the one of d_model and head_dim that stays.
        sizes, values: what was measured, by size; milliseconds or MiB.
        num_fitted: how many of them, the largest, the told exponent rests on: a layer may hold most of its memory at
            another step where it is small, and then the small sizes follow another law.
        exponent: the one that is told; None where none is.
        basis: what it is the exponent of: `all sizes`; the `largest size` of a fitted curve, or the `last sizes`, where
            the values bend.
        overall: the exponent over all sizes, whatever is told; None below three.
        curve: `a + b·x + c·x²` through the values; None below three sizes.
        expected: for a time, the exponent of the operations alone, on the same basis.
        score_copies: for memory against seq_len, how many times the scores (B, H, S, S) the square part is.
        left_out: why rows are not in it → how many.
        refusal: why no law is told; empty where one is.
    """

    contender: str
    quantity: str
    axis: str
    fixed: Mapping[str, Any]
    sizes: tuple[int, ...]
    values: tuple[float, ...]
    num_fitted: int = 0
    exponent: Exponent | None = None
    basis: str = ALL_SIZES
    overall: Exponent | None = None
    curve: Curve | None = None
    expected: float | None = None
    score_copies: float | None = None
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    refusal: str = ""


def laws_of(table: pd.DataFrame, axes: Sequence[str] = AXES, quantities: Sequence[str] = (TIME, MEMORY)) -> list[Law]:
    """The laws of a run's table along each axis that it varies: those that hold, and those that cannot be told.

    Args:
        table: as `profiling.table.load_run` gives it.
        axes: of `AXES`; one that the run does not vary has no law.
        quantities: of `COLUMNS`.
    """
    varied = [axis for axis in axes if table[axis].nunique() > 1]
    return [
        _law(rows, contender, quantity, axis, fixed)
        for axis in varied
        for contender, fixed, rows in _series(table, axis)
        for quantity in quantities
    ]


def fit_law(sizes: Sequence[int], values: Sequence[float], *, is_exact: bool = False) -> dict[str, Any]:
    """The fields of a law that follow from sizes and values alone.

    Args:
        sizes: rising.
        values: one for each size.
        is_exact: whether the values are counted, without noise: then few sizes can tell a bend.
    """
    if len(sizes) < MIN_SIZES:
        return {"refusal": f"{len(sizes)} sizes, and a law needs at least {MIN_SIZES}"}
    overall, curve = power_exponent(sizes, values), fit_curve(sizes, values)
    found: dict[str, Any] = {"overall": overall, "curve": curve}
    if sizes[-1] < SMALLEST_SPAN * sizes[0]:
        span = f"the sizes {sizes[0]:,} to {sizes[-1]:,} span {sizes[-1] / sizes[0]:.3g} times"
        return found | {"refusal": f"{span}, and a law needs at least {SMALLEST_SPAN:g} times"}
    if is_exact and (exact := _exact_curve(sizes, values)) is not None:
        tail, num_fitted = exact
        # The same curve of one term is a power law.
        basis = ALL_SIZES if tail.num_terms == 1 and num_fitted == len(sizes) else LARGEST_SIZE
        return found | {"curve": tail, "exponent": tail.slope, "basis": basis, "num_fitted": num_fitted}
    told, basis, num_fitted = _told(sizes, values, overall, curve)
    if not is_exact and basis == LARGEST_SIZE:
        told = told.widened(WIDENED)
    widest = WIDEST_OF_LAST_SIZES if basis == LAST_SIZES and not is_exact else WIDEST_INTERVAL
    if told.half_width > widest:
        return found | {
            "basis": basis,
            "refusal": f"the interval [{told.low:.2f}, {told.high:.2f}] is wider than ±{widest:g}: "
            + ("more sizes, larger ones" if is_exact else "more sizes, or a quieter machine"),
        }
    return found | {"exponent": told, "basis": basis, "num_fitted": num_fitted}


def _exact_curve(sizes: Sequence[int], values: Sequence[float]) -> tuple[Curve, int] | None:
    """The curve through the most of the largest sizes that misses none, and through how many; None where none does.

    One with as many terms as sizes misses nothing, and says nothing.
    """
    for start in range(len(sizes) - MIN_SIZES + 1):
        curve = fit_curve(sizes[start:], values[start:])
        if sizes[-1] < SMALLEST_SPAN * sizes[start]:
            return None
        if curve.worst <= EXACT and curve.slope.half_width <= WIDEST_INTERVAL:
            return curve, len(sizes) - start
    return None


def _told(sizes: Sequence[int], values: Sequence[float], overall: Exponent, curve: Curve) -> tuple[Exponent, str, int]:
    if not bends(sizes, values, curve):
        return overall, ALL_SIZES, len(sizes)
    if curve.worst <= WORST_CURVE_ERROR:
        return curve.slope, LARGEST_SIZE, len(sizes)
    return power_exponent(sizes[-NUM_LAST_SIZES:], values[-NUM_LAST_SIZES:]), LAST_SIZES, NUM_LAST_SIZES


def _series(table: pd.DataFrame, axis: str) -> Iterator[tuple[str, dict[str, Any], pd.DataFrame]]:
    """The rows of each contender that differ in the axis alone, and what they share."""
    shared = [name for name in Workload.__dataclass_fields__ if name != axis]
    if axis == "num_heads" and table["d_model"].nunique() > 1:  # a grid of fixed head_dim
        shared[shared.index("d_model")] = "head_dim"
    needed = ["contender", "status", "check_verdict", axis, *shared, *COLUMNS.values()]
    for key, rows in table[needed].groupby(["contender", *shared], sort=False, dropna=False):
        contender, *values = _plain(key)
        if rows[axis].nunique() > 1:
            yield str(contender), dict(zip(shared, values, strict=True)), rows


def _plain(key: Hashable) -> list[Any]:
    assert isinstance(key, tuple), "grouped by several columns"
    return [value.item() if hasattr(value, "item") else value for value in key]


def _law(rows: pd.DataFrame, contender: str, quantity: str, axis: str, fixed: dict[str, Any]) -> Law:
    points, left_out = _counted(rows, axis, COLUMNS[quantity])
    sizes, values = tuple(size for size, _ in points), tuple(value for _, value in points)
    law = Law(
        contender=contender,
        quantity=quantity,
        axis=axis,
        fixed=fixed,
        sizes=sizes,
        values=values,
        left_out=left_out,
        **fit_law(sizes, values, is_exact=quantity == MEMORY),
    )
    if quantity == TIME:
        return dataclasses.replace(law, expected=_expected(law))
    return dataclasses.replace(law, score_copies=_score_copies(law))


def _counted(rows: pd.DataFrame, axis: str, column: str) -> tuple[list[tuple[int, float]], dict[str, int]]:
    """The sizes that a law may rest on, rising, with their values; and why others are not among them → how many."""
    points, left_out = [], Counter[str]()
    # As lists: there may be thousands of series of a few rows each.
    columns = (rows[name].tolist() for name in (axis, column, "status", "check_verdict"))
    for size, value, status, verdict in zip(*columns, strict=True):
        if status != "ok":
            left_out[str(status)] += 1
        elif not pd.isna(verdict) and verdict in FAILED:
            left_out["check not passed"] += 1
        elif pd.isna(value) or not 0 < value < math.inf:
            left_out["not measured"] += 1
        else:
            points.append((int(size), float(value)))
    return sorted(points), dict(left_out)


def _expected(law: Law) -> float | None:
    """The exponent of the operations, on the basis on which that of the time is told."""
    if law.exponent is None:
        return None
    sizes = law.sizes[-law.num_fitted :]
    flops = [float(call_flop(_workload(law, size))) for size in sizes]
    return (fit_curve(sizes, flops).slope if law.basis == LARGEST_SIZE else power_exponent(sizes, flops)).value


def _score_copies(law: Law) -> float | None:
    """How many times the scores the part of the memory is that grows with the square of the length."""
    if law.axis != "seq_len" or law.curve is None or law.curve.worst > WORST_CURVE_ERROR:
        return None
    element = ELEMENT_BYTES.get(str(law.fixed["dtype"]))
    if element is None:  # an element type that this version does not know
        return None
    return law.curve.square * MIB / (int(law.fixed["batch_size"]) * int(law.fixed["num_heads"]) * element)


def _workload(law: Law, size: int) -> Workload:
    fields = {**law.fixed, law.axis: size}
    if "head_dim" in fields:
        fields["d_model"] = int(fields.pop("head_dim")) * size
    return Workload(**fields)
