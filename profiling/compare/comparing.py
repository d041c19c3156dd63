"""Compares two sides: one result that holds everything told, for a command line, a page or a test."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from profiling.compare.columns import VERDICTS
from profiling.compare.coverage import Geomean, coverage, geomeans
from profiling.compare.differences import Difference, find_differences
from profiling.compare.missing import Missing, find_missing
from profiling.compare.notes import machine_sentence, notes_on
from profiling.compare.pooling import pool, require_apart
from profiling.compare.rows import compare_rows
from profiling.compare.run_to_run import RunToRun
from profiling.compare.sides import CompareError, Side, read_side
from profiling.quoted import quoted
from profiling.wording import short_names

# Of contenders, what each is called.
Naming = Callable[[Sequence[str]], Mapping[str, str]]

FAIL_ABOVE = 0.05
# Beyond ten times as slow nobody means a threshold.
_MAX_SHARE = 10.0
_SHARE = re.compile(r"([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})\s*(%?)")


class ComparisonRefused(CompareError):
    """Two sides that differ in what forbids a comparison, which was not asked for all the same."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        serious = "; ".join(each.sentence for each in self.differences if each.is_serious)
        super().__init__(
            f"BASE and NEW were not measured alike, so no difference would be one of the layers: {serious}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """What changed from BASE to NEW.

    Attributes:
        base: BASE.
        new: NEW.
        names: what each contender of either side is called in all sentences.
        fail_above: the share above which a change that is beyond noise counts as a regression.
        rows: one per workload × contender that both hold: `profiling.compare.columns.COMPARED_COLUMNS`.
        differences: the fields of the environment and the settings that differ, the serious ones first.
        coverage: how much was compared, in sentences.
        missing: what BASE measured and NEW does not hold, by contender.
        run_to_run: what is known of how far whole runs differ by themselves.
        geomeans: by contender and measure.
        machine: how the references' own latency changed, in a sentence; None where they have none in common.
        notes: what the result must be read with, in sentences.
        problems: what of the files could not be read, in sentences.
    """

    base: Side
    new: Side
    names: Mapping[str, str]
    fail_above: float
    rows: pd.DataFrame
    differences: tuple[Difference, ...]
    coverage: tuple[str, ...]
    missing: tuple[Missing, ...]
    run_to_run: RunToRun
    geomeans: tuple[Geomean, ...]
    machine: str | None
    notes: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def is_marked(self) -> bool:
        """Whether it was made in spite of a difference that forbids it."""
        return any(each.is_serious for each in self.differences)

    @property
    def regressions(self) -> pd.DataFrame:
        """The rows that count as one."""
        return self.rows[self.rows["is_regression"]]

    @property
    def broken(self) -> pd.DataFrame:
        """The regressions that worked in BASE and no longer do."""
        return self.rows[self.rows["is_broken"]]

    @property
    def num_runs(self) -> tuple[int, int]:
        """How many runs BASE and NEW are made of."""
        return len(self.base.each), len(self.new.each)

    def is_failure(self, *, require_all: bool = False) -> bool:
        """Whether the answer is no: a regression, or something of BASE that could not be measured in NEW.

        Args:
            require_all: whether it is no as well where NEW was not asked for all that BASE measured.
        """
        return bool(len(self.regressions)) or any(each.is_failure or require_all for each in self.missing)

    @property
    def verdicts(self) -> dict[str, int]:
        """How many rows have each verdict on time; those of yardsticks judge the machine, and do not count."""
        found = self.rows.loc[~self.rows["is_yardstick"], "verdict"].value_counts()
        return {verdict: int(found.get(verdict, 0)) for verdict in VERDICTS}

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON; a number that was not measured is null."""
        cells = self.rows.astype(object).where(self.rows.notna(), None)
        return {
            "base": self.base.title,
            "new": self.new.title,
            "fail_above": self.fail_above,
            "is_marked": self.is_marked,
            "num_regressions": len(self.regressions),
            "num_broken": len(self.broken),
            "verdicts": self.verdicts,
            "coverage": list(self.coverage),
            "missing": [
                dataclasses.asdict(each) | {"is_failure": each.is_failure, "why": each.why} for each in self.missing
            ],
            "run_to_run": self.run_to_run.to_dict(self.num_runs),
            "machine": self.machine,
            "notes": list(self.notes),
            "problems": list(self.problems),
            "differences": [dataclasses.asdict(each) | {"is_serious": each.is_serious} for each in self.differences],
            "geomeans": [dataclasses.asdict(each) for each in self.geomeans],
            "rows": cells.to_dict("records"),
        }


def compare_runs(
    base: str | Path,
    new: str | Path,
    *,
    base_also: Sequence[str | Path] = (),
    new_also: Sequence[str | Path] = (),
    contenders: Sequence[str] = (),
    fail_above: float = FAIL_ABOVE,
    anyway: bool = False,
    results: Path | None = None,
) -> Comparison:
    """Compares two runs, or a run and a baseline file.

    Args:
        base: what was before: a run's folder, its id or name under results/, or a report as `export` writes it.
        new: what is now, given likewise.
        base_also: further runs of BASE, given likewise: so that the spread between whole runs is known.
        new_also: further runs of NEW.
        contenders: those to compare; all of them where there is none.
        fail_above: the share above which a change that is beyond noise counts as a regression: 0.05 for 5 %.
        anyway: compare also where the device, torch, the threads or the heap differ; the result is marked.
        results: where ids and names are looked for; `results_dir()` unless told otherwise.

    Raises:
        ComparisonRefused: they were not measured alike.
        CompareError: there is nothing to compare, or a run is given twice where a side is several.
        RunError: a side cannot be read.
    """
    sides = [[read_side(each, results) for each in given] for given in ((base, *base_also), (new, *new_also))]
    return compare_sides(
        pool(sides[0], is_new=False),
        pool(sides[1], is_new=True),
        contenders=contenders,
        fail_above=fail_above,
        anyway=anyway,
    )


def compare_sides(
    base: Side,
    new: Side,
    *,
    contenders: Sequence[str] = (),
    fail_above: float = FAIL_ABOVE,
    anyway: bool = False,
    naming: Naming = short_names,
) -> Comparison:
    """The same for two sides that have been read, with contenders called as `naming` says."""
    require_apart(base, new)
    differences = find_differences(base, new)
    if not anyway and any(each.is_serious for each in differences):
        raise ComparisonRefused(differences)
    wanted = _wanted(base, new, contenders)
    whole, spread = compare_rows(base, new, fail_above=fail_above)
    rows = whole if wanted is None else whole[whole["contender"].isin(wanted)].reset_index(drop=True)
    if rows.empty:
        raise CompareError(f"nothing to compare: {base.label} and {new.label} have no workload and contender in common")
    kept = [side if wanted is None else _of(side, wanted) for side in (base, new)]
    names = naming(_contenders(base, new))
    covered = coverage(kept[0], kept[1], rows, names)
    is_compared = rows["status_base"].eq("ok") & rows["status_new"].eq("ok")
    if not (is_compared | rows["is_regression"]).any():
        raise CompareError(f"nothing to compare: no row was measured on both sides: {'; '.join(covered)}")
    return Comparison(
        base=base,
        new=new,
        names=names,
        fail_above=fail_above,
        rows=rows,
        differences=differences,
        coverage=covered,
        missing=find_missing(kept[0], kept[1], names),
        run_to_run=spread,
        geomeans=geomeans(rows),
        machine=machine_sentence(whole),
        notes=notes_on(base, new, rows, differences, fail_above, names),
        problems=(
            *(f"BASE: {problem}" for problem in base.problems),
            *(f"NEW: {problem}" for problem in new.problems),
        ),
    )


def parse_share(text: str) -> float:
    """The share that `5%` or `0.05` names.

    Raises:
        CompareError: it is none; a bare number above 1 could be meant either way.
    """
    found = _SHARE.fullmatch(text.strip())
    share = math.nan if found is None else float(found[1]) / (100 if found[3] else 1)
    if not 0 <= share <= (_MAX_SHARE if found is not None and found[3] else 1.0):
        raise CompareError(f"fail_above must be a share such as 5% or 0.05, not {quoted(text)}")
    return share


def _wanted(base: Side, new: Side, contenders: Sequence[str]) -> set[str] | None:
    """The contenders asked for, by name or by the end of it that tells it from others; None for all."""
    if not contenders:
        return None
    known = _contenders(base, new)
    ends = {end: name for name, end in short_names(known).items()} | {name: name for name in known}
    for name in contenders:
        if name not in ends:
            raise CompareError(f"contender must be one of {', '.join(known)}, not {quoted(name)}")
    return {ends[name] for name in contenders}


def _contenders(base: Side, new: Side) -> list[str]:
    return list(dict.fromkeys([*base.table["contender"].tolist(), *new.table["contender"].tolist()]))


def _of(side: Side, contenders: set[str]) -> Side:
    return dataclasses.replace(side, table=side.table[side.table["contender"].isin(contenders)])
