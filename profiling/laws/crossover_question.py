"""What is asked of a search for a crossover: which two, along what, between which sizes, what else stays the same."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from profiling.estimate import Estimate, estimate
from profiling.laws.crossover_search import Plan, first_sizes
from profiling.sweep import split_options
from profiling.workload import DEFAULT_D_MODEL, GridError, Workload, require_size

# Sizes of a sequence are multiples of it: what lies between is of no use to anyone.
SEQ_LEN_STEP = 32
# After which no further size is begun.
BUDGET_S = 1800.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class CrossoverQuestion:
    """A search as a person asks for it.

    Attributes:
        first, second: the contenders, as a command line names them.
        axis: along which is searched.
        low, high: the sizes between which it is searched.
        workload: all that stays the same; its size along the axis means nothing.
        head_dim: instead of the workload's d_model, where the width grows with the heads that are searched.
        reference: what layers of one's own are checked against.
        heap, time_budget_s, quiet_wait_s: as in a sweep.
    """

    first: str
    second: str
    axis: str
    low: int
    high: int
    workload: Workload
    head_dim: int | None = None
    reference: str = "official"
    heap: str = "pinned"
    time_budget_s: float = 0.5
    quiet_wait_s: float = 60.0

    @property
    def fixed(self) -> dict[str, Any]:
        """What a second search must have in common with this one to answer the same question."""
        names = ("batch_size", "seq_len", "num_heads", "d_model", "dtype", "mode", "bias", "causal")
        same = {name: getattr(self.workload, name) for name in names if name != self.axis}
        same |= {"head_dim": self.head_dim, "device": self.workload.device, "threads": self.workload.threads}
        return same | {"d_model": None if self.head_dim else self.workload.d_model, "heap": self.heap}

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after `python -m profiling` that ask it."""
        words = ["crossover", "--contenders", f"{self.first},{self.second}", "--axis", self.axis]
        words += ["--from", str(self.low), "--to", str(self.high), *workload_words(self.workload, self.axis)]
        if self.head_dim is not None:
            at = words.index("--d-model")
            words[at : at + 2] = ["--head-dim", str(self.head_dim)]
        words += ["--reference", self.reference, "--heap", self.heap]
        return (*words, "--time-budget", f"{self.time_budget_s:g}", "--quiet-wait", f"{self.quiet_wait_s:g}")

    def plan(self) -> Plan:
        """Which sizes it looks at first, and how exactly it searches.

        Raises:
            GridError: there is nothing to search between these sizes; the message says why.
        """
        fixed = {"head_dim": self.head_dim} if self.head_dim else {"d_model": self.workload.d_model}
        return Plan(
            low=self.low,
            high=self.high,
            step=default_step(self.axis),
            choices=head_counts(self.low, self.high, fixed) if self.axis == "num_heads" else (),
        )

    def first_look(self) -> Estimate:
        """What the first sizes will take together.

        Raises:
            GridError: there is nothing to search; the message says why.
        """
        plan = self.plan()
        return self._estimate(first_sizes(plan), plan.replicates)

    def further_size_s(self) -> float:
        """Seconds that the largest size takes alone: a size between others takes less."""
        return self._estimate((self.high,), self.plan().replicates).seconds

    def _estimate(self, sizes: tuple[int, ...], replicates: int) -> Estimate:
        same = self.workload
        options: dict[str, Any] = {name: (getattr(same, name),) for name in ("batch_size", "seq_len", "num_heads")}
        options |= {name: (getattr(same, name),) for name in ("dtype", "mode", "bias", "causal")}
        options |= {"head_dim": self.head_dim} if self.head_dim else {"d_model": same.d_model}
        options |= {self.axis: sizes, "contenders": (self.first, self.second), "reference": self.reference}
        options |= {"replicates": replicates, "time_budget_s": self.time_budget_s, "heap": self.heap}
        grid, settings = split_options(options)
        return estimate(grid, settings, device=same.device, threads=same.threads)


def workload_words(workload: Workload, left_out: str) -> list[str]:
    """A workload as options of a command line, but for one of its fields."""
    words = []
    for field, value in workload.to_dict().items():
        if field != left_out:
            text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
            words += [f"--{field.replace('_', '-')}", text]
    return words


def default_step(axis: str) -> int:
    """What the sizes along an axis are multiples of, where nobody says."""
    return SEQ_LEN_STEP if axis == "seq_len" else 1


def head_counts(low: int, high: int, options: dict[str, Any]) -> tuple[int, ...]:
    """The head counts that divide a fixed width; none to choose from where the width grows with the heads.

    Raises:
        GridError: fewer than two of them do.
    """
    if "head_dim" in options:
        return ()
    width = options.get("d_model", DEFAULT_D_MODEL)
    require_size("d_model", width)
    # In pairs: every number up to a width of billions would be minutes that no signal ends.
    small = [count for count in range(1, math.isqrt(width) + 1) if width % count == 0]
    found = sorted(count for count in {*small, *(width // count for count in small)} if low <= count <= high)
    if len(found) < 2 and low < high:
        there = f"only {found[0]} does" if found else "none does"
        raise GridError(f"two num_heads from {low} to {high} must divide d_model {width:,}, and {there}")
    return tuple(found)
