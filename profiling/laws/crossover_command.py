"""The command line that asks what a recorded search was asked."""

from __future__ import annotations

from profiling.laws.crossover_question import BUDGET_S, CrossoverQuestion, default_step
from profiling.laws.crossover_record import Record
from profiling.laws.crossover_search import Plan
from profiling.sweep import split_options

# Of what a plan says, what a command line says too.
PLANNED = ("low", "high", "step", "within", "replicates", "max_replicates")


def command_of(record: Record) -> tuple[str, ...] | None:
    """The words after `python -m profiling` that ask this search again; None where its record does not say enough."""
    try:
        plan = Plan(**{name: record.asked[name] for name in PLANNED})
        options = dict(record.asked["options"])
        grid, settings = split_options({**options, record.axis: (1,)})
        first, second = record.pair
        question = CrossoverQuestion(
            first=first,
            second=second,
            axis=record.axis,
            low=plan.low,
            high=plan.high,
            workload=next(grid.workloads(device=record.fixed["device"], threads=record.fixed["threads"])),
            head_dim=grid.head_dim if record.axis == "num_heads" else None,
            reference=settings.reference,
            heap=settings.heap,
            time_budget_s=settings.time_budget_s,
            quiet_wait_s=settings.quiet_wait_s,
        )
        words = [*question.arguments, *_plan_words(plan, record.axis), *_budget_words(record.asked["budget_s"])]
        return (*words, *(["--anyway"] if settings.anyway else []))
    except (KeyError, TypeError, ValueError, OverflowError):  # an earlier version's, or one that was damaged
        return None


def _plan_words(plan: Plan, axis: str) -> list[str]:
    """What a plan says other than it does where nobody says anything."""
    usual = Plan(low=plan.low, high=plan.high, step=default_step(axis))
    names = [name for name in PLANNED[2:] if getattr(plan, name) != getattr(usual, name)]
    return [word for name in names for word in (f"--{name.replace('_', '-')}", f"{getattr(plan, name):g}")]


def _budget_words(budget_s: float | None) -> list[str]:
    return [] if budget_s in (None, BUDGET_S) else ["--budget", f"{budget_s:g}"]
