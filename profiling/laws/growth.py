"""How the time and the peak memory of each contender of a run grow with seq_len, batch_size and num_heads.

All else is held fixed. With the heads either d_model stays, so that heads grow narrower, or head_dim, so that the layer
grows wider: as the run's grid had it.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from profiling.costs import ELEMENT_BYTES, MIB, call_flop
from profiling.joining import FAILED
from profiling.laws.fitting import MIN_SIZES, Curve, Exponent, bends, fit_curve, power_exponent
from profiling.laws.replicate_error import SizeTimes, size_times
from profiling.laws.time_law import time_law
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
# A law that is refused for its width is so for one of these.
MORE_SIZES = "more sizes, larger ones"
LESS_NOISE = "more sizes, more replicates, or a quieter machine"

ALL_SIZES, LARGEST_SIZE, LAST_SIZES = "all sizes", "largest size", "last sizes"

# Point and contender → number of the replicate → time.
_Times = dict[tuple[int, str], dict[int, float]]


class _Counted(NamedTuple):
    size: int
    value: float
    point: int


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
        basis: what it is the exponent of: `all sizes`; the `largest size` of fitted curves, where the values bend; or
            the `last sizes`, where memory follows no curve, or beyond a step of the times.
        overall: the exponent over all sizes, whatever is told; None below three.
        curve: `a + b·x + c·x²` through the values; None below three sizes.
        expected: for a time, the exponent of the operations alone, on the same basis.
        score_copies: for memory against seq_len, how many times the scores (B, H, S, S) the square part is.
        num_replicates: for a time, how many its interval rests on; 0 where it rests on what the fit leaves.
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
    num_replicates: int = 0
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    refusal: str = ""


def laws_of(
    table: pd.DataFrame,
    axes: Sequence[str] = AXES,
    quantities: Sequence[str] = (TIME, MEMORY),
    *,
    replicates: pd.DataFrame | None = None,
) -> list[Law]:
    """The laws of a run's table along each axis that it varies: those that hold, and those that cannot be told.

    Args:
        table: as `profiling.table.load_run` gives it.
        axes: of `AXES`; one that the run does not vary has no law.
        quantities: of `COLUMNS`.
        replicates: the run's rows as measured, of `profiling.table.load_measurements`, by which it is known how exact
            the times are; without them the interval of a time rests on what the fit leaves.
    """
    varied = [axis for axis in axes if table[axis].nunique() > 1]
    times = {} if replicates is None or not varied else _times_of(replicates, table)
    return [
        _law(rows, contender, quantity, axis, fixed, times)
        for axis in varied
        for contender, fixed, rows in _series(table, axis)
        for quantity in quantities
    ]


def fit_law(
    sizes: Sequence[int],
    values: Sequence[float],
    *,
    is_exact: bool = False,
    replicates: Sequence[Mapping[int, float]] = (),
) -> dict[str, Any]:
    """The fields of a law that follow from sizes and values alone.

    Args:
        sizes: rising.
        values: one for each size.
        is_exact: whether the values are counted, without noise: then few sizes can tell a bend.
        replicates: of each size, number of the replicate → the value that it measured.
    """
    if len(sizes) < MIN_SIZES:
        return {"refusal": f"{len(sizes)} sizes, and a law needs at least {MIN_SIZES}"}
    overall, curve = power_exponent(sizes, values), fit_curve(sizes, values)
    found: dict[str, Any] = {"overall": overall, "curve": curve}
    if sizes[-1] < SMALLEST_SPAN * sizes[0]:
        span = f"the sizes {sizes[0]:,} to {sizes[-1]:,} span {sizes[-1] / sizes[0]:.3g} times"
        return found | {"refusal": f"{span}, and a law needs at least {SMALLEST_SPAN:g} times"}
    if not is_exact:
        return found | _time_fields(sizes, size_times(values, replicates))
    if (exact := _exact_curve(sizes, values)) is not None:
        tail, num_fitted = exact
        # The same curve of one term is a power law.
        basis = ALL_SIZES if tail.num_terms == 1 and num_fitted == len(sizes) else LARGEST_SIZE
        return found | {"curve": tail, "exponent": tail.slope, "basis": basis, "num_fitted": num_fitted}
    told, basis, num_fitted = _told(sizes, values, overall, curve)
    if told.half_width > WIDEST_INTERVAL:
        return found | {"basis": basis, "refusal": f"{_too_wide(told)}: {MORE_SIZES}"}
    return found | {"exponent": told, "basis": basis, "num_fitted": num_fitted}


def _time_fields(sizes: Sequence[int], times: SizeTimes) -> dict[str, Any]:
    told = time_law(sizes, times)
    is_all = told.num_fitted == len(sizes)
    basis = LARGEST_SIZE if told.is_end else ALL_SIZES if is_all else LAST_SIZES
    fields = {"basis": basis, "num_replicates": times.num_replicates}
    is_short = sizes[-1] < SMALLEST_SPAN * sizes[-told.num_fitted]
    if told.step_at is not None and (told.exponent is None or is_short):
        below, beyond = sizes[told.step_at - 1], sizes[told.step_at]
        step = f"the times step by {100 * (told.step - 1):+.0f} % between {below:,} and {beyond:,}"
        return fields | {"refusal": f"{step}, and one law needs more sizes beyond that"}
    if told.exponent is None:
        return fields | {"refusal": f"the times bend, and {len(sizes)} sizes do not tell how: more sizes"}
    if told.exponent.half_width > WIDEST_INTERVAL:
        by_what = " by the curves that fit them" if told.is_end else ""
        return fields | {"refusal": f"{_too_wide(told.exponent)}{by_what}: {LESS_NOISE}"}
    return fields | {"exponent": told.exponent, "num_fitted": told.num_fitted}


def _too_wide(exponent: Exponent) -> str:
    return f"the interval [{exponent.low:.2f}, {exponent.high:.2f}] is wider than ±{WIDEST_INTERVAL:g}"


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
    needed = ["point", "contender", "status", "check_verdict", axis, *shared, *COLUMNS.values()]
    for key, rows in table[needed].groupby(["contender", *shared], sort=False, dropna=False):
        contender, *values = _plain(key)
        if rows[axis].nunique() > 1:
            yield str(contender), dict(zip(shared, values, strict=True)), rows


def _plain(key: Hashable) -> list[Any]:
    assert isinstance(key, tuple), "grouped by several columns"
    return [value.item() if hasattr(value, "item") else value for value in key]


def _times_of(replicates: pd.DataFrame, table: pd.DataFrame) -> _Times:
    """The times of the points of a table, as measured."""
    rows = replicates[replicates["status"].eq("ok") & replicates["point"].isin(table["point"].unique())]
    times: _Times = {}
    columns = (rows[name].tolist() for name in ("point", "contender", "replicate", COLUMNS[TIME]))
    for point, contender, replicate, value in zip(*columns, strict=True):
        if not pd.isna(value) and 0 < value < math.inf:
            times.setdefault((point, contender), {})[replicate] = value
    return times


def _law(rows: pd.DataFrame, contender: str, quantity: str, axis: str, fixed: dict[str, Any], times: _Times) -> Law:
    counted, left_out = _counted(rows, axis, COLUMNS[quantity])
    sizes, values = tuple(each.size for each in counted), tuple(each.value for each in counted)
    is_exact = quantity == MEMORY
    replicates = [] if is_exact else [times.get((each.point, contender), {}) for each in counted]
    law = Law(
        contender=contender,
        quantity=quantity,
        axis=axis,
        fixed=fixed,
        sizes=sizes,
        values=values,
        left_out=left_out,
        **fit_law(sizes, values, is_exact=is_exact, replicates=replicates),
    )
    if quantity == TIME:
        return dataclasses.replace(law, expected=_expected(law))
    return dataclasses.replace(law, score_copies=_score_copies(law))


def _counted(rows: pd.DataFrame, axis: str, column: str) -> tuple[list[_Counted], dict[str, int]]:
    """The sizes that a law may rest on, rising, with their values; and why others are not among them → how many."""
    counted, left_out = [], Counter[str]()
    # As lists: there may be thousands of series of a few rows each.
    columns = (rows[name].tolist() for name in (axis, column, "point", "status", "check_verdict"))
    for size, value, point, status, verdict in zip(*columns, strict=True):
        if status != "ok":
            left_out[str(status)] += 1
        elif not pd.isna(verdict) and verdict in FAILED:
            left_out["check not passed"] += 1
        elif pd.isna(value) or not 0 < value < math.inf:
            left_out["not measured"] += 1
        else:
            counted.append(_Counted(int(size), float(value), int(point)))
    return sorted(counted), dict(left_out)


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
