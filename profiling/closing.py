"""What a finished sweep found, in a few lines: speed-ups, what may be claimed of them, and what rows are warned of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling.settings import MIN_REPLICATES_FOR_VERDICT
from profiling.units import format_ratio
from profiling.wording import cut_middle, short_names, workload_words

MAX_ROWS = 16
NAME_WIDTH = 28
# A noise floor above this hides differences that a person would care about.
NOISE_WORTH_TELLING = 0.05
MAX_WARNING = 160

Row = Mapping[str, Any]


def closing_lines(folder: Path) -> list[str]:
    """The summary of the run in a folder; nothing where there is no run that can be read, or nothing was compared."""
    from profiling.runs import RunError
    from profiling.table import load_run

    try:
        table = load_run(folder)
    except RunError:
        return []
    cells = table.astype(object).where(table.notna(), None)
    return summary([{str(name): value for name, value in row.items()} for row in cells.to_dict("records")])


def summary(rows: Sequence[Row]) -> list[str]:
    """A line for each point and compared contender, then what they must be read with.

    Args:
        rows: of the joined table, None where a cell is empty.
    """
    compared = [row for row in rows if row["reference"] is not None and row["status"] != "invalid"]
    if not compared:
        return []
    names = short_names([row["contender"] for row in rows])
    width = max(len(workload_words(row)) for row in compared)
    name_width = min(NAME_WIDTH, max(len(names[row["contender"]]) for row in compared))
    lines = ["speed-up over the reference:"]
    for row in compared[:MAX_ROWS]:
        name = cut_middle(names[row["contender"]], name_width)
        lines.append(f"    {workload_words(row):{width}}  {name:{name_width}}  {_found(row)}")
    if len(compared) > MAX_ROWS:
        lines.append(f"    ... and {len(compared) - MAX_ROWS} more: report.csv")
    if any(row["speed_verdict"] == "provisional" for row in compared):
        lines.append(
            f"provisional: nothing can be claimed below {MIN_REPLICATES_FOR_VERDICT} replicates "
            f"(--replicates {MIN_REPLICATES_FOR_VERDICT})"
        )
    warned = [row["warnings"] for row in rows if row["warnings"]]
    if warned:
        first = warned[0].split("; ")[0]
        first = first if len(first) <= MAX_WARNING else f"{first[: MAX_WARNING - 1]}…"
        rows_warned = "1 row with a warning" if len(warned) == 1 else f"{len(warned)} rows with warnings, the first"
        lines.append(f"{rows_warned}: {first}")
    return lines


def _found(row: Row) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    if row["speedup"] is None:
        return "no speed-up: its reference was not measured"
    told = format_ratio(row["speedup"])
    if row["speedup_low"] is not None and row["speedup_high"] is not None:
        told += f" ({format_ratio(row['speedup_low'])} to {format_ratio(row['speedup_high'])})"
    told += f"  {row['speed_verdict'] or ''}"
    if row["noise_floor"] is not None and row["noise_floor"] > NOISE_WORTH_TELLING:
        told += f", noise floor {row['noise_floor']:.0%}"
    return told
