"""What BASE measured and NEW does not hold at all: nobody asked for it there, or NEW never came so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from profiling.compare.sides import SAME_WORK, Side
from profiling.runs import Run
from profiling.wording import counted

_AXES = ("batch_size", "seq_len", "num_heads", "dtype", "mode", "bias", "causal")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Missing:
    """A contender of which NEW lacks shapes that BASE measured.

    Attributes:
        contender: the layer, as it is called in sentences.
        num_shapes: how many shapes are lacking.
        num_measured: how many BASE measured.
        was_asked_for: whether NEW was to measure them; None where NEW is a report, which does not tell.
        state: of the run that was to measure them; None where none was.
    """

    contender: str
    num_shapes: int
    num_measured: int
    was_asked_for: bool | None
    state: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it was to be measured, could not be, and will not be."""
        return bool(self.was_asked_for) and self.state != "running"

    @property
    def why(self) -> str:
        """Why NEW lacks them, in words."""
        if self.was_asked_for is None:
            return "not in the report that is NEW"
        if not self.was_asked_for:
            return "not asked for in NEW"
        if self.state == "running":
            return "not measured yet: NEW is running"
        return f"asked for in NEW and not measured: NEW is {self.state}"

    @property
    def sentence(self) -> str:
        """What is missing, and why."""
        return f"{self.contender}: {self.num_shapes:,} of {counted(self.num_measured, 'shape')} of BASE {self.why}"


def find_missing(base: Side, new: Side, names: Mapping[str, str]) -> tuple[Missing, ...]:
    """What BASE measured of a contender and NEW holds no row of, a reference's own rows apart: it is the yardstick."""
    measured = base.table[base.table["status"].eq("ok") & base.table["reference"].notna()]
    keys = list(SAME_WORK)
    known = measured.merge(new.table[keys].drop_duplicates(), how="left", on=keys, indicator="found")
    lacking = measured[known["found"].eq("left_only").to_numpy()]
    if lacking.empty:
        return ()
    runs = [side.run for side in new.each if side.run is not None]
    asked = pd.Series([_asking(row, runs) for row in lacking.to_dict("records")], index=lacking.index, dtype=object)
    found = []
    for (contender, state), group in lacking.groupby([lacking["contender"], asked.fillna("")], sort=False):
        was_asked_for = bool(state) if runs else None
        number = int(measured["contender"].eq(str(contender)).sum())
        found.append(
            Missing(
                contender=names[str(contender)],
                num_shapes=len(group),
                num_measured=number,
                was_asked_for=was_asked_for,
                state=str(state) or None,
            )
        )
    return tuple(found)


def _asking(row: Mapping[Any, Any], runs: Sequence[Run]) -> str | None:
    """The state of a run that was to measure a row; None where none was."""
    for run in runs:
        grid = run.grid
        if (
            row["contender"] in run.settings.contenders
            and all(row[axis] in getattr(grid, axis) for axis in _AXES)
            and row["d_model"] == grid.width(int(row["num_heads"]))
            and row["device"] == run.device
        ):
            return run.state
    return None
