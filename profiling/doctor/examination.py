"""Gathers the facts, asks torch in a process of its own, and has every probe look at them."""

from __future__ import annotations

import dataclasses
from typing import Any

from profiling.child_process import ChildStopped, MeasuringChild, MeasuringError
from profiling.doctor import abilities, disturbances
from profiling.doctor.facts import Facts, gather
from profiling.doctor.finding import CAN, SEVERITIES, Finding

# Loading torch on a cold, busy machine, and a driver that has to be woken.
LIMIT_S = 180.0


@dataclasses.dataclass(frozen=True)
class Examination:
    """What was found, the gravest first within each kind; and the facts behind it."""

    facts: Facts
    findings: tuple[Finding, ...]

    @property
    def can_measure(self) -> bool:
        """Whether anything can be measured here."""
        return abilities.can_measure(self.facts)

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "can_measure": self.can_measure,
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
            "facts": dataclasses.asdict(self.facts),
        }


def examine() -> Examination:
    """Examines this machine, in some seconds; torch is left alone while somebody measures."""
    facts = gather()
    if not facts.owners:
        facts = with_torch(facts)
    return Examination(facts, look(facts))


def look(facts: Facts) -> tuple[Finding, ...]:
    """What all probes find in the facts: what can be measured first, the gravest first."""
    found = [finding for probe in (*abilities.PROBES, *disturbances.PROBES) for finding in probe(facts)]
    return tuple(sorted(found, key=lambda finding: (finding.kind != CAN, -SEVERITIES.index(finding.severity))))


def with_torch(facts: Facts) -> Facts:
    """The facts with those of torch, or with why it gives none."""
    try:
        with MeasuringChild(heap="pinned") as child:
            return dataclasses.replace(facts, torch=child.ask({"request": "abilities"}, limit_s=LIMIT_S))
    except (MeasuringError, OSError) as error:
        return dataclasses.replace(facts, torch_error=str(error) or type(error).__name__)
    except ChildStopped:
        return dataclasses.replace(facts, torch_error="it was stopped")
