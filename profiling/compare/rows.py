"""Joins two sides by workload and contender, and says of each row what changed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from profiling.columns import Column
from profiling.compare.columns import COMPARED_COLUMNS
from profiling.compare.judging import Change, is_time_regression, joint_noise, time_verdict, uncounted
from profiling.compare.run_to_run import Floats, RunToRun, run_to_run
from profiling.compare.sides import SAME_WORK, Side
from profiling.compare.spreads import corrected_level
from profiling.compare.times import Mask, Times, changes, changes_of_medians, floats_of, spreads_at
from profiling.ratios import stray
from profiling.typed_columns import typed

BYTES_PER_MIB = 2**20

# Of BASE and of NEW.
Pair = tuple[str | None, str | None]


def compare_rows(base: Side, new: Side, *, fail_above: float) -> tuple[pd.DataFrame, RunToRun]:
    """The rows that both sides hold, in the order of NEW, with the columns of `COMPARED_COLUMNS`.

    Beside them what is known of the spread of relative times from run to run.
    """
    tables = [side.table.assign(place=np.arange(len(side.table))) for side in (base, new)]
    both = tables[1].merge(tables[0], how="inner", on=list(SAME_WORK), suffixes=("_new", "_base"))
    statuses, checks = _texts(both, "status"), _texts(both, "check_verdict")
    references, sources = _texts(both, "reference"), _texts(both, "source_hash")
    breaks = _texts(both, "broken")
    floors, peaks = _numbers(both, "noise_floor"), _numbers(both, "peak_memory_mib")
    is_measured = _mask(pair == ("ok", "ok") for pair in statuses)
    is_reference = _mask(pair == (None, None) for pair in references)
    shared = [first if first == second else None for first, second in references]

    is_judged = is_measured & ~is_reference & _mask(uncounted(*pair) is None for pair in checks)
    levels, level_all = _levels(both, is_judged)
    pairs = {name: spreads_at(both, base, new, name) for name in ("speedup", "latency")}
    has_both = is_measured & _mask(map(bool, shared))
    spread = run_to_run(pairs["speedup"], has_both & is_judged)
    relative = changes(pairs["speedup"], levels, level_all, spread, is_there=has_both, sign=-1.0)
    if base.has_replicates and new.has_replicates:
        machine_spread = run_to_run(pairs["latency"], is_measured)
        latency = changes(pairs["latency"], levels, level_all, machine_spread, is_there=is_measured)
    else:
        latency = changes_of_medians(both, pairs["latency"], is_there=is_measured)
    machine = _machine_noise(both, latency, is_measured & is_reference)

    cells: list[dict[str, Any]] = []
    for place, (status, check) in enumerate(zip(statuses, checks, strict=True)):
        change = _change(place, relative, latency, floors[place], machine, is_reference=bool(is_reference[place]))
        row = _judged(change, status, check, fail_above=fail_above) | _memory(*peaks[place])
        row |= {"source_changed": _differs(*sources[place]), "reference": shared[place]}
        row |= {"is_yardstick": bool(is_reference[place])}
        broken = _broken(status, check, breaks[place])
        said = [*broken, *_regressions(row, change, fail_above=fail_above)]
        row |= {"is_broken": bool(broken), "is_regression": bool(said), "regression": "; ".join(said) or None}
        cells.append(row)
    found: dict[str, list[Any]] = {name: [row[name] for row in cells] for name in (cells[0] if cells else {})}
    found |= _ratios("latency", latency, sign=1.0) | _ratios("speedup", relative, sign=-1.0)
    # One bad replicate moves a mean by a lot, and the medians that are shown beside it not at all.
    medians = [floats_of(both, f"latency_median_ms_{side}") for side in ("base", "new")]
    found["latency_ratio"] = np.where(is_measured, medians[1] / medians[0], np.nan).tolist()
    found |= {name: both[column].tolist() for name, column in _COPIED.items()}
    rows = pd.DataFrame({column.name: _typed(found, column, len(both)) for column in COMPARED_COLUMNS})
    return rows, spread


_COPIED = {
    **{name: name for name in SAME_WORK},
    **{f"{name}_{side}": f"{name}_{side}" for name in ("point", "status", "speedup") for side in ("base", "new")},
    **{f"check_{side}": f"check_verdict_{side}" for side in ("base", "new")},
    **{f"latency_{side}_ms": f"latency_median_ms_{side}" for side in ("base", "new")},
    **{f"memory_{side}_mib": f"peak_memory_mib_{side}" for side in ("base", "new")},
}


def _levels(both: pd.DataFrame, is_judged: Mask) -> tuple[Floats, float]:
    """The level of each row's interval for the contenders judged at its point together, and that for all rows."""
    work = [name for name in SAME_WORK if name != "contender"]
    at_point = pd.Series(is_judged).groupby([both[name] for name in work], dropna=False).transform("sum")
    return np.array([corrected_level(int(number)) for number in at_point]), corrected_level(int(is_judged.sum()))


def _machine_noise(both: pd.DataFrame, latency: Times, is_reference: Mask) -> float:
    """What a latency has to go beyond: the most that a reference has moved by, and what clones strayed by."""
    moved = [stray(math.exp(log)) for log in latency.logs[is_reference & np.isfinite(latency.logs)]]
    if not moved:
        return math.nan
    floors = [both[f"noise_floor_{side}"].median() for side in ("base", "new")]
    floor = 0.0 if any(pd.isna(each) for each in floors) else joint_noise(float(floors[0]), float(floors[1]))
    return max(*moved, floor)


