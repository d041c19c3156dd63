"""A check's report in words: verdict, figures, diagnosis. Pure: the report's dictionary to text.

A report of an older engine lacks some keys; what it does not hold has no words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from profiling.charts.formatting import MISSING, MOST_LETTERS, count, error, plain, ratio, shortened, visible

Report = Mapping[str, Any]

# A verdict's reason names every shape and part that failed, and all of it matters.
MOST_LETTERS_OF_A_SENTENCE = 4_000

# Icon, word and colour: never colour alone.
VERDICTS = {
    "pass": ("green", "✓ pass"),
    "fail": ("red", "✘ fail"),
    "not-comparable": ("orange", "≠ not comparable"),
    "error": ("red", "! error"),
}


def verdict_words(verdict: object) -> tuple[str, str]:
    """The colour of a verdict, and its icon and word."""
    return VERDICTS.get(str(verdict), ("gray", f"{MISSING} {str(verdict).replace('-', ' ')}"))


def measured(report: Report) -> str:
    """The error at the shape asked for, which is the first comparison."""
    asked = next(iter(report.get("comparisons") or []), report)
    if asked.get("num_non_finite"):
        return f"not finite ({count(asked['num_non_finite'], 'element')})"
    return error(asked.get("max_abs_error"))


def evidence(report: Report) -> str:
    """The figures behind the verdict, in a few short sentences of markdown."""
    parts = []
    if report.get("error_ratio") is not None:
        limit = f"passes up to {report['tolerance']:g}×"
        parts.append(f"Error ratio against float64 **{ratio(report['error_ratio'])}** ({limit}).")
    if report.get("plain_holds") is not None:
        sign = "below" if report["plain_holds"] else "not below"
        shapes = count(len(report["comparisons"]), "shape")
        parts.append(
            f"Largest error over {shapes} {error(report['max_abs_error'])}, {sign} {report['plain_tolerance']:.0e}."
        )
    if report.get("torch_version"):
        parts.append(f"torch {report['torch_version']}.")
    return " ".join(parts).replace("~", "\\~").replace("$", "\\$")


def diagnosis(report: Report) -> list[tuple[str, str]]:
    """What explains a mismatch, the likeliest first: the fault's name, and a sentence with the cure."""
    return [(str(entry["fault"]), str(entry["sentence"])) for entry in report.get("diagnosis") or []]


def planted(report: Report) -> str:
    """How well the checker checks itself: `14 of 14 planted faults caught`."""
    total = report.get("planted_total")
    return f"{report.get('planted_caught', 0)} of {total} planted faults caught" if total else ""


def gradients(report: Report) -> str:
    """Whether the gradients are right, in a few signs: `gradients ✓`."""
    verdicts = [entry.get("verdict") for entry in report.get("gradients") or []]
    if not verdicts:
        return ""
    wrong = sum(verdict != "pass" for verdict in verdicts)
    return f"gradients ✘ ({wrong} of {len(verdicts)})" if wrong else "gradients ✓"


def worst_place(report: Report) -> str:
    """Where the largest error of the shape asked for lies: `batch 1, position 5, channel 37`, each counted from 0."""
    asked = next(iter(report.get("comparisons") or []), {})
    worst = asked.get("worst")
    if not worst or not asked.get("max_abs_error"):
        return ""
    names = ("batch", "position", "channel")
    head = "" if asked.get("worst_head") is None else f" (of head {asked['worst_head']})"
    return ", ".join(f"{name} {at}" for name, at in zip(names, worst, strict=False)) + head


def weights_moved(report: Report) -> str:
    """How many of the layer's parameters have a counterpart in the official layer: `4 of 5`."""
    mapped = len(report.get("mapping") or [])
    total = mapped + len(report.get("unmatched") or [])
    return f"{mapped} of {total}" if total else ""


def code(name: object) -> str:
    """A name as code in markdown, whatever letters are in it."""
    text = shortened(" ".join(visible(str(name)).split()), MOST_LETTERS)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text or ' '}`"


def sentence(text: object) -> str:
    """A sentence of the engine as markdown: it is text and nothing else, line breaks kept."""
    return "  \n".join(plain(line, MOST_LETTERS_OF_A_SENTENCE) for line in str(text).splitlines())
