"""What a comparison must be read with, in sentences."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import pandas as pd

from profiling.compare.differences import SERIOUS, Difference
from profiling.compare.pooling import same_measurement
from profiling.compare.sides import Side
from profiling.settings import MIN_REPLICATES_FOR_VERDICT
from profiling.wording import as_percent


def notes_on(
    base: Side,
    new: Side,
    rows: pd.DataFrame,
    differences: Sequence[Difference],
    fail_above: float,
    names: Mapping[str, str],
) -> tuple[str, ...]:
    """What to know of the sides, of their differences and of the rows, as `profiling.compare.columns` has them."""
    return (*_same_run(base, new), *_edited(base, new, names), *_of_rows(rows, differences, fail_above, names))


def _same_run(base: Side, new: Side) -> list[str]:
    return ["BASE and NEW are the same run"] * same_measurement(base, new)


def _edited(base: Side, new: Side, names: Mapping[str, str]) -> list[str]:
    """Runs of one side between which a layer was edited: their spread is that of two layers."""
    said = []
    for name, side in (("BASE", base), ("NEW", new)):
        sources = pd.concat([each.table[["contender", "source_hash"]] for each in side.each], ignore_index=True)
        numbers = sources.dropna().groupby("contender")["source_hash"].nunique()
        mixed = numbers[numbers > 1].index.tolist()
        if side.several and mixed:
            said.append(
                f"not of the same source in all runs of {name}: {', '.join(names[each] for each in mixed)}. They are "
                "no runs of one layer"
            )
    return said


def machine_sentence(rows: pd.DataFrame) -> str | None:
    """What the references, which are torch's own layers, say of the machine."""
    ratios = rows.loc[rows["is_yardstick"], "latency_ratio"].dropna().tolist()
    if not ratios:
        return None
    mean, low, high = statistics.geometric_mean(ratios), min(ratios), max(ratios)
    return (
        f"the references, torch's own layers, took {mean:.3f} times as long in NEW ({low:.3f} to {high:.3f} over "
        f"{len(ratios)} rows): that is the machine. Relative times are free of it"
    )


def _of_rows(
    rows: pd.DataFrame, differences: Sequence[Difference], fail_above: float, names: Mapping[str, str]
) -> list[str]:
    notes = []
    if any(each.is_serious for each in differences):
        fields = ", ".join(each.field for each in differences if each.is_serious)
        notes.append(f"made in spite of a difference in {fields}: what changed may be that, and not the layer")
    untold = [each.field for each in differences if each.field in SERIOUS and not each.is_serious]
    if untold:
        notes.append(f"one side does not tell its {', '.join(untold)}: whether that is the same nobody knows")
    edited = rows.loc[rows["source_changed"].fillna(False), "contender"].unique().tolist()
    if edited:
        notes.append(f"not of the same source in BASE and NEW: {', '.join(names[each] for each in edited)}")
    judged = rows[~rows["is_yardstick"]]
    num_provisional = int(judged["verdict"].eq("provisional").sum())
    if num_provisional:
        notes.append(
            f"{num_provisional} of {len(judged)} rows are provisional, so their time cannot fail: measure with "
            f"at least {MIN_REPLICATES_FOR_VERDICT} replicates, 8 to publish"
        )
    widths = (rows["change_high_percent"] - rows["change_low_percent"])[rows["measure"].eq("relative")].dropna() / 2
    if len(widths) and float(widths.median()) > 100 * fail_above:
        notes.append(
            f"half of the intervals reach more than {float(widths.median()):.1f} % either way, so a slow-down of "
            f"{as_percent(fail_above)} would mostly pass unseen: more replicates, a longer time budget or a quieter "
            "machine"
        )
    return notes
