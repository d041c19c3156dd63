"""How a sweep measures: contenders, replicates, budget, limits, heap; and what each contender is compared with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from profiling.workload import GridError, require_size

# Each contender and its reference: the official call that does the same work (design: the choice of baseline
# alone can make a layer look 2.5 times faster). A reference is measured, not compared, so it has none itself.
REFERENCES: dict[str, str | None] = {
    "custom": "official",
    "custom-fused": "official-fused",
    "official": None,
    "official-fused": None,
}
CONTENDERS = tuple(REFERENCES)
HEAPS = ("pinned", "as-is")

# Below this many replicates an interval is too narrow to act on, so every verdict on speed is provisional.
MIN_REPLICATES_FOR_VERDICT = 5
MIN_ROUNDS = 5
# Eleven days: beyond it a number of seconds is a slip of the keyboard.
MAX_SECONDS = 1_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """How a sweep measures each workload.

    Attributes:
        contenders: names from `CONTENDERS`; a missing reference is added, since it has to be measured anyway.
        replicates: passes over the grid, each in a fresh process (1 quick, 5 normal, 8 to publish).
        time_budget_s: seconds of timed rounds per contender, workload and replicate.
        time_limit_s: seconds after which a workload is given up; None takes it from the estimate.
        heap: `pinned` keeps freed memory in the process (repeatable), `as-is` leaves the allocator alone.

    Raises:
        GridError: a value breaks a rule; the message names the argument, the rule and the value.
    """

    contenders: tuple[str, ...] = CONTENDERS
    replicates: int = 1
    time_budget_s: float = 0.5
    time_limit_s: float | None = None
    heap: str = "pinned"

    def __post_init__(self) -> None:
        """Checks every rule once, here at the boundary, and adds the references that are needed."""
        if not isinstance(self.contenders, tuple) or not self.contenders:
            raise GridError(f"contenders must hold at least one name, not {self.contenders!r}")
        for name in self.contenders:
            if name not in REFERENCES:
                raise GridError(f"contenders must be among {', '.join(CONTENDERS)}, not {name!r}")
        if len(set(self.contenders)) < len(self.contenders):
            raise GridError(f"contenders must name each contender once, not {', '.join(self.contenders)}")
        needed = [reference for name in self.contenders if (reference := REFERENCES[name]) is not None]
        missing = tuple(dict.fromkeys(name for name in needed if name not in self.contenders))
        object.__setattr__(self, "contenders", self.contenders + missing)
        require_size("replicates", self.replicates)
        _require_seconds("time_budget_s", self.time_budget_s)
        if self.time_limit_s is not None:
            _require_seconds("time_limit_s", self.time_limit_s)
        if self.heap not in HEAPS:
            raise GridError(f"heap must be one of {', '.join(HEAPS)}, not {self.heap!r}")

    @property
    def references(self) -> tuple[str, ...]:
        """The references that some contender of this sweep is compared with."""
        return tuple(name for name in self.contenders if name in {REFERENCES[other] for other in self.contenders})

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return {**dataclasses.asdict(self), "contenders": list(self.contenders)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SweepSettings:
        """The settings whose fields `values` holds; unknown names raise GridError."""
        names = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise GridError(f"settings have no field {unknown[0]!r}; they have {', '.join(sorted(names))}")
        frozen: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**frozen)


def _require_seconds(name: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type,operator]
        raise GridError(f"{name} must be a number of seconds above 0, not {value!r}")
    if value > MAX_SECONDS:  # type: ignore[operator]
        raise GridError(f"{name} must be at most {MAX_SECONDS:,} seconds, not {value!r}")
