"""How near each row of a run comes to what the machine can do, and what holds it there: the roofline in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pandas as pd

from profiling.joining import FAILED
from profiling.roofline import IMPOSSIBLE
from profiling.wording import rounded_percent

MATMUL, COPY = "matmul", "memory traffic"
# Below this share neither roof is what holds a call: something else takes most of its time.
FREE_OF_ROOFS = 0.25
_NEEDED = ("achieved_gflop_per_s", "arithmetic_intensity", "matmul_gflop_per_s", "copy_gb_per_s", "roofline_fraction")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limit:
    """A measured row next to the roofs of its machine.

    Attributes:
        contender, batch_size, seq_len, num_heads, d_model, dtype, mode, causal: the row's own.
        achieved_gflop_per_s: operations by formula over the time.
        arithmetic_intensity: operations of the call per byte that it has to move at least.
        matmul_gflop_per_s, copy_gb_per_s: the measured ceilings.
        fraction: of the lower of the two roofs at that intensity.
    """

    contender: str
    batch_size: int
    seq_len: int
    num_heads: int
    d_model: int
    dtype: str
    mode: str
    causal: bool
    achieved_gflop_per_s: float
    arithmetic_intensity: float
    matmul_gflop_per_s: float
    copy_gb_per_s: float
    fraction: float

    @property
    def bound(self) -> str:
        """The lower roof: `matmul` or `memory traffic`."""
        return COPY if self.arithmetic_intensity * self.copy_gb_per_s < self.matmul_gflop_per_s else MATMUL

    @property
    def roof_gflop_per_s(self) -> float:
        """How many operations the lower roof allows."""
        return min(self.matmul_gflop_per_s, self.arithmetic_intensity * self.copy_gb_per_s)

    @property
    def left(self) -> float | None:
        """How many times as fast the call could be at best; None where it lies above its roof, which is too low."""
        return 1 / self.fraction if round(100 * self.fraction) <= 100 else None


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of a run, in the order of its table, and why rows have none → how many."""

    limits: tuple[Limit, ...]
    left_out: Mapping[str, int]


def limits_of(table: pd.DataFrame) -> Limits:
    """The limits of a run's rows, as `profiling.table.load_run` gives them.

    A row without a measurement, one whose check fails, and one of a run without ceilings have none, and are counted.
    """
    is_lost = table["status"] != "ok"
    is_wrong = ~is_lost & table["check_verdict"].isin(FAILED).fillna(False)
    is_untold = ~is_lost & ~is_wrong & table[list(_NEEDED)].isna().any(axis=1)
    left_out = {str(status): int(count) for status, count in table.loc[is_lost, "status"].value_counts().items()}
    for reason, where in (("check not passed", is_wrong), ("no ceiling measured", is_untold)):
        if where.any():
            left_out[reason] = int(where.sum())
    names = [field.name for field in dataclasses.fields(Limit) if field.name != "fraction"]
    rows = table[~(is_lost | is_wrong | is_untold)]
    cells = rows[[*names, "roofline_fraction"]].astype(object).itertuples(index=False, name=None)
    return Limits(tuple(Limit(**dict(zip([*names, "fraction"], row, strict=True))) for row in cells), left_out)


def limit_words(limit: Limit) -> str:
    """One sentence: the share of what the machine can do, what the call is bound by, and what is left."""
    said = f"{rounded_percent(limit.fraction, 0)} of what this machine can do at seq_len {limit.seq_len:,}"
    if limit.left is None:
        return f"{said}: {_above(limit)}"
    if limit.fraction < FREE_OF_ROOFS:
        return (
            f"{said}: bound by neither matmul nor memory traffic, but by what is in no formula (calls, layout, "
            f"softmax); the nearer roof is {limit.bound}"
        )
    if round(100 * limit.fraction) == 100:
        return f"{said}, bound by {limit.bound}: nothing is left"
    return f"{said}, bound by {limit.bound}; at best it could be {limit.left:.2f} times as fast"


def contender_limits(limits: Limits) -> dict[str, tuple[Limit, ...]]:
    """Contender → its limits, the shortest sequence first; points of one length in the order of the run."""
    found: dict[str, list[Limit]] = {}
    for limit in limits.limits:
        found.setdefault(limit.contender, []).append(limit)
    return {name: tuple(sorted(each, key=lambda limit: limit.seq_len)) for name, each in found.items()}


def contender_words(limits: tuple[Limit, ...], names: Mapping[str, str] | None = None) -> str:
    """One sentence on a contender: its limit at the longest sequence, and the range over all its points.

    Args:
        limits: of one contender.
        names: what contenders are called, where not in full.
    """
    longest = max(limits, key=lambda limit: (limit.seq_len, limit.fraction))
    said = f"{(names or {}).get(longest.contender, longest.contender)}: {limit_words(longest)}"
    if len(limits) == 1:
        return said
    low, high = min(each.fraction for each in limits), max(each.fraction for each in limits)
    return f"{said} ({100 * low:.0f} to {rounded_percent(high, 0)} over its {len(limits)} points)"


def limit_dict(limit: Limit) -> dict[str, Any]:
    """A limit for JSON: its fields, what follows from them, and the sentence."""
    follows = {"bound": limit.bound, "roof_gflop_per_s": limit.roof_gflop_per_s, "words": limit_words(limit)}
    return dataclasses.asdict(limit) | follows


def _above(limit: Limit) -> str:
    """Why a call can seem to do more than the machine can; as `profiling.roofline` warns of it."""
    if limit.causal:
        return "a causal call is counted in full, and its program skips the masked half"
    if limit.fraction > IMPOSSIBLE:
        return "it cannot have done the work that is counted"
    if limit.bound == COPY:
        return "its tensors stay in the processor's caches, so that memory does not bind it"
    return "the ceiling was measured too low; measure again on a quiet machine"
