"""Puts several runs of the same thing together as one side, so that the spread between whole runs is known.

A side is what all of its runs say: a row's time is the mean over those that measured it. What is wrong in one of the
runs of NEW is wrong, and what was right in one of the runs of BASE was right: so that a layer that breaks now and then
does not pass by being measured once more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from profiling.compare.sides import SAME_WORK, CompareError, Side, at_rows
from profiling.joining import VERDICTS
from profiling.typed_columns import typed

# What each run says of a row, None where it does not hold it → what the side says.
Join = Callable[[list[Any]], Any]


def pool(runs: Sequence[Side], *, is_new: bool) -> Side:
    """One side of one run or more.

    Args:
        runs: as `profiling.compare.sides.read_side` gives them, at least one.
        is_new: whether they are NEW, where the worst of them speaks, or BASE, where the best does.

    Raises:
        CompareError: a run is given twice, which would show no spread.
    """
    first, *others = runs
    if not others:
        return first
    _require_different(runs, "NEW" if is_new else "BASE")
    everything = pd.concat([side.table for side in runs], ignore_index=True)
    table = everything.drop_duplicates(list(SAME_WORK)).reset_index(drop=True)
    held = [at_rows(side, table) for side in runs]
    for name, join in _joins(is_new=is_new).items():
        columns = [each[name].astype(object).where(each[name].notna(), None).tolist() for each in held]
        kind = "text" if str(table[name].dtype) == "string" else "float"
        table[name] = typed(
            [join([cell for cell in cells if cell is not None]) for cells in zip(*columns, strict=True)], kind
        )
    # The place in the grid of a run says nothing in another's.
    table["point"] = held[0]["point"]
    return Side(
        label=", ".join(side.label for side in runs),
        path=first.path,
        run=first.run,
        table=table,
        problems=tuple(problem for side in runs for problem in side.problems),
        several=tuple(runs),
    )


def _joins(*, is_new: bool) -> dict[str, Join]:
    return {
        "status": _worst_status if is_new else _best_status,
        "check_verdict": lambda said: _first_of(VERDICTS if is_new else VERDICTS[::-1], said),
        "broken": _joined if is_new else lambda _: None,
        "reference": _joined,
        "source_hash": _joined,
        "latency_median_ms": _geometric_mean,
        "speedup": _geometric_mean,
        "noise_floor": _root_mean_square,
        "peak_memory_mib": lambda said: max(said, default=None),
    }


def require_apart(base: Side, new: Side) -> None:
    """Requires that no run stands on both sides where one of them is several.

    Such a run moves both sides alike, and lets them seem less far apart, and runs less different, than they are. A run
    that is compared with itself alone hides nothing.

    Raises:
        CompareError: one does.
    """
    if not (base.several or new.several):
        return
    for before, now in itertools.product(base.each, new.each):
        if same_measurement(before, now):
            which = _told_together(before.label, now.label)
            raise CompareError(f"BASE and NEW must share no run where one of them is several, not {which}")


def same_measurement(first: Side, second: Side) -> bool:
    """Whether two runs are one, be it as a folder and as a report of it."""
    if first.path.resolve() == second.path.resolve():
        return True  # a report of old tells neither of its run nor of the time
    ids, moments = ([set(side.table[name].dropna()) for side in (first, second)] for name in ("run_id", "measured_at"))
    return ids[0] == ids[1] and bool(moments[0] & moments[1])


def _require_different(runs: Sequence[Side], name: str) -> None:
    for place, side in enumerate(runs):
        for other in runs[:place]:
            if same_measurement(side, other):
                raise CompareError(f"{name} must be different runs, not {_told_together(other.label, side.label)}")


def _told_together(first: str, second: str) -> str:
    return f"{first} twice" if first == second else f"{first} and {second}, which are one"


def _worst_status(said: list[str]) -> str | None:
    return next((status for status in said if status != "ok"), next(iter(said), None))


def _best_status(said: list[str]) -> str | None:
    return "ok" if "ok" in said else next(iter(said), None)


def _first_of(order: Sequence[str], said: list[str]) -> str | None:
    return next((verdict for verdict in order if verdict in said), next(iter(said), None))


def _joined(said: Iterable[str]) -> str | None:
    return ", ".join(sorted(set(said))) or None


def _geometric_mean(said: list[float]) -> float | None:
    usable = [value for value in said if value > 0]
    return math.exp(float(np.mean(np.log(usable)))) if usable else None


def _root_mean_square(said: list[float]) -> float | None:
    return math.expm1(math.sqrt(float(np.mean(np.log1p(said) ** 2)))) if said else None
