"""What the consistency check found: the verdict, and the figures and the mapping it rests on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from mha.checking.comparison import Comparison


class Shape(NamedTuple):
    """One size to run at."""

    d_model: int
    num_heads: int
    batch_size: int
    seq_len: int

    def __str__(self) -> str:
        heads = f"{self.num_heads} head{'s' if self.num_heads != 1 else ''}"
        return f"d_model {self.d_model}, {heads}, batch {self.batch_size}, seq_len {self.seq_len}"


class ConsistencyError(AssertionError):
    """Raised by :meth:`ConsistencyReport.raise_for_verdict`: the layer did not pass."""


class Finding(NamedTuple):
    """What is wrong with a layer: a name for machines, and a sentence with the cure."""

    fault: str
    sentence: str


class Part(NamedTuple):
    """One part of the check and its own verdict: self-attention, cross-attention, a mask, gradients."""

    part: str
    verdict: str
    max_abs_error: float | None
    error_ratio: float | None
    reason: str


class GradientComparison(NamedTuple):
    """The gradient of the input or of one weight, against the official layer's and float64's."""

    name: str
    max_abs_error: float
    error_ratio: float
    verdict: str


class Probe(NamedTuple):
    """What one experiment on the layer showed."""

    probe: str
    finding: str


class ErrorMap(NamedTuple):
    """Largest |error| by position and by the output channels of each head; NaN where not finite."""

    positions: tuple[int, ...]
    heads: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


class ShapeComparison(NamedTuple):
    """What was found at one shape."""

    shape: Shape
    comparison: Comparison

    @property
    def worst_head(self) -> int | None:
        """The head whose output channels hold the largest difference; None where there are no elements."""
        worst = self.comparison.worst
        return None if worst is None else worst[2] // (self.shape.d_model // self.shape.num_heads)


class MappedWeight(NamedTuple):
    """Which of the layer's weights stood for which of the official layer's, and how the values went."""

    theirs: str
    official: str
    how: str


@dataclass(frozen=True)
class ConsistencyReport:
    """What :func:`check_consistency` found.

    Attributes:
        verdict: ``pass``, ``fail``, ``not-comparable`` (weights that cannot correspond), ``error`` (it raised).
        reason: why, in a sentence.
        scope: what was run, in a sentence.
        max_abs_error: the largest over all shapes run; None where nothing was compared; NaN where not finite.
        error_ratio: likewise.
        tolerance: the largest error_ratio that passes.
        plain_tolerance: 1e-5, for max_abs_error alone; told, but the verdict does not hang on it.
        plain_holds: whether max_abs_error is below it; None where nothing was compared.
        num_non_finite: NaN or infinite elements of the layer's outputs, all shapes together.
        comparisons: one per shape run, the shape asked for first.
        mapping: which of the layer's weights stood for which of the official layer's, and how they are stored.
        unmatched: the layer's parameters that have no counterpart there.
        diagnosis: what is wrong, where a known fault reproduces the layer's output.
        parts: the verdicts that the whole consists of, and what was tried besides.
        gradients: of the input and every weight, where they were compared.
        probes: what experiments showed, where nothing known explains a difference.
        notes: what differs between the two sides besides their outputs, and what the layer does that it should not.
        error_map: where the error lies, at the shape asked for.
        planted_caught, planted_total: of the faults that this check plants in a right layer, how many it caught; None
            where it was not asked to.
    """

    verdict: str
    reason: str
    scope: str
    max_abs_error: float | None
    error_ratio: float | None
    tolerance: float
    plain_tolerance: float
    plain_holds: bool | None
    num_non_finite: int
    comparisons: tuple[ShapeComparison, ...]
    mapping: tuple[MappedWeight, ...]
    unmatched: tuple[str, ...] = ()
    diagnosis: tuple[Finding, ...] = ()
    parts: tuple[Part, ...] = ()
    gradients: tuple[GradientComparison, ...] = ()
    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()
    error_map: ErrorMap | None = None
    planted_caught: int | None = None
    planted_total: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; a figure that is not finite becomes None (``num_non_finite`` says how many)."""
        fields = {**vars(self)}
        for name in ("mapping", "diagnosis", "parts", "gradients", "probes"):
            fields[name] = [entry._asdict() for entry in fields[name]]
        fields["error_map"] = None if self.error_map is None else self.error_map._asdict()
        fields["comparisons"] = [
            {**entry.shape._asdict(), **asdict(entry.comparison), "worst_head": entry.worst_head}
            for entry in self.comparisons
        ]
        plain: dict[str, Any] = _finite(fields)
        return plain

    def raise_for_verdict(self) -> None:
        """Do nothing where the layer passed.

        Raises:
            ConsistencyError: where the verdict is any other, with the reason and what was run.
        """
        if self.verdict != "pass":
            raise ConsistencyError(str(self))

    def __str__(self) -> str:
        if not self.diagnosis:
            told = [f"{self.verdict}: {self.reason}"]
        else:  # what to do comes before how far off it is
            first, *more = (found.sentence for found in self.diagnosis)
            told = [f"{self.verdict}: {first}", *(f"- {sentence}" for sentence in more), self.reason]
        told += [f"- {probe.probe}: {probe.finding}" for probe in self.probes]
        return "\n".join([*told, f"({self.scope})"])


def _finite(value: Any) -> Any:
    """The same, with lists for tuples and None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
