"""One row of a run's table, with what is needed to measure it again: its workload, its reference's row, its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling.kept_sources import find_source
from profiling.layers import LayerFile, inner_of, is_layer
from profiling.quoted import quoted
from profiling.repeat import point_of, repeat_command
from profiling.runs import Run, RunError, read_run
from profiling.settings import OFFICIAL
from profiling.sources import NoSource, Source, is_unchanged
from profiling.wording import one_line
from profiling.workload import GridError, Workload

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class MeasuredPoint:
    """A row (None in its empty cells) and the run that it is of.

    `reference_row` is that of what it is compared with; None where there is none.
    """

    folder: Path
    run: Run
    row: Row
    reference_row: Row | None
    workload: Workload

    @property
    def contender(self) -> str:
        """The layer, by name."""
        return str(self.row["contender"])

    @property
    def reference(self) -> str | None:
        """What it is compared with; None for a reference."""
        found = self.row["reference"]
        return None if found is None else str(found)

    @property
    def layer(self) -> LayerFile | None:
        """Where a layer of one's own lay when it was measured; None for one of ours or torch's."""
        return self.run.settings.layer_files().get(self.contender)

    @property
    def is_torchs(self) -> bool:
        """Whether the layer is torch's own: then torch's version is its source."""
        return inner_of(self.contender) in OFFICIAL

    @property
    def is_unchanged(self) -> bool:
        """Whether a layer of one's own still is what was measured; True for any other."""
        return self.layer is None or is_unchanged(self.layer, self.row["source_hash"])

    @property
    def command(self) -> str:
        """The line that measures it again."""
        return repeat_command(self.workload, self.contender, self.reference, self.run.settings)

    def source(self) -> Source:
        """The source that the row came from.

        Raises:
            NoSource: it is nowhere any more, or is torch's own.
        """
        if self.is_torchs:
            version = one_line(str(self.run.environment.get("torch_version") or "of an unknown version"), 60)
            raise NoSource(f"{self.contender} is torch's own layer: its source is that of torch {version}")
        return find_source(self.folder, str(self.row["source_hash"] or ""), self.layer)


def find_point(folder: Path, point: int, contender: str) -> MeasuredPoint:
    """The row of a contender at a point of a run's grid, counted from 1.

    Args:
        folder: of the run.
        point: as in the table's column.
        contender: its name as in the table; of a layer of one's own the end of it is enough, where one alone ends so.

    Raises:
        RunError: the run cannot be read, or has no such row.
    """
    from profiling.table import load_run

    run, table = read_run(folder), load_run(folder)
    here = table[table["point"] == point]
    if here.empty:
        last = int(table["point"].max()) if len(table) else 0
        raise RunError(f"run {run.run_id} has no point {point}: it has rows of points up to {last}")
    return point_among(folder, run, here, contender)


def point_among(folder: Path, run: Run, here: pd.DataFrame, contender: str) -> MeasuredPoint:
    """The same where the rows of the point are at hand, as `profiling.table.load_run` gives them; raises as well."""
    rows = here.astype(object).where(here.notna(), None).to_dict("records")
    names = [str(row["contender"]) for row in rows]
    name = _named(contender, names)
    of = {str(row["contender"]): {str(key): value for key, value in row.items()} for row in rows}
    row = of[name]
    try:
        workload = Workload.from_dict({field: row[field] for field in Workload.__dataclass_fields__})
        point_of(workload)
    except GridError as error:
        raise RunError(f"the row cannot be measured again, for it was edited: {error}") from None
    if workload.invalid_reason:
        raise RunError(f"there is nothing to measure again: {workload.invalid_reason}")
    if is_layer(name) and not run.settings.layers.get(name, "\n").isprintable():
        raise RunError(f"run {run.run_id} does not say where {quoted(name)} lay")
    return MeasuredPoint(folder, run, row, of.get(str(row["reference"])), workload)


def _named(contender: str, names: list[str]) -> str:
    if contender in names:
        return contender
    ending = [name for name in names if is_layer(name) and name.endswith((f"/{contender}", f":{contender}"))]
    if len(ending) == 1:
        return ending[0]
    raise RunError(f"contender must be one of those at this point, {', '.join(names)}, not {quoted(contender)}")
