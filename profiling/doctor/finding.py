"""One thing that was found out about this machine."""

from __future__ import annotations

import dataclasses

# What can be measured, and what stands in the way of it.
CAN, DISTURBS = "can", "disturbs"
# `ok` is as it should be, a `note` is to be known, a `problem` spoils what is measured or keeps it from being measured.
SEVERITIES = ("ok", "note", "problem")


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was found, how much it matters, and the next step where there is one."""

    kind: str
    severity: str
    text: str
    advice: str = ""


def can(text: str) -> Finding:
    """Something that can be measured here."""
    return Finding(CAN, "ok", text)


def lacks(severity: str, text: str, advice: str) -> Finding:
    """Something that cannot be measured here, or not yet."""
    return Finding(CAN, severity, text, advice)


def disturbs(severity: str, text: str, advice: str = "") -> Finding:
    """Something that will show in what is measured."""
    return Finding(DISTURBS, severity, text, advice)
