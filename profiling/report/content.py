"""What a report tells of a run, gathered once for both of its forms."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd

from profiling.charts.names import names_of
from profiling.charts.roofline_chart import limit_sentences
from profiling.charts.summary import Headline, headlines, unmeasured, warned
from profiling.laws.law_words import fixed_words, law_words
from profiling.laws.telling import readable_rows, telling_laws
from profiling.limits import Limits, limits_of
from profiling.repeat import sweep_arguments
from profiling.run_names import read_notes
from profiling.runs import Run, read_run
from profiling.table import load_measurements, load_table

# Laws that are told one by one: of a run over many batch sizes and heads there are hundreds.
MOST_LAWS = 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Content:
    """Everything that a report tells of a run.

    Attributes:
        run: what its folder says of it.
        name: what a person calls it; None where it has no name.
        table: its rows as `load_run` gives them.
        problems: what of its files could not be read, in sentences; the table is what is left.
        headlines: each contender against its reference.
        unmeasured: why rows have no numbers: status, reason, number of rows.
        warned: what rows are warned of, and how many.
        laws: how time and memory grow, in sentences.
        limits: how near each contender comes to what the machine can do, and
        limit_words: the same in sentences.
        command: the command line that measures the run again.
    """

    run: Run
    name: str | None
    table: pd.DataFrame
    problems: list[str]
    headlines: list[Headline]
    unmeasured: list[tuple[str, str, int]]
    warned: list[tuple[str, int]]
    laws: list[str]
    limits: Limits
    limit_words: list[str]
    command: str


def gather(folder: Path) -> Content:
    """The content of a report on the run in that folder.

    Raises:
        RunError: the folder holds no run, or one that this version cannot read.
    """
    run = dataclasses.replace(read_run(folder), run_id=folder.resolve().name)
    table, problems = load_table(folder)
    limits = limits_of(readable_rows(table))
    return Content(
        run=run,
        name=read_notes(folder).name,
        table=table,
        problems=problems,
        headlines=headlines(table),
        unmeasured=unmeasured(table),
        warned=warned(table),
        laws=_laws(table, load_measurements(folder)),
        limits=limits,
        limit_words=limit_sentences(limits),
        command=command_of(run),
    )


def command_of(run: Run) -> str:
    """The command line that measures a run's grid again in the same way."""
    import shlex

    return shlex.join(["python", "-m", "profiling", *sweep_arguments(run.grid, run.settings)])


def facts_of(run: Run) -> dict[str, str]:
    """What a run was measured on and how, each by its name: for a stranger, who judges by it or repeats it."""
    environment = run.environment
    told: dict[str, Any] = {
        "device": f"{run.device}: {environment.get('device_name') or 'its name is not told'}",
        "threads": run.threads,
        "torch": environment.get("torch_version"),
        "Python": environment.get("python_version"),
        "system": environment.get("os") or environment.get("platform"),
        "library of matrix products": environment.get("blas"),
        "replicates": run.settings.replicates,
        "seconds per contender and point": f"{run.settings.time_budget_s:g}",
        "heap": run.settings.heap,
        "commit of mha-bench": environment.get("commit"),
        "begun": run.started_at,
        "ended": run.ended_at,
    }
    return {name: str(value) for name, value in told.items() if value not in (None, "")}


def _laws(table: pd.DataFrame, replicates: pd.DataFrame) -> list[str]:
    told = [law for law in telling_laws(table, replicates) if law.exponent is not None]
    names = names_of(law.contender for law in told)
    said = [f"{law_words(law, names)}. At {fixed_words(law.fixed)}." for law in told[:MOST_LAWS]]
    more = len(told) - len(said)
    return [*said, *([f"{more:,} more: `python -m profiling laws` tells them."] if more > 0 else [])]
