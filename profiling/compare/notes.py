"""What a comparison must be read with, in sentences."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import pandas as pd

from profiling.compare.differences import SERIOUS, Difference
from profiling.compare.pooling import same_measurement
from profiling.compare.sides import Side, at_rows
from profiling.runs import Run
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
    return (
        *_same_run(base, new),
        *_edited(base, new, names),
        *_of_rows(rows, differences, names),
        *_of_replicates(base, new, rows),
        *_of_widths(base, new, rows, fail_above),
    )


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


def _of_rows(rows: pd.DataFrame, differences: Sequence[Difference], names: Mapping[str, str]) -> list[str]:
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
    return notes


def _of_replicates(base: Side, new: Side, rows: pd.DataFrame) -> list[str]:
    """How many rows have too few replicates to be judged, and what helps: patience where those to come suffice."""
    judged = rows[~rows["is_yardstick"]]
    provisional = judged[judged["verdict"].eq("provisional")]
    if provisional.empty:
        return []
    told = f"{len(provisional)} of {len(judged)} rows are provisional"
    lacking = {_will_suffice(side.run) for side in (*base.each, *new.each) if _has_few_replicates(side, provisional)}
    if lacking == {True}:
        return [f"{told} as yet: the replicates that their time needs are still being measured"]
    return [
        f"{told}, so their time cannot fail: measure with at least {MIN_REPLICATES_FOR_VERDICT} replicates, "
        "8 to publish"
    ]


def _will_suffice(run: Run | None) -> bool:
    return run is not None and run.state == "running" and run.settings.replicates >= MIN_REPLICATES_FOR_VERDICT


def _has_few_replicates(side: Side, rows: pd.DataFrame) -> bool:
    """Whether a run has too few replicates behind any of the rows that it holds."""
    held = at_rows(side, rows)
    is_relative = rows["measure"].eq("relative").to_numpy()
    numbers = held["speedup_number"].where(is_relative, held["latency_number"])
    return bool((numbers < MIN_REPLICATES_FOR_VERDICT).any())


def _of_widths(base: Side, new: Side, rows: pd.DataFrame, fail_above: float) -> list[str]:
    if any(side.run is not None and side.run.state == "running" for side in (*base.each, *new.each)):
        return []  # they become narrower by themselves
    widths = (rows["change_high_percent"] - rows["change_low_percent"])[rows["measure"].eq("relative")].dropna() / 2
    if widths.empty or float(widths.median()) <= 100 * fail_above:
        return []
    return [
        f"half of the intervals reach more than {float(widths.median()):.1f} % either way, so a slow-down of "
        f"{as_percent(fail_above)} would mostly pass unseen: more replicates, a longer time budget or a quieter machine"
    ]