def _change(
    place: int, relative: Times, latency: Times, floors: tuple[float, float], machine: float, *, is_reference: bool
) -> Change | None:
    """The change that a row's verdict rests on; None where it was not measured on both sides."""
    is_relative = math.isfinite(relative.logs[place])
    times = relative if is_relative else latency
    if not math.isfinite(times.logs[place]):
        return None
    return Change(
        measure="relative" if is_relative else "latency",
        log=float(times.logs[place]),
        half=float(times.halves[place]),
        half_all=float(times.halves_all[place]),
        noise=joint_noise(*floors) if is_relative else machine,
        numbers=(int(times.numbers[0][place]), int(times.numbers[1][place])),
        is_reference=is_reference,
    )


def _judged(change: Change | None, status: Pair, check: Pair, *, fail_above: float) -> dict[str, Any]:
    """The verdict of a row, and the change that it rests on."""
    verdict: str | None
    if change is None:
        verdict, reason = None, _why_no_time(status)
    elif (why := uncounted(*check)) is not None:
        verdict, reason = None, why
    else:
        verdict, reason = time_verdict(change)
        if verdict == "slower" and change.ratio > 1 + fail_above and not is_time_regression(change, fail_above):
            reason += "; among all the rows compared it may still be chance, so it does not count as a regression"
    found = None if change is None else change.interval()
    return {
        "measure": None if change is None else change.measure,
        "change_percent": None if found is None else _percent(found.speedup),
        "change_low_percent": None if found is None else _percent(found.low),
        "change_high_percent": None if found is None else _percent(found.high),
        "noise_percent": None if change is None or change.is_reference else 100 * change.margin,
        "num_replicates": None if found is None else found.num_replicates,
        "verdict": verdict,
        "reason": reason,
    }


def _why_no_time(status: Pair) -> str:
    lost = [f"{each} in {side}" for side, each in zip(("BASE", "NEW"), status, strict=True) if each != "ok"]
    return f"not measured: {' and '.join(lost)}" if lost else "no time was kept"


def _broken(status: Pair, check: Pair, breaks: Pair) -> list[str]:
    """What worked in BASE and no longer does in NEW: it was measured, in all replicates, and it was right."""
    said = []
    if status[0] == "ok" and status[1] != "ok":
        said.append(f"lost: {status[1]} in NEW")
    elif status[0] == "ok" and breaks[0] is None and breaks[1] is not None:
        said.append(f"breaks now and then: {breaks[1]} of NEW")
    if check[0] == "pass" and check[1] not in ("pass", None):
        said.append(f"its check said pass, and says {check[1]}")
    return said


def _regressions(row: dict[str, Any], change: Change | None, *, fail_above: float) -> list[str]:
    """Why a row that works counts as a regression all the same: slower, or in need of more memory."""
    said = []
    if change is not None and row["verdict"] == "slower" and is_time_regression(change, fail_above):
        said.append(f"slower by {row['change_percent']:.1f} %")
    grown = row["memory_change_percent"]
    if grown is not None and grown > 100 * fail_above:
        said.append(f"needs {grown:.1f} % more memory")
    return said


def _memory(base: float, new: float) -> dict[str, Any]:
    """Peaks are exact: whole bytes, the same at every call."""
    if not (math.isfinite(base) and math.isfinite(new)):
        return {"memory_change_bytes": None, "memory_change_percent": None}
    grown = round(new * BYTES_PER_MIB) - round(base * BYTES_PER_MIB)
    share = 100 * grown / (base * BYTES_PER_MIB) if base > 0 else None
    return {"memory_change_bytes": grown, "memory_change_percent": share}


def _differs(base: str | None, new: str | None) -> bool | None:
    return None if base is None or new is None else base != new


def _ratios(quantity: str, times: Times, *, sign: float) -> dict[str, list[float]]:
    """NEW / BASE of a quantity with its interval; `sign` is -1 for a speed-up, whose rise is a fall of time."""
    prefix = "latency" if quantity == "latency" else "speedup_ratio"
    logs = sign * times.logs
    ends = {f"{quantity}_ratio": logs, f"{prefix}_low": logs - times.halves, f"{prefix}_high": logs + times.halves}
    with np.errstate(over="ignore"):  # two replicates may spread over all numbers there are
        values = {name: np.exp(each) for name, each in ends.items()}
    return {name: np.where(np.isinf(each), np.nan, each).tolist() for name, each in values.items()}


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * (ratio - 1)


def _typed(found: dict[str, list[Any]], column: Column, length: int) -> Any:
    values = found.get(column.name, [None] * length)
    return typed([None if value is pd.NA else value for value in values], column.kind)


def _numbers(both: pd.DataFrame, name: str) -> list[tuple[float, float]]:
    """A column of BASE and of NEW, row by row; NaN where it is empty."""
    base, new = (floats_of(both, f"{name}_{side}").tolist() for side in ("base", "new"))
    return list(zip(base, new, strict=True))


def _texts(both: pd.DataFrame, name: str) -> list[Pair]:
    """The same of texts, None where it is empty."""
    base, new = (
        [None if pd.isna(value) else str(value) for value in both[f"{name}_{side}"].tolist()]
        for side in ("base", "new")
    )
    return list(zip(base, new, strict=True))


def _mask(values: Iterable[bool]) -> Mask:
    return np.array(list(values), dtype=np.bool_)
