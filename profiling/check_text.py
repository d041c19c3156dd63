"""The report of a check as lines for a person: the verdict first, then why, what was compared, and how exactly."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from profiling.units import format_error

WIDTH = 100
LABEL_WIDTH = 15
NUM_MAPPED_SHOWN = 8

VERDICT_WORDS = {"pass": "PASS", "fail": "FAIL", "not-comparable": "NOT COMPARABLE", "error": "ERROR"}

SIZES = (("d_model", "d_model"), ("heads", "num_heads"), ("batch", "batch_size"), ("seq_len", "seq_len"))

# Parts that are told and do not decide.
BESIDE = "beside the verdict: "

Report = Mapping[str, Any]


def report_lines(
    contender: str, report: Report, *, width: int = WIDTH, asked: Mapping[str, Any] | None = None
) -> list[str]:
    """The lines that tell a report; the first is the verdict. A key that the report lacks tells nothing.

    Args:
        contender: what was checked, as it was given.
        report: as `mha.ConsistencyReport.to_dict` makes it.
        width: where lines are broken.
        asked: the sizes that were asked for, by the names of a workload; a layer that was run at others says so.
    """
    head = f"{VERDICT_WORDS.get(report['verdict'], report['verdict'])}  {contender}"
    lines = [head, *_wrapped(_other_shape(report, asked or {}), width, "  ")]
    for finding in report.get("diagnosis") or ():
        lines += _wrapped(f"-> {finding['sentence']}", width, "  ", "     ")
    lines += _wrapped(report["reason"], width, "  ")
    body = [line for label, texts in _sections(report) for line in _section(label, texts, width)]
    return [*lines, "", *body] if body else lines


def _other_shape(report: Report, asked: Mapping[str, Any]) -> str:
    """Where a layer that has its sizes was run at them: the first comparison is the one that was asked for."""
    run: Report = next(iter(report.get("comparisons") or ()), {})
    other = [(word, key) for word, key in SIZES if key in asked and key in run and run[key] != asked[key]]
    if not other:
        return ""
    told = ", ".join(f"{word} {run[key]}" for word, key in SIZES if key in run)
    return f"run at {told}: not as asked ({', '.join(f'{word} {asked[key]}' for word, key in other)})"


def _sections(report: Report) -> Iterator[tuple[str, Sequence[str]]]:
    """What the body says: a label and its paragraphs, one after the other."""
    yield "compared", _parts(report)
    yield "error", _errors(report)
    yield "worst element", _worst(report) if report["verdict"] != "pass" else []
    yield "weights", _weights(report)
    yield "unmatched", [", ".join(report["unmatched"])] if report.get("unmatched") else []
    yield "gradients", _gradients(report)
    yield "probes", [f"{entry['probe']}: {entry['finding']}" for entry in report.get("probes") or ()]
    yield "notes", report.get("notes") or []
    yield "the check", _planted(report)
    yield "what was run", [report["scope"]] if report.get("scope") else []


def _parts(report: Report) -> list[str]:
    """What failed, with the reason; what passed; what a mask means; how it went in other dtypes."""
    parts = [part for part in report.get("parts") or [] if not part["part"].startswith(BESIDE)]
    beside = [part for part in report.get("parts") or [] if part["part"].startswith(BESIDE)]
    others = [
        f"{VERDICT_WORDS.get(part['verdict'], part['verdict'])}: {part['part']}"
        + (f" - {part['reason']}" if part.get("reason") else "")
        for part in parts
        if part["verdict"] != "pass"
    ]
    passed = [part for part in parts if part["verdict"] == "pass"]
    lines = [*others, *([f"pass: {'; '.join(part['part'] for part in passed)}"] if passed else [])]
    lines += [part["reason"] for part in passed if "mask" in part["part"]]
    if beside:
        told = ", ".join(f"{part['part'].removeprefix(BESIDE)} {part['verdict']}" for part in beside)
        lines.append(f"{BESIDE}{told}")
    return lines


def _errors(report: Report) -> list[str]:
    lines = []
    if report.get("num_non_finite"):
        lines.append(f"{report['num_non_finite']} elements are NaN or infinite, all shapes together")
    if report.get("max_abs_error") is not None:
        holds = "holds" if report.get("plain_holds") else "does not hold"
        plain = f"; the plain bound {report['plain_tolerance']:g} {holds}" if report.get("plain_tolerance") else ""
        lines.append(f"{format_error(report['max_abs_error'])} at most from the official layer{plain}")
    if report.get("max_abs_error_oracle") is not None:
        theirs = report.get("official_max_abs_error_oracle")
        beside = f" (the official layer {format_error(theirs)})" if theirs is not None else ""
        lines.append(f"{format_error(report['max_abs_error_oracle'])} from float64 at the shape asked for{beside}")
    if report.get("error_ratio") is not None:
        limit = f", passes up to {report['tolerance']:g}" if report.get("tolerance") else ""
        lines.append(f"{report['error_ratio']:.3g} times what the official layer's own error explains{limit}")
    return lines


def _worst(report: Report) -> list[str]:
    compared = report.get("comparisons") or ()
    found = [entry for entry in compared if entry.get("worst") and entry.get("max_abs_error") != 0]
    if not found:
        return []
    # One that is not finite has no error to compare by; it is the worst.
    worst = max(found, key=lambda entry: (entry.get("max_abs_error") is None, entry.get("max_abs_error") or 0.0))
    batch, position, channel = worst["worst"]
    shape = ", ".join(f"{word} {worst[key]}" for word, key in SIZES)
    head = "" if worst.get("worst_head") is None else f" (of head {worst['worst_head']})"
    return [f"batch {batch}, position {position}, channel {channel}{head} at {shape}"]


def _weights(report: Report) -> list[str]:
    mapping = report.get("mapping") or []
    if not mapping:
        return []
    matched = [entry["theirs"] for entry in mapping]
    all_of_them = [*matched, *(report.get("unmatched") or [])]
    counts = []
    for noun, is_wanted in (("weights", lambda name: "bias" not in name), ("biases", lambda name: "bias" in name)):
        total = sum(map(is_wanted, all_of_them))
        if total:
            counts.append(f"{sum(map(is_wanted, matched))} of {total} {noun}")
    shown = [f"{entry['theirs']} <- {entry['official']} ({entry['how']})" for entry in mapping[:NUM_MAPPED_SHOWN]]
    rest = [f"and {len(mapping) - NUM_MAPPED_SHOWN} more"] if len(mapping) > NUM_MAPPED_SHOWN else []
    return [f"{', '.join(counts)} matched", *shown, *rest]


def _gradients(report: Report) -> list[str]:
    entries = report.get("gradients") or []
    if not entries:
        return []
    failing = [entry for entry in entries if entry["verdict"] != "pass"]
    if not failing:
        worst = max(entries, key=lambda entry: entry.get("error_ratio") or 0.0)
        return [f"{len(entries)} of {len(entries)} pass; the worst is {_gradient(worst)}"]
    num_passed = len(entries) - len(failing)
    return [f"{num_passed} of {len(entries)} pass", *(f"FAIL: {_gradient(entry)}" for entry in failing)]


def _gradient(entry: Report) -> str:
    error, ratio = entry.get("max_abs_error"), entry.get("error_ratio")
    if error is None:
        return f"{entry['name']}, not finite"
    return f"{entry['name']}, {format_error(error)}" + (f" ({ratio:.3g} times)" if ratio is not None else "")


def _planted(report: Report) -> list[str]:
    caught, total = report.get("planted_caught"), report.get("planted_total")
    return [f"{caught} of {total} planted faults caught"] if caught is not None and total else []


def _section(label: str, texts: Sequence[str], width: int) -> Iterator[str]:
    indent = " " * (LABEL_WIDTH + 2)
    for position, text in enumerate(texts):
        first = f"  {label if position == 0 else '':{LABEL_WIDTH}}"
        yield from _wrapped(text, width, first, indent)


def _wrapped(text: str, width: int, first: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
