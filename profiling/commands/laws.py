"""`python -m profiling laws`: parses, calls and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profiling.commands.json_answer import JsonCommand, end_with, print_json
from profiling.exits import status_of

if TYPE_CHECKING:
    from profiling.laws.growth import Law
    from profiling.limits import Limits

# Of more, the laws of every batch size and number of heads would fill a book, and take minutes.
MOST_ROWS = 4_000


@click.command(cls=JsonCommand)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def laws(run: Path, as_json: bool) -> None:
    """Tell how a run's times and memory grow, and how near it comes to what the machine can do.

    RUN is a run's folder, or the name of one under results/. Exit status: 0 told, 2 no such run. What cannot be told is
    said with its reason.
    """
    from profiling.laws.growth import laws_of
    from profiling.laws.telling import telling_laws
    from profiling.limits import limits_of
    from profiling.runs import RunError, run_folder
    from profiling.table import load_measurements, load_table

    try:
        table, problems = load_table(run_folder(run))
        replicates = load_measurements(run_folder(run))
    except RunError as error:
        end_with(str(error), status_of(error), as_json=as_json)
    is_large = len(table) > MOST_ROWS
    found = telling_laws(table, replicates) if is_large else laws_of(table, replicates=replicates)
    limits = limits_of(table)
    if is_large:
        problems = [
            *problems,
            f"of {len(table):,} rows the laws are told where the other sizes are at their largest, and nowhere else",
        ]
    if as_json:
        print_json(_json(found, limits, problems))
        return
    for problem in problems:
        click.echo(f"warning: {problem}", err=True)
    click.echo("\n".join([*_law_lines(found), *_limit_lines(limits)]))


def _law_lines(found: list[Law]) -> list[str]:
    from profiling.laws.law_words import LETTERS, fixed_words, law_words

    if not found:
        return ["No law can be told: the run varies neither seq_len, batch_size nor num_heads."]
    lines: list[str] = []
    for axis in dict.fromkeys(law.axis for law in found):
        lines += [f"Growth with {axis} ({LETTERS[axis]}), 95 % intervals"]
        here = [law for law in found if law.axis == axis]
        told = [law for law in here if law.exponent is not None]
        for fixed in dict.fromkeys(fixed_words(law.fixed) for law in told):
            lines += [f"  {fixed}"]
            lines += [f"    {law_words(law)}" for law in told if fixed_words(law.fixed) == fixed]
        lines += _refused_lines([law for law in here if law.exponent is None])
    return lines


def _refused_lines(refused: list[Law]) -> list[str]:
    """What is told of no law: each reason once, and of a reason that holds for many an example."""
    from profiling.laws.law_words import fixed_words, law_words

    by_kind: dict[str, list[Law]] = {}
    for law in refused:  # sizes and intervals differ, and the reason is one
        by_kind.setdefault(re.sub(r"[-+]?\d[\d.,]*", "", law.refusal), []).append(law)
    lines = []
    for each in by_kind.values():
        more = f" (and {len(each) - 1} more likewise)" if len(each) > 1 else ""
        lines.append(f"  {law_words(each[0])}, at {fixed_words(each[0].fixed)}{more}")
    return lines


def _limit_lines(limits: Limits) -> list[str]:
    from profiling.limits import contender_limits, contender_words

    lines = ["Limits"] + [f"  {contender_words(each)}" for each in contender_limits(limits).values()]
    if not limits.limits:
        lines += ["  none can be told: no row has both a measurement and a ceiling"]
    lines += [f"  left out: {count} {reason}" for reason, count in limits.left_out.items()]
    return lines


def _json(found: list[Law], limits: Limits, problems: list[str]) -> dict[str, Any]:
    import dataclasses

    from profiling.laws.law_words import law_words
    from profiling.limits import limit_dict

    return {
        "laws": [dataclasses.asdict(law) | {"words": law_words(law)} for law in found],
        "limits": [limit_dict(limit) for limit in limits.limits],
        "limits_left_out": dict(limits.left_out),
        "problems": problems,
    }
