"""What else differs between two sides than the layers: field by field, and whether it forbids a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pandas as pd

from profiling.compare.sides import Side

# Each was seen to turn a ratio of two layers round, or to change it by more than most regressions: so a difference in
# one of them is no longer one of the layers.
SERIOUS = ("device_name", "torch_version", "threads", "heap")
# What both a run and a report say, in this order.
_OF_ROWS = (
    *SERIOUS,
    *("blas", "platform", "python_version", "commit", "time_budget_s", "seed"),
)
# What only run.json says.
_OF_RUNS = (
    *("os", "kernel", "libc", "allocator", "cpu_capability", "num_cores", "quota_cores", "onednn_version"),
    *("openmp_version", "matmul_precision", "clock_governor", "turbo", "cuda_version", "cudnn_version"),
    *("nvidia_driver", "variables", "mha_bench_version"),
)
_MACHINE = "machine"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A field that the sides do not share; None where a side does not say it."""

    field: str
    base: str | None
    new: str | None

    @property
    def is_serious(self) -> bool:
        """Whether it forbids the comparison. What one side does not know forbids nothing, and is told."""
        return self.field in SERIOUS and self.base is not None and self.new is not None

    @property
    def sentence(self) -> str:
        """What it is on either side; several where a side's runs differ."""
        base, new = ("not told" if value is None else value for value in (self.base, self.new))
        return f"{self.field}: {base} in BASE, {new} in NEW"


def find_differences(base: Side, new: Side) -> tuple[Difference, ...]:
    """The fields in which the sides differ, the serious ones first."""
    found = [Difference(field, *(_told(_of_rows(side, field)) for side in (base, new))) for field in _OF_ROWS]
    runs = [[each.run for each in side.each if each.run is not None] for side in (base, new)]
    if base.has_replicates and new.has_replicates:
        # The same kind of processor in another machine.
        found.append(Difference(_MACHINE, *(_told([run.host or None for run in each]) for each in runs)))
        found += [
            Difference(field, *(_told([_text(run.environment.get(field)) for run in each]) for each in runs))
            for field in _OF_RUNS
        ]
    # Runs of one side that were not measured alike are as bad, also where both sides are mixed alike.
    mixed = {field for field in SERIOUS for side in (base, new) if side.several and len(set(_of_rows(side, field))) > 1}
    return tuple(each for each in found if each.base != each.new or each.field in mixed)


def _of_rows(side: Side, field: str) -> list[str | None]:
    values = pd.concat([each.table[field] for each in side.each], ignore_index=True).dropna().unique()
    return [_text(value) for value in values.tolist()]


def _told(values: Sequence[str | None]) -> str | None:
    return ", ".join(sorted({value for value in values if value})) or None


def _text(value: Any) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return None if value is None or value in ("", {}, []) else str(value)
