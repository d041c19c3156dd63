"""What the consistency check found: the verdict, and the figures and the mapping it rests on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from mha.comparison import Comparison


class Shape(NamedTuple):
    """One size to run at."""

    d_model: int
    num_heads: int
    batch_size: int
    seq_len: int

    def __str__(self) -> str:
        return f"d_model {self.d_model}, {self.num_heads} heads, batch {self.batch_size}, seq_len {self.seq_len}"


class ConsistencyError(AssertionError):
    """Raised by :meth:`ConsistencyReport.raise_for_verdict`: the layer did not pass."""


class ShapeComparison(NamedTuple):
    """What was found at one shape."""

    shape: Shape
    comparison: Comparison


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
        mapping: how the weights went from the official layer to this one.
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

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; a figure that is not finite becomes None (``num_non_finite`` says how many)."""
        fields = {**vars(self), "mapping": [entry._asdict() for entry in self.mapping]}
        fields["comparisons"] = [{**entry.shape._asdict(), **asdict(entry.comparison)} for entry in self.comparisons]
        plain: dict[str, Any] = _finite(fields)
        return plain

    def raise_for_verdict(self) -> None:
        """Do nothing where the layer passed.

        Raises:
            ConsistencyError: where the verdict is any other, with the reason and what was run.
        """
        if self.verdict != "pass":
            raise ConsistencyError(f"{self.verdict}: {self.reason}\n{self.scope}")


def _finite(value: Any) -> Any:
    """The same, with lists for tuples and None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
