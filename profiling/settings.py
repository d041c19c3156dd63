"""How a sweep measures: contenders, replicates, budget, limits, heap; and what each contender is compared with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from profiling.layers import COMPILED, EXAMPLE, LayerFile, find_layer, inner_of, is_compiled, is_layer, split_layer
from profiling.quoted import quoted
from profiling.workload import GridError, require_size

# Each contender and its reference: the official call that does the same work (the choice of baseline
# alone can make a layer look 2.5 times faster). The fast path computes what the default call does, by another program;
# so it has a reference, and is one to layers of one's own. The other two are compared with nothing.
REFERENCES: dict[str, str | None] = {
    "custom": "official",
    "custom-fused": "official-fused",
    "official": None,
    "official-fused": None,
    "official-fastpath": "official",
}
# Those of a sweep that is told nothing. The fast path is asked for by name: most workloads cannot take it.
CONTENDERS = ("custom", "custom-fused", "official", "official-fused")
# What a layer of one's own may be compared with; it is for its owner to say which of them does the same work.
OFFICIAL = ("official", "official-fused", "official-fastpath")
HEAPS = ("pinned", "as-is")
# A reference is measured twice: its copy of this name is the control.
CLONE = "clone:"

# Below this many replicates an interval is too narrow to act on, so every verdict on speed is provisional.
MIN_REPLICATES_FOR_VERDICT = 5
MIN_ROUNDS = 5
MAX_CONTENDERS = 1_000
# Eleven days: beyond it a number of seconds is a slip of the keyboard.
MAX_SECONDS = 1_000_000


def reference_of(contender: str, own: str = OFFICIAL[0]) -> str | None:
    """What a contender is compared with, None where with nothing; `own` is what layers of one's own are.

    A compiled layer is compared with what the layer itself is, a compiled official call with that call.

    Raises:
        GridError: there is no such contender.
    """
    if isinstance(contender, str):
        inner = inner_of(contender)
        if is_compiled(contender) and inner in OFFICIAL:
            return inner
        if inner in REFERENCES:
            return REFERENCES[inner]
        if is_layer(contender):
            return own
    raise GridError(
        f"contenders must be among {', '.join(REFERENCES)}, or a layer as {EXAMPLE}, "
        f"each of them also once as {COMPILED}NAME, not {quoted(contender)}"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """How a sweep measures each workload.

    Attributes:
        contenders: names from `REFERENCES`, and layers of one's own as `path/to/file.py:Name`; each may stand behind
            `compiled:`, which runs it through torch.compile. A missing reference is added, since it has to be measured
            anyway.
        reference: one of `OFFICIAL`: what layers of one's own are compared with.
        layers: contender → the same with an absolute path, for each layer of one's own. One that is not in it is looked
            for from the working folder, and added.
        replicates: passes over the grid, each in a fresh process (1 quick, 5 normal, 8 to publish).
        time_budget_s: seconds of timed rounds per contender, workload and replicate.
        time_limit_s: seconds after which a workload is given up; None takes it from the estimate.
        quiet_wait_s: seconds that a run may wait in all for others to leave the machine alone; 0 for never. Not part of
            a time limit.
        heap: `pinned` keeps freed memory in the process (repeatable), `as-is` leaves the allocator alone.
        anyway: measure also what the estimate refuses. It changes nothing of what is measured.

    Raises:
        GridError: a value breaks a rule; the message names the argument, the rule and the value.
    """

    contenders: tuple[str, ...] = CONTENDERS
    reference: str = OFFICIAL[0]
    layers: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    replicates: int = 1
    time_budget_s: float = 0.5
    time_limit_s: float | None = None
    quiet_wait_s: float = 60.0
    heap: str = "pinned"
    anyway: bool = False

    def __post_init__(self) -> None:
        """Checks every rule once, here at the boundary, and adds the references that are needed."""
        if not isinstance(self.contenders, tuple) or not self.contenders:
            raise GridError(f"contenders must hold at least one name, not {quoted(self.contenders)}")
        if len(self.contenders) > MAX_CONTENDERS:
            raise GridError(f"contenders may hold up to {MAX_CONTENDERS:,} names, not {len(self.contenders):,}")
        if self.reference not in OFFICIAL:
            raise GridError(f"reference must be one of {', '.join(OFFICIAL)}, not {quoted(self.reference)}")
        needed = self._needed_references()
        object.__setattr__(self, "layers", self._found_layers())
        places = [(is_compiled(name), self.layers.get(name, name)) for name in self.contenders]
        twice = next(
            (name for name, place in zip(self.contenders, places, strict=True) if places.count(place) > 1), None
        )
        if twice is not None:
            raise GridError(f"contenders must name each contender once, not {quoted(twice)} twice")
        missing = tuple(name for name in needed if name not in self.contenders)
        object.__setattr__(self, "contenders", self.contenders + missing)
        require_size("replicates", self.replicates)
        require_seconds("time_budget_s", self.time_budget_s)
        if self.time_limit_s is not None:
            require_seconds("time_limit_s", self.time_limit_s)
        require_seconds("quiet_wait_s", self.quiet_wait_s, may_be_zero=True)
        if self.heap not in HEAPS:
            raise GridError(f"heap must be one of {', '.join(HEAPS)}, not {quoted(self.heap)}")
        if not isinstance(self.anyway, bool):
            raise GridError(f"anyway must be True or False, not {quoted(self.anyway)}")

    @property
    def references(self) -> tuple[str, ...]:
        """The references that some contender of this sweep is compared with."""
        return tuple(name for name in self.contenders if name in {self.reference_of(each) for each in self.contenders})

    def reference_of(self, contender: str) -> str | None:
        """What a contender of this sweep is compared with; None for a reference."""
        return reference_of(contender, self.reference)

    def layer_files(self) -> dict[str, LayerFile]:
        """Contender → its file, for each layer of one's own."""
        return {name: LayerFile.from_spec(spec) for name, spec in self.layers.items()}

    def _needed_references(self) -> tuple[str, ...]:
        """What the contenders are compared with, and what those references are themselves, each once."""
        needed: dict[str, None] = {}
        todo = list(self.contenders)
        while todo:
            reference = self.reference_of(todo.pop(0))
            if reference is not None and reference not in needed:
                needed[reference] = None
                todo.append(reference)
        return tuple(needed)

    def _found_layers(self) -> dict[str, str]:
        given = self.layers
        if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
            raise GridError(f"layers must map each layer of one's own to its place, not {quoted(given)}")
        own = [name for name in self.contenders if is_layer(name)]
        for name in (name for name in own if name in given):
            if LayerFile.from_spec(given[name]).name != split_layer(name)[1]:
                raise GridError(
                    f"layers must name the same layer as the contender {quoted(name)}, not {quoted(given[name])}"
                )
        return {name: given[name] if name in given else find_layer(name).spec for name in own}

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return {**dataclasses.asdict(self), "contenders": list(self.contenders), "layers": dict(self.layers)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SweepSettings:
        """The settings whose fields `values` holds; unknown names raise GridError."""
        names = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise GridError(f"settings have no field {quoted(unknown[0])}; they have {', '.join(sorted(names))}")
        frozen: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**frozen)


def require_seconds(name: str, value: object, *, may_be_zero: bool = False) -> None:
    """Raises GridError unless `value` is a number of seconds that a person can mean."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_a_wait(value, may_be_zero):
        least = "of 0 or more" if may_be_zero else "above 0"
        raise GridError(f"{name} must be a number of seconds {least}, not {quoted(value)}")
    if value > MAX_SECONDS:
        raise GridError(f"{name} must be at most {MAX_SECONDS:,} seconds, not {quoted(value)}")


def _is_a_wait(seconds: float, may_be_zero: bool) -> bool:
    # An int is finite, and may be too large for a float.
    return (isinstance(seconds, int) or math.isfinite(seconds)) and (seconds > 0 or (seconds == 0 and may_be_zero))
