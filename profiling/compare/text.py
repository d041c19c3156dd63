"""A comparison in words for a terminal: the worst rows as a table, and the sentences that go with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from profiling.compare.columns import VERDICTS
from profiling.compare.comparing import Comparison
from profiling.compare.missing import Missing
from profiling.units import format_mib, format_time
from profiling.wording import as_percent, counted, cut_middle, one_line, workload_words

MAX_ROWS = 20
NAME_WIDTH = 28
# Two replicates may give an interval up to millions of per cent: such figures tell nobody anything.
_WIDEST_TOLD = 10_000
_COLORS = {"slower": "red", "faster": "green", "unsure": "yellow", "provisional": "yellow"}

Row = Mapping[str, Any]


def worst_first(comparison: Comparison) -> list[dict[str, Any]]:
    """The rows with None in place of what is empty: regressions first, yardsticks last, by verdict, then by change."""
    cells = comparison.rows.astype(object).where(comparison.rows.notna(), None)
    rows = [{str(name): value for name, value in row.items()} for row in cells.to_dict("records")]
    place = {verdict: number for number, verdict in enumerate(VERDICTS)}

    def order(row: Row) -> tuple[bool, bool, int, float]:
        change = row["change_percent"]
        # What cannot be judged has no place among the better ones.
        return (
            not row["is_regression"],
            row["is_yardstick"],
            place.get(row["verdict"], -1),
            -(change if change is not None else 0.0),
        )

    return sorted(rows, key=order)


def table_of(rows: Sequence[Row], names: Mapping[str, str]) -> Table:
    """The rows as a table, with contenders by their names."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("workload", "contender"):
        table.add_column(heading, overflow="fold")
    for heading in ("BASE", "NEW"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("time", "memory"):
        table.add_column(heading, no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for row in rows:
        # As Text: a name may hold brackets, which rich takes for markup.
        cells = [workload_words(row), cut_middle(names[row["contender"]], NAME_WIDTH)]
        cells += [_time(row["latency_base_ms"]), _time(row["latency_new_ms"]), _change(row), _memory(row)]
        table.add_row(*(Text(one_line(cell, 200)) for cell in cells), _verdict(row))
    return table


def closing_lines(comparison: Comparison, num_left_out: int, *, require_all: bool = False) -> Iterator[str]:
    """What belongs under the table: counts, coverage, means, the machine, differences, notes and the answer."""
    if num_left_out:
        yield f"... and {counted(num_left_out, 'more row')}, none of them worse: --json has all"
    counts = ", ".join(f"{number:,} {verdict}" for verdict, number in comparison.verdicts.items() if number)
    yield f"time: {counts or 'no verdict'} (relative to the reference, unless marked *: latency alone)"
    yield from (f"coverage: {sentence}" for sentence in comparison.coverage)
    yield from (f"mean: {sentence}" for sentence in _means(comparison))
    if comparison.machine:
        yield f"machine: {comparison.machine}"
    further = " (--base-also RUN, --new-also RUN)" if sum(comparison.num_runs) == 2 else ""
    yield f"run to run: {comparison.run_to_run.sentence(comparison.num_runs)}{further}"
    yield from (f"differs: {each.sentence}" for each in comparison.differences)
    yield from (f"note: {note}" for note in comparison.notes)
    yield from (f"BROKEN: {sentence}" for sentence in broken_sentences(comparison))
    yield from (f"{_missing_mark(each)}: {each.sentence}" for each in comparison.missing)
    yield answer_of(comparison, require_all=require_all)


def answer_of(comparison: Comparison, *, require_all: bool = False) -> str:
    """The answer in one line.

    Args:
        comparison: what was found.
        require_all: whether it is no as well where NEW was not asked for all that BASE measured.
    """
    number, num_broken, missing = len(comparison.regressions), len(comparison.broken), comparison.missing
    if number:
        worse = f", {num_broken:,} of which worked in BASE and no longer {_verb(num_broken)}" if num_broken else ""
        return f"REGRESSION in {number:,} of {counted(len(comparison.rows), 'row')}{worse}"
    if comparison.is_failure(require_all=require_all):
        lacking = sum(each.num_shapes for each in missing if each.is_failure or require_all)
        return f"INCOMPLETE: {counted(lacking, 'row')} of BASE {'is' if lacking == 1 else 'are'} missing in NEW"
    scope = ", as far as there are verdicts" if comparison.verdicts["provisional"] else ""
    if comparison.run_to_run.freedom == 1:
        scope = ", as far as one pair of runs can tell"
    lacking = sum(each.num_shapes for each in missing)
    rest = f"; {counted(lacking, 'row')} of BASE not compared" if lacking else ""
    return f"OK{scope}: no regression beyond noise and above {as_percent(comparison.fail_above)}{rest}"


def broken_sentences(comparison: Comparison) -> Iterator[str]:
    """What worked in BASE and no longer does in NEW, contender by contender."""
    for contender, group in comparison.broken.groupby("contender", sort=False):
        whys = list(dict.fromkeys(why for text in group["regression"] for why in text.split("; ") if _is_break(why)))
        told = f"{'; '.join(whys[:3])}{'; …' if len(whys) > 3 else ''}"
        name, shapes = comparison.names[str(contender)], counted(len(group), "shape")
        yield f"{name} worked in BASE at {shapes} and no longer does: {told}"


def _is_break(why: str) -> bool:
    return not why.startswith(("slower by ", "needs "))


def _verb(number: int) -> str:
    return "does" if number == 1 else "do"


def _missing_mark(missing: Missing) -> str:
    if missing.is_failure:
        return "MISSING"
    return "NOT YET" if missing.state == "running" else "NOT COMPARED"


def _means(comparison: Comparison) -> Iterator[str]:
    for contender, group in itertools.groupby(comparison.geomeans, key=lambda each: each.contender):
        told = [
            f"{each.measure} {100 * (each.ratio - 1):+.1f} % over {counted(each.num_shapes, 'shape')}" for each in group
        ]
        yield f"{comparison.names[contender]}: {', '.join(told)}"


def _verdict(row: Row) -> Text:
    if row["is_regression"]:
        return Text(one_line(row["regression"], 200), style="bold red")
    if row["is_yardstick"] and row["verdict"]:
        return Text("yardstick", style="dim")
    return Text(row["verdict"] or one_line(row["reason"], 80), style=_COLORS.get(row["verdict"], ""))


def _change(row: Row) -> str:
    change, low, high = (row[f"change_{end}percent"] for end in ("", "low_", "high_"))
    if row["is_yardstick"] and row["latency_ratio"] is not None:
        return f"{100 * (row['latency_ratio'] - 1):+.1f} %*"
    if change is None:
        return ""
    mark = "*" if row["measure"] == "latency" else ""
    told = f"{change:+.1f} %{mark}"
    if low is None or high is None or high > _WIDEST_TOLD:
        return told
    return f"{told} [{low:+.1f}, {high:+.1f}]"


def _memory(row: Row) -> str:
    change = row["memory_change_bytes"]
    if change is None:
        return ""
    if change == 0:
        return "="
    share = row["memory_change_percent"]
    told = f"{'+' if change > 0 else '-'}{format_mib(abs(change) / 2**20)}"
    return told if share is None else f"{told} ({share:+.1f} %)"


def _time(milliseconds: float | None) -> str:
    return "" if milliseconds is None else format_time(milliseconds / 1e3)
