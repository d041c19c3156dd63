"""Joins the replicates of a run: one row per workload × contender.

Column by column, since there may be 100,000 rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from profiling.ratios import Joined, join_replicates, speed_verdict
from profiling.typed_columns import typed

# The middle of the replicates; counts are added up, and the rest is told apart below.
MEDIANS = (
    *("latency_median_ms", "latency_p25_ms", "latency_p75_ms", "latency_p5_ms", "latency_p95_ms"),
    *("throughput_tokens_per_s", "achieved_gflop_per_s", "page_faults_per_call", "clock_mhz", "compile_s"),
)
SUMS = ("num_samples", "waited_s")
# An error or a peak that was seen once is a fact: the worst replicate speaks.
WORST = ("peak_memory_mib", "max_abs_error", "max_abs_error_oracle", "error_ratio", "load_start", "load_end")
# Worst first: the verdict of several replicates is that of the worst.
VERDICTS = ("error", "fail", "not-comparable", "pass")
FAILED = ("error", "fail")

RATIO_COLUMNS = {
    "speedup": "float",
    "speedup_low": "float",
    "speedup_high": "float",
    "num_speedups": "int",
    "speed_verdict": "text",
    "speed_verdict_reason": "text",
    "clone_speedup": "float",
    "noise_floor": "float",
}


def join(rows: pd.DataFrame, num_compared: int) -> pd.DataFrame:
    """One row per point × contender, in the order in which each was seen first, with the columns that joining adds.

    What the replicates agree on, or what only one of them can say, is that of the last one that was measured; where
    none was, of the first one.

    Args:
        rows: as measured, one per replicate × point × contender.
        num_compared: how many contenders of a point are compared with another.
    """
    group = rows.groupby(["point", "contender"], sort=False).ngroup().rename("group")
    is_measured = rows["status"] == "ok"
    last_measured = group[is_measured].drop_duplicates(keep="last")
    never = ~group.isin(last_measured)
    first_lost = group[never].drop_duplicates()
    speaking = pd.concat([last_measured, first_lost]).sort_values()
    table = rows.loc[speaking.index].set_index(pd.Index(speaking, name="group"))

    measured = rows[is_measured].groupby(group[is_measured], sort=True)
    places = table.index.isin(last_measured)

    def put(name: str, values: pd.Series[Any]) -> None:
        table[name] = table[name].where(~places, values.reindex(table.index).astype(table[name].dtype))

    for names, how in ((MEDIANS, "median"), (WORST, "max")):
        for name in names:
            put(name, measured[name].agg(how))
    for name in SUMS:
        put(name, measured[name].sum(min_count=1))
    put("check_verdict", _worst_verdicts(rows[is_measured], group[is_measured]))
    table["num_replicates"] = measured.size().reindex(table.index).astype("Int64")
    _put_ratios(table, rows[is_measured], group[is_measured], num_compared)
    _put_warnings(table, rows, group)
    return table.reset_index(drop=True)


def _worst_verdicts(measured: pd.DataFrame, group: pd.Series[Any]) -> pd.Series[Any]:
    rank = measured["check_verdict"].map({verdict: place for place, verdict in enumerate(VERDICTS)}).astype("Float64")
    worst = rank.groupby(group).min()
    return worst.map(dict(enumerate(VERDICTS))).astype("string")


def _put_ratios(table: pd.DataFrame, measured: pd.DataFrame, group: pd.Series[Any], num_compared: int) -> None:
    """Puts the speed-ups over the replicates into the rows that have one; the others have neither claim nor reason."""
    for name, kind in RATIO_COLUMNS.items():
        if name not in table:
            table[name] = typed([None] * len(table), kind)
    has_any = measured["speedup"].notna()
    has_ratio = has_any & (measured["speedup"] > 0) & (measured["speedup"] < math.inf)
    # A clone counts in the replicates that have a speed-up.
    compared = measured.loc[has_any, ["speedup", "clone_speedup"]].assign(group=group[has_any], usable=has_ratio)
    kept_floor = measured["noise_floor"].groupby(group).median()
    is_single = ~compared["group"].duplicated(keep=False)
    singles = compared[is_single & compared["usable"]].set_index("group")
    parts = [
        _of_one_replicate(singles, table["check_verdict"], kept_floor),
        _of_several(compared[~is_single], table["check_verdict"], kept_floor, num_compared),
    ]
    found = pd.concat([part for part in parts if len(part)] or parts[:1])
    is_there = table.index.isin(found.index)
    for name in RATIO_COLUMNS:
        table[name] = table[name].where(~is_there, found[name].reindex(table.index))


def _of_one_replicate(rows: pd.DataFrame, verdicts: pd.Series[Any], kept_floor: pd.Series[Any]) -> pd.DataFrame:
    """The columns of groups with one speed-up, all at once: in a run of one replicate that is every one of them."""
    no_claim = _ratio_cells(join_replicates([1.0]), None, pd.NA)
    clone = rows["clone_speedup"].where((rows["clone_speedup"] > 0) & (rows["clone_speedup"] < math.inf))
    checked = verdicts.reindex(rows.index)
    reasons = checked.map({verdict: _uncounted(verdict) for verdict in FAILED}).astype("string")
    cells = {
        "speedup": rows["speedup"],
        "num_speedups": no_claim["num_speedups"],
        "speed_verdict": reasons.isna().map({True: no_claim["speed_verdict"], False: pd.NA}),
        "speed_verdict_reason": reasons.fillna(no_claim["speed_verdict_reason"]),
        "clone_speedup": clone,
        "noise_floor": _strays(clone).fillna(kept_floor.reindex(rows.index)),
    }
    return _ratio_columns(pd.DataFrame(cells, index=rows.index, columns=list(RATIO_COLUMNS)))


def _of_several(
    rows: pd.DataFrame, verdicts: pd.Series[Any], kept_floor: pd.Series[Any], num_compared: int
) -> pd.DataFrame:
    clones = _lists(rows["group"], rows["clone_speedup"])
    checked = verdicts[verdicts.index.isin(rows["group"])].to_dict()
    found: dict[int, dict[str, Any]] = {}
    for number, speedups in _lists(rows.loc[rows["usable"], "group"], rows.loc[rows["usable"], "speedup"]).items():
        joined = join_replicates(speedups, num_compared)
        clone = _joined_clone(clones.get(number, []))
        found[number] = cells = _ratio_cells(joined, clone, checked[number])
        if clone is None:  # a run of before schema version 2, which kept the size of its stray alone
            cells["noise_floor"] = kept_floor[number]
    by_column = {name: [cells[name] for cells in found.values()] for name in RATIO_COLUMNS}
    return _ratio_columns(pd.DataFrame(by_column, index=pd.Index(found, name="group"), dtype=object))


def _ratio_columns(cells: pd.DataFrame) -> pd.DataFrame:
    return cells.assign(**{name: typed(cells[name].tolist(), kind) for name, kind in RATIO_COLUMNS.items()})


def _strays(ratios: pd.Series[Any]) -> pd.Series[Any]:
    """`ratios.stray`, of a column."""
    with np.errstate(over="ignore"):  # infinite then, as there
        values = np.exp(np.abs(np.log(ratios.to_numpy(dtype=np.float64, na_value=np.nan)))) - 1
    return pd.Series(typed(values.tolist(), "float"), index=ratios.index)


def _ratio_cells(joined: Joined, clone: Joined | None, check_verdict: Any) -> dict[str, Any]:
    verdict: str | None
    verdict, reason = speed_verdict(joined, clone)
    if not pd.isna(check_verdict) and check_verdict in FAILED:
        verdict, reason = None, _uncounted(check_verdict)
    return {
        "speedup": joined.speedup,
        "speedup_low": joined.low,
        "speedup_high": joined.high,
        "num_speedups": joined.num_replicates,
        "speed_verdict": verdict,
        "speed_verdict_reason": reason,
        "clone_speedup": None if clone is None else clone.speedup,
        "noise_floor": None if clone is None else clone.stray,
    }


def _uncounted(check_verdict: str) -> str:
    return f"does not count: its check says {check_verdict}"


def _joined_clone(ratios: Sequence[float]) -> Joined | None:
    """The clone over the replicates, an interval for itself: it is the control, not one of those that are compared."""
    usable = [ratio for ratio in ratios if 0 < ratio < math.inf]
    return join_replicates(usable, 1) if usable else None


def _lists(group: pd.Series[Any], values: pd.Series[Any]) -> dict[int, list[float]]:
    """Group → its values in order, without those that are missing."""
    lists: dict[int, list[float]] = {}
    is_there = values.notna()
    for number, value in zip(group[is_there].tolist(), values[is_there].tolist(), strict=True):
        lists.setdefault(number, []).append(value)
    return lists


def _put_warnings(table: pd.DataFrame, rows: pd.DataFrame, group: pd.Series[Any]) -> None:
    """Puts together what the replicates warn of, and which of them are missing, in each row that has been measured."""
    is_measured = rows["status"] == "ok"
    num_all = group.value_counts()
    num_measured = group[is_measured].value_counts()
    lost_some = set(num_measured.index[num_measured < num_all.reindex(num_measured.index)])
    warned = set(group[is_measured & rows["warnings"].notna()])
    concerned = sorted((lost_some | warned) & set(num_measured.index))
    if not concerned:
        return
    is_concerned = group.isin(concerned)
    of_group = _cells_by_group(rows.loc[is_concerned], group[is_concerned])
    texts = {number: "; ".join(_warnings(of_group[number])) or None for number in concerned}
    said = pd.Series(pd.array(list(texts.values()), dtype="string"), index=list(texts))
    is_there = table.index.isin(said.index)
    table["warnings"] = table["warnings"].where(~is_there, said.reindex(table.index))


def _cells_by_group(rows: pd.DataFrame, group: pd.Series[Any]) -> dict[int, list[tuple[Any, ...]]]:
    """Group → what warnings are made of, a tuple for each of its rows: a table each would take a hundred times that."""
    cells = zip(*(rows[name].tolist() for name in ("replicate", "status", "status_reason", "warnings")), strict=True)
    found: dict[int, list[tuple[Any, ...]]] = {}
    for number, row in zip(group.tolist(), cells, strict=True):
        found.setdefault(number, []).append(row)
    return found


def _warnings(rows: list[tuple[Any, ...]]) -> list[str]:
    """The warnings of a group, from its replicate, status, reason and warnings in each of its rows."""
    measured = [(replicate, texts) for replicate, status, _, texts in rows if status == "ok"]
    said = _said_by_replicate(measured)
    lost = [(status, reason) for _, status, reason, _ in rows if status != "ok"]
    if lost:
        status, reason = lost[0]
        why = status if pd.isna(reason) else f"{status}, {reason}"
        said.append(f"{len(lost)} of {len(rows)} replicates not measured: {why}")
    return said


def _said_by_replicate(measured: list[tuple[Any, Any]]) -> list[str]:
    """Each warning once, and in which replicates it was said where not in all: the joined figures may be better."""
    saying: dict[str, list[int]] = {}
    for number, texts in measured:
        for text in [] if pd.isna(texts) else str(texts).split("; "):
            saying.setdefault(text, []).append(int(number))
    return [
        text if len(numbers) == len(measured) else f"{text} (replicate {', '.join(map(str, numbers))})"
        for text, numbers in saying.items()
    ]
