"""`python -m profiling compare`: parses, calls and prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from profiling.commands.json_answer import JsonCommand, print_json
from profiling.exits import EXIT_BAD_INPUT, EXIT_FAILED, exit_with

if TYPE_CHECKING:
    from profiling.compare.comparing import Comparison

# Of a table that no terminal shows, such as a log's.
WIDTH = 140


class _Compare(JsonCommand):
    """The command, whose refusals tell also what differs."""

    def usage_answer(self, message: str) -> dict[str, Any]:
        """A wrong option has not come so far as to find a difference."""
        return _refusal(message)


@click.command(cls=_Compare)
@click.argument("base")
@click.argument("new")
@click.option(
    "--base-also",
    metavar="RUN",
    multiple=True,
    help="A further run of BASE, given likewise; may be repeated.",
)
@click.option(
    "--new-also",
    metavar="RUN",
    multiple=True,
    help="A further run of NEW: on a regression measure once more, and give both; may be repeated.",
)
@click.option(
    "--fail-above",
    metavar="SHARE",
    default="5%",
    show_default=True,
    help="From what on a change that is beyond noise is a regression: 5% or 0.05.",
)
@click.option(
    "--contender",
    "contenders",
    metavar="NAME",
    multiple=True,
    help="Compare this contender alone; may be repeated.  [default: all]",
)
@click.option(
    "--anyway", is_flag=True, help="Compare also where device, torch, threads or heap differ; the answer is marked."
)
@click.option(
    "--require-all", is_flag=True, help="Exit with 1 also where NEW was not asked for all that BASE measured."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(
    base: str,
    new: str,
    base_also: tuple[str, ...],
    new_also: tuple[str, ...],
    fail_above: str,
    contenders: tuple[str, ...],
    anyway: bool,
    require_all: bool,
    as_json: bool,
) -> None:
    """Compare two runs: is NEW slower than BASE, beyond noise?

    BASE and NEW are each a run's folder, the id or name of one under results/, or a baseline file: a report as `export`
    writes it. Rows are joined by workload and contender. A verdict rests on the time relative to the reference that was
    measured in the same process, so that the machine cancels; where that is missing, on the latency.

    With one run a side the spread between whole runs is unknown, and no interval allows for it. Further runs of a side
    (--base-also, --new-also) show it, and widen the intervals by it.

    Exit status: 1 where a row is a regression, else 0. A row is one where its time grew by more than SHARE and its
    interval, wide enough to hold all compared rows together with 95 %, lies wholly above the noise (at least 2 %; below
    5 replicates nothing does); where its peak memory grew by more than SHARE; where its check passed in BASE and no
    longer does; or where it was measured in BASE and could not be in NEW, in some replicates or in all. 1 as well where
    NEW ended before it measured what BASE holds. 2 where nothing was compared.
    """
    from profiling.compare.comparing import ComparisonRefused, compare_runs, parse_share
    from profiling.compare.sides import CompareError
    from profiling.runs import RunError

    try:
        share = parse_share(fail_above)
        found = compare_runs(
            base,
            new,
            base_also=base_also,
            new_also=new_also,
            contenders=contenders,
            fail_above=share,
            anyway=anyway,
        )
    except ComparisonRefused as error:
        _end(f"{error}; --anyway compares all the same", as_json, [vars(each) for each in error.differences])
    except (CompareError, RunError) as error:
        _end(str(error), as_json)
    is_failure = found.is_failure(require_all=require_all)
    if as_json:
        print_json(found.to_dict() | {"is_failure": is_failure})
    else:
        _print(found, require_all=require_all)
    sys.exit(EXIT_FAILED if is_failure else 0)


def _print(found: Comparison, *, require_all: bool) -> None:
    from rich.console import Console

    from profiling.compare.text import MAX_ROWS, closing_lines, table_of, worst_first

    for problem in found.problems:
        click.echo(f"warning: {problem}", err=True)
    rows = worst_first(found)
    click.echo(f"BASE {found.base.title}\nNEW  {found.new.title}")
    width = None if sys.stdout.isatty() else WIDTH
    Console(file=sys.stdout, width=width, highlight=False).print(table_of(rows[:MAX_ROWS], found.names))
    *lines, answer = closing_lines(found, len(rows[MAX_ROWS:]), require_all=require_all)
    click.echo("\n".join(lines))
    click.secho(answer, fg="red" if found.is_failure(require_all=require_all) else "green", bold=True)


def _end(message: str, as_json: bool, differences: list[dict[str, Any]] | None = None) -> NoReturn:
    if as_json:
        print_json(_refusal(message, differences))
    exit_with(message, EXIT_BAD_INPUT)


def _refusal(message: str, differences: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"error": message, "differences": differences or []}
