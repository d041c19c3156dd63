"""A self-test on the disk and on a terminal: its table, its raw ratios, and what it was made on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling.columns import Column
from profiling.run_writer import to_csv
from profiling.runs import RunError, now
from profiling.safe_files import write_aside
from profiling.self_test.findings import Finding
from profiling.self_test.settings import REAL, REFERENCE
from profiling.self_test.trials import Trial

if TYPE_CHECKING:
    from profiling.self_test.run import SelfTest

TABLE_FILE, RATIOS_FILE, ABOUT_FILE = "self-test.csv", "ratios.csv", "about.json"
PARTS = {
    "a": f"{REFERENCE} against itself: is a difference claimed that is not there?",
    "b": f"A known slow-down of {REFERENCE}: is it found (as the only one compared), and how well is its size told?",
    "c": f"The speed-up of {REAL}, launched again and again: how far does it move (deviation of its logarithm)?",
    "d": "What does the harness cost?",
    "e": "Made-up numbers with a known truth, the same on every machine: does the interval hold it?",
}
NAME_WIDTH = 40


def require_writable(folder: Path) -> None:
    """Makes the folder, so that what cannot be written is known before anything is measured.

    Raises:
        RunError: it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder} cannot be made: {error}") from error
    write_aside(folder / ABOUT_FILE, json.dumps({"started_at": now()}) + "\n")


def write_record(ended: SelfTest, folder: Path) -> None:
    """Writes the table, the raw ratios and the environment into `folder`.

    Raises:
        RunError: it cannot be written.
    """
    about = {
        "ended_at": now(),
        "stop_reason": ended.stop_reason,
        "settings": dataclasses.asdict(ended.settings),
        "environment": ended.environment,
    }
    write_aside(folder / ABOUT_FILE, json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    write_aside(folder / RATIOS_FILE, _csv(Trial, ended.trials))
    write_aside(folder / TABLE_FILE, _csv(Finding, ended.findings))


def table_lines(findings: Sequence[Finding]) -> list[str]:
    """The findings as lines for a terminal, part by part."""
    lines: list[str] = []
    for part, question in PARTS.items():
        mine = [finding for finding in findings if finding.part == part]
        if not mine:
            continue
        lines.append(f"{part}  {question}")
        workload = ""
        for finding in mine:
            if finding.workload != workload:
                workload = finding.workload
                lines.append(f"     {workload}")
            lines.append(_line(finding))
    return lines


def verdict_line(findings: Sequence[Finding]) -> str:
    """What it all comes to, in one sentence."""
    refuted = [finding.what for finding in findings if finding.refutes]
    missed = sum(finding.is_met is False for finding in findings)
    undecided = sum(bool(finding.aim) and finding.is_met is None for finding in findings)
    if refuted:
        return f"REFUTED by more than chance: {', '.join(refuted)}. Do not trust figures from this machine as it is"
    told = "nothing is refuted"
    told += f", {missed} aim{'s' * (missed > 1)} missed" if missed else ""
    told += f", {undecided} open: make more --sets" if undecided else ""
    return told + ("" if missed or undecided else ", every aim is met")


def _line(finding: Finding) -> str:
    value = "–" if finding.value is None else _shown(finding.value, finding.unit)
    interval = ""
    if finding.low is not None and finding.high is not None:
        interval = f"[{_shown(finding.low, finding.unit)}, {_shown(finding.high, finding.unit)}]"
    line = f"     {finding.what:<{NAME_WIDTH}}  {value:>7}  {interval:<15}  {finding.count}"
    if finding.aim:
        line += f"; aim {finding.aim}: " + {True: "met", False: "MISSED", None: "open"}[finding.is_met]
    return line.rstrip()


def _shown(value: float, unit: str) -> str:
    return f"{value:.1%}" if unit == "share" else f"{value:.2f}{unit}"


def _csv(kind: type[Any], rows: Sequence[Any]) -> str:
    columns = tuple(Column(field.name, "text", "") for field in dataclasses.fields(kind))
    return to_csv(columns, [dataclasses.asdict(row) for row in rows], header=True)
