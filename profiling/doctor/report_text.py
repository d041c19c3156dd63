"""An examination as lines for a terminal: one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from profiling.doctor.examination import Examination
from profiling.doctor.facts import Facts
from profiling.doctor.finding import CAN, DISTURBS, Finding

WIDTH = 100
HEADINGS = {CAN: "what can be measured", DISTURBS: "what will disturb it"}
_INDENT = 9


def report_lines(examination: Examination, width: int = WIDTH) -> list[str]:
    """Title, both kinds of findings with what to do, and one line that sums up; each at most `width` characters."""
    lines = [*_wrapped(title(examination.facts), width, "")]
    for kind, heading in HEADINGS.items():
        found = [finding for finding in examination.findings if finding.kind == kind]
        lines += [f"{heading}:" if found else f"{heading}: nothing that is known of"]
        lines += [line for finding in found for line in _lines_of(finding, width)]
    return [*lines, *_wrapped(verdict(examination), width, "")]


def title(facts: Facts) -> str:
    """The machine in a line."""
    host = facts.host
    torch = facts.torch or {}
    num = torch.get("torch_threads")
    computes = f", torch {torch['torch_version']} with {num} thread{'s' * (num != 1)}" if torch else ""
    usable = host.get("usable_threads") or host.get("num_threads")
    processors = f", {usable} logical processor{'s' * (usable != 1)} usable" if usable else ""
    return f"{host.get('cpu_name') or 'this machine'}{processors}{computes}"


def verdict(examination: Examination) -> str:
    """What it comes to."""
    problems = sum(finding.severity == "problem" for finding in examination.findings)
    notes = sum(finding.severity == "note" for finding in examination.findings)
    counted = f"{problems} problem{'s' * (problems != 1)}, {notes} note{'s' * (notes != 1)}"
    if not examination.can_measure:
        return f"nothing can be measured here: {counted}"
    if problems:
        return f"can be measured, but not well: {counted}"
    return f"ready: {counted}; `self-test` measures how far the figures can be trusted"


def _lines_of(finding: Finding, width: int) -> Iterator[str]:
    text = finding.text + (f" -> {finding.advice}" if finding.advice else "")
    yield from _wrapped(text, width, f"{finding.severity:<{_INDENT - 2}}  "[:_INDENT])


def _wrapped(text: str, width: int, head: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    ) or [head]
