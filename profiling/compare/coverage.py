"""How much of two sides was compared, in sentences, and what became of it in the mean."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Mapping

import pandas as pd

from profiling.compare.sides import SAME_WORK, Side
from profiling.wording import counted, measured_words

WORK = [name for name in SAME_WORK if name != "contender"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geomean:
    """The geometric mean of the changes of a contender's time over its common, measured, passing shapes.

    Attributes:
        contender: the layer, by name.
        measure: `relative` or `latency`.
        ratio: time in NEW over time in BASE: above 1 is slower.
        num_shapes: how many shapes it is of.
    """

    contender: str
    measure: str
    ratio: float
    num_shapes: int


def geomeans(rows: pd.DataFrame) -> tuple[Geomean, ...]:
    """Of each contender: its relative time where it has one, and its latency; a shape that failed is left out.

    Args:
        rows: of a comparison, as `profiling.compare.columns` has them.
    """
    # A reference has no check: it is what others are checked against.
    passes = rows["check_base"].fillna("pass").eq("pass") & rows["check_new"].fillna("pass").eq("pass")
    counted = rows[passes & rows["latency_ratio"].notna()]
    found = []
    for contender, group in counted.groupby("contender", sort=False):
        speedups = group["speedup_ratio"].dropna().tolist()
        measures = {"relative": [1 / ratio for ratio in speedups], "latency": group["latency_ratio"].tolist()}
        found += [
            Geomean(
                contender=str(contender), measure=measure, ratio=statistics.geometric_mean(each), num_shapes=len(each)
            )
            for measure, each in measures.items()
            if each
        ]
    return tuple(found)


def coverage(base: Side, new: Side, rows: pd.DataFrame, names: Mapping[str, str]) -> tuple[str, ...]:
    """What was compared, what not and why, in sentences, contenders of which the same is to be told together."""
    told: dict[str, list[str]] = {}
    for contender, group in rows.groupby("contender", sort=False):
        told.setdefault(_of_contender(group), []).append(str(contender))
    said = [f"{', '.join(names[name] for name in alike)}: {sentence}" for sentence, alike in told.items()]
    return (*said, *_only_on_a_side(base, new, names), *_unfinished(base, new))


def _of_contender(rows: pd.DataFrame) -> str:
    """`21 of 24 shapes compared; 3: oom in NEW`."""
    lost = Counter(
        reason for pair in zip(rows["status_base"], rows["status_new"], strict=True) if (reason := _lost(*pair))
    )
    number = len(rows) - lost.total()
    whole = f"{number} of {counted(len(rows), 'shape')} compared"
    return "; ".join([whole, *(f"{count}: {reason}" for reason, count in lost.items())])


def _lost(base: str, new: str) -> str | None:
    if base == new == "ok":
        return None
    if base == new:
        return f"{base} in both"
    return " and ".join(f"{status} in {side}" for side, status in (("BASE", base), ("NEW", new)) if status != "ok")


def _only_on_a_side(base: Side, new: Side, names: Mapping[str, str]) -> list[str]:
    said = []
    for name, columns in (("shape", WORK), ("contender", ["contender"])):
        in_base, in_new = (set(map(tuple, side.table[columns].astype(str).to_numpy())) for side in (base, new))
        alone = [("BASE", in_base - in_new), ("NEW", in_new - in_base)]
        parts = [
            f"{len(only) if place else counted(len(only), name)} only in {side}{_named(name, only, names)}"
            for place, (side, only) in enumerate(each for each in alone if each[1])
        ]
        said += [", ".join(parts)] if parts else []
    return said


def _named(what: str, only: set[tuple[str, ...]], names: Mapping[str, str]) -> str:
    if what == "shape":
        return ""
    told = sorted(names[name] for (name,) in only)
    return f" ({', '.join(told[:3])}{', …' if len(told) > 3 else ''})"


def _unfinished(base: Side, new: Side) -> list[str]:
    return [
        f"{name if not side.several else f'{each.label} of {name}'} is {each.run.state}: "
        + measured_words(each.run.progress.done, each.run.progress.total, each.run.settings.replicates)
        for name, side in (("BASE", base), ("NEW", new))
        for each in side.each
        if each.run is not None and each.run.state != "finished"
    ]
