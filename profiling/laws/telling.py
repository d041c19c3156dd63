"""Which rows of a big run tell the most of how its layers grow, and how near they come to the machine's limits."""

from __future__ import annotations

import pandas as pd

from profiling.laws.growth import AXES, Law, laws_of

# Of more rows than this a chart and a list are of the telling ones alone.
MOST_ROWS = 400


def telling_rows(table: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The rows along one axis where the others are at their largest: there a layer does most and waits least."""
    for other in AXES:
        if other != axis and not table.empty:
            table = table[table[other] == table[other].max()]
    return table


def telling_laws(table: pd.DataFrame, replicates: pd.DataFrame | None = None) -> list[Law]:
    """The laws of those rows, along each axis that a run varies.

    Args:
        table: as `profiling.table.load_run` gives it.
        replicates: the run's rows as measured, by which it is known how exact the times are.
    """
    return [law for axis in AXES for law in laws_of(telling_rows(table, axis), [axis], replicates=replicates)]


def readable_rows(table: pd.DataFrame) -> pd.DataFrame:
    """All rows of a run, or those along seq_len that tell the most where a chart of all could not be read."""
    return table if len(table) <= MOST_ROWS else telling_rows(table, "seq_len")
