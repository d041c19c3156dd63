"""What a finished sweep found, in a few lines: speed-ups, what may be claimed of them, and what rows are warned of."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling.ratios import SMALLEST_CLAIM
from profiling.settings import MIN_REPLICATES_FOR_VERDICT
from profiling.units import format_ratio
from profiling.wording import cut_middle, rounded_percent, short_names, workload_words

MAX_ROWS = 16
WIDTH = 100
NAME_WIDTH = 28
MIN_NAME_WIDTH = 12
MAX_WARNING = 160
# Two replicates may give an interval from nothing to millions: such figures tell nobody anything.
WIDEST_TOLD = 100
WHERE_TO_REPEAT = "each row's command to measure it again: column repeat_command of report.csv"

Row = Mapping[str, Any]


def closing_lines(folder: Path) -> list[str]:
    """The summary of the run in a folder; nothing where there is no run that can be read, or nothing was compared."""
    from profiling.runs import RunError, read_run
    from profiling.table import load_run

    try:
        run, table = read_run(folder), load_run(folder)
    except RunError:
        return []
    cells = table.astype(object).where(table.notna(), None)
    rows = [{str(name): value for name, value in row.items()} for row in cells.to_dict("records")]
    return summary(rows, folder, run.settings.replicates)


def summary(rows: Sequence[Row], folder: Path, replicates: int) -> list[str]:
    """A line for each point and compared contender, then what they must be read with.

    Args:
        rows: of the joined table, None where a cell is empty.
        folder: of the run.
        replicates: how many the run was asked for.
    """
    compared = [row for row in rows if row["reference"] is not None and row["status"] != "invalid"]
    if not compared:
        return []
    lines = ["speed-up over the reference:", *_row_lines(rows, compared[:MAX_ROWS])]
    if len(compared) > MAX_ROWS:
        lines.append(f"    ... and {len(compared) - MAX_ROWS} more: report.csv")
    lines += _unsure_lines(compared)
    lines += _provisional_lines(compared, folder, replicates)
    lines += _warning_lines(rows)
    return [*lines, WHERE_TO_REPEAT]


def _row_lines(rows: Sequence[Row], shown: Sequence[Row]) -> list[str]:
    names = short_names([row["contender"] for row in rows])
    found = [_found(row) for row in shown]
    width = max(len(workload_words(row)) for row in shown)
    left = WIDTH - len("    ") - width - 2 * len("  ") - max(map(len, found))
    name_width = min(NAME_WIDTH, max(MIN_NAME_WIDTH, left), max(len(names[row["contender"]]) for row in shown))
    return [
        f"    {workload_words(row):{width}}  {cut_middle(names[row['contender']], name_width):{name_width}}  {told}"
        for row, told in zip(shown, found, strict=True)
    ]


def _found(row: Row) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    if row["speedup"] is None:
        return "no speed-up: its reference was not measured"
    told = format_ratio(row["speedup"])
    low, high = row["speedup_low"], row["speedup_high"]
    if low is not None and high is not None:
        is_told = high < low * WIDEST_TOLD
        told += f" ({format_ratio(low)} to {format_ratio(high)})" if is_told else " (its interval is too wide to tell)"
    if row["speed_verdict"] is None:
        return f"{told}  {row['speed_verdict_reason'] or ''}".rstrip()
    told += f"  {row['speed_verdict']}"
    # Above this it is the noise that decides what may be claimed.
    if row["noise_floor"] is not None and row["noise_floor"] > SMALLEST_CLAIM:
        told += f", noise {rounded_percent(row['noise_floor'])}"
    return told


def _unsure_lines(compared: Sequence[Row]) -> list[str]:
    """Why rows are unsure: the commonest reason, whatever its numbers are."""
    reasons = [row["speed_verdict_reason"] for row in compared if row["speed_verdict"] == "unsure"]
    if not reasons:
        return []
    kinds = [re.sub(r"[\d.]+", "#", reason) for reason in reasons]
    kind, count = Counter(kinds).most_common(1)[0]
    first = reasons[kinds.index(kind)]
    if len(reasons) == 1:
        return _wrapped(f"unsure: {first}")
    alike = "all alike" if count == len(reasons) else f"{count} of them alike"
    return _wrapped(f"unsure in {len(reasons)} rows, {alike}, the first: {first}")


def _provisional_lines(compared: Sequence[Row], folder: Path, replicates: int) -> list[str]:
    provisional = [row for row in compared if row["speed_verdict"] == "provisional"]
    if not provisional:
        return []
    # A replicate that was lost is not measured again by asking for as many as before.
    missing = max(1, *(MIN_REPLICATES_FOR_VERDICT - row["num_speedups"] for row in provisional))
    command = ["python", "-m", "profiling", "sweep", "--out", str(folder), "--resume"]
    return [
        f"provisional: nothing can be claimed below {MIN_REPLICATES_FOR_VERDICT} replicates; add replicates:",
        f"    {shlex.join([*command, '--replicates', str(replicates + missing)])}",
    ]


def _warning_lines(rows: Sequence[Row]) -> list[str]:
    warned = [row["warnings"] for row in rows if row["warnings"]]
    if not warned:
        return []
    first = warned[0].split("; ")[0]
    first = first if len(first) <= MAX_WARNING else f"{first[: MAX_WARNING - 1]}…"
    rows_warned = "1 row with a warning" if len(warned) == 1 else f"{len(warned)} rows with warnings, the first"
    return _wrapped(f"{rows_warned}: {first}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="    ")
