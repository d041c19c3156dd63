"""A run in Markdown, short enough for a pull request: what may be claimed, at which shapes, on what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from profiling.charts.formatting import MISSING, count, error, latency, memory, ratio, shortened, visible
from profiling.charts.headline_text import claim
from profiling.charts.names import name_of, names_of
from profiling.charts.summary import Headline
from profiling.report.content import Content, facts_of

# Rows of the table of shapes, which is folded away: what is beyond stands in the HTML report and the CSV.
MOST_ROWS = 40
MOST_REASONS = 8
_CELL_LETTERS = 200
# What GitHub and others take for something: markup, and mentions of a person or an issue.
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~@$&])")


def markdown_summary(content: Content) -> str:
    """The summary, in GitHub's Markdown; what others have named is text in it and nothing else."""
    run = content.run
    lost = [f"{count(n, 'row')} {status}: {why or 'no reason was given'}" for status, why, n in content.unmeasured]
    parts = [
        f"## mha-bench: {', '.join(plain(name_of(each.contender)) for each in content.headlines) or 'no comparison'}",
        _headlines(content.headlines),
        *_list("Not measured", lost),
        *_list("Not read", content.problems),
        _folded("Every shape", _shapes(content.table)),
        _folded("Warnings", _items([f"{count(number, 'row')}: {text}" for text, number in content.warned])),
        _folded("Growth and limits", _items([*content.limit_words, *content.laws])),
        _folded("Measured on", _table(["what", "value"], facts_of(run).items())),
        f"State: {plain(run.state)}{plain(': ' + run.state_reason) if run.state_reason else ''}. "
        f"Run {plain(run.run_id)}; again:",
        _code(content.command),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text: object, most: int = _CELL_LETTERS) -> str:
    """Text as it is, on one line, with nothing that Markdown would take for itself."""
    line = shortened(" ".join(visible(str(text)).split()), most)
    line = _SPECIAL.sub(r"\\\1", line).replace("://", ":\u2060//").replace("www.", "www\u2060.")
    # A mention is one whether or not its sign is escaped.
    return line.replace("\\@", "@\u2060").replace("\\#", "#\u2060")


def _headlines(headlines: Sequence[Headline]) -> str:
    if not headlines:
        return "Nothing was compared."
    columns = ["layer", "next to", "check", "speed-up", "may be claimed", "peak memory", "max error", "shapes"]
    names = names_of(headline.contender for headline in headlines)
    rows = [
        (
            names[each.contender],
            each.reference,
            _check(each),
            _speedup(each),
            claim(each) if each.verdicts else MISSING,
            ratio(each.memory_ratio),
            error(each.max_abs_error),
            f"{each.num_speedups} of {each.num_speedups + each.num_failed_checks + each.num_unmeasured}",
        )
        for each in headlines
    ]
    return _table(columns, rows)


def _check(headline: Headline) -> str:
    passed = headline.num_checked - headline.num_failed_checks - headline.num_not_comparable
    if headline.num_failed_checks:
        return f"❌ fails at {headline.num_failed_checks} of {headline.num_checked}"
    if headline.num_not_comparable:
        return f"another design at {headline.num_not_comparable} of {headline.num_checked}"
    return f"✅ passes at {passed} of {headline.num_checked}" if headline.num_checked else MISSING


def _speedup(headline: Headline) -> str:
    interval = headline.interval
    return ratio(headline.speedup) + (f" [{ratio(interval[0])}, {ratio(interval[1])}]" if interval else "")


def _shapes(table: pd.DataFrame) -> str:
    columns = ["layer", "batch", "seq_len", "heads", "d_model", "latency", "speed-up", "verdict", "memory", "max error"]
    names = names_of(table["contender"].unique())
    shown = table.head(MOST_ROWS).astype(object)
    rows = [_shape(row, names) for row in shown.where(shown.notna(), None).to_dict("records")]
    more = len(table) - len(rows)
    return _table(columns, rows) + (f"\n\n{more:,} more rows stand in the HTML report and the CSV." if more else "")


def _shape(row: dict[Any, Any], names: dict[str, str]) -> tuple[Any, ...]:
    sizes = (row["batch_size"], row["seq_len"], row["num_heads"], row["d_model"])
    if row["status"] != "ok":
        return (names[row["contender"]], *sizes, row["status"], *[MISSING] * 4)
    interval = (
        f" [{ratio(row['speedup_low'])}, {ratio(row['speedup_high'])}]"
        if row["speedup_low"] is not None and row["speedup_high"] is not None
        else ""
    )
    return (
        *(names[row["contender"]], *sizes, latency(row["latency_median_ms"])),
        *(ratio(row["speedup"]) + interval, row["speed_verdict"] or MISSING),
        *(memory(row["peak_memory_mib"]), error(row["max_abs_error"])),
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(plain(cell) for cell in row)} |" for row in rows)])


def _list(title: str, sentences: Sequence[str]) -> list[str]:
    return [f"**{title}**\n\n{_items(sentences)}"] if sentences else []


def _items(sentences: Sequence[str]) -> str:
    lines = [f"- {plain(sentence, 600)}" for sentence in sentences[:MOST_REASONS]]
    more = len(sentences) - len(lines)
    return "\n".join([*lines, *([f"- {more:,} more stand in the HTML report."] if more else [])])


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>" if body else ""


def _code(text: str) -> str:
    """A block of code, fenced by more marks than any that stand in it."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{visible(text)}\n{fence}"
