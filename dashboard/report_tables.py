"""A check's report as small tables, cells in markdown. Pure: dictionary to table, empty where there is nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard.report_text import Report, code, sentence, verdict_words
from profiling.charts.formatting import error, ratio


def parts(report: Report) -> pd.DataFrame:
    """What was tried beyond the output itself: masks, dtypes, cross-attention, gradients."""
    return _table(
        ("part", "verdict", "max error", "error ratio", "why"),
        [
            (sentence(entry["part"]), _verdict(entry), *_figures(entry), sentence(entry.get("reason") or ""))
            for entry in report.get("parts") or []
        ],
    )


def shapes(report: Report) -> pd.DataFrame:
    """The output at each shape that was run, the one asked for first."""
    return _table(
        ("shape", "verdict", "max error", "error ratio"),
        [
            (
                f"d {entry['d_model']} · h {entry['num_heads']} · b {entry['batch_size']} · s {entry['seq_len']}",
                _verdict(entry),
                *_figures(entry),
            )
            for entry in report.get("comparisons") or []
        ],
    )


def weights(report: Report) -> pd.DataFrame:
    """Which of the layer's parameters stood for which of the official layer's."""
    return _table(
        ("your parameter", "official layer's", "how it went"),
        [
            (code(entry["theirs"]), code(entry["official"]), sentence(entry["how"]))
            for entry in report.get("mapping") or []
        ],
    )


def gradients(report: Report) -> pd.DataFrame:
    """The gradient of the input and of every parameter."""
    return _table(
        ("gradient of", "verdict", "max error", "error ratio"),
        [(code(entry["name"]), _verdict(entry), *_figures(entry)) for entry in report.get("gradients") or []],
    )


def probes(report: Report) -> pd.DataFrame:
    """What special inputs brought to light."""
    return _table(
        ("probe", "finding"),
        [(sentence(entry["probe"]), sentence(entry["finding"])) for entry in report.get("probes") or []],
    )


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns), dtype=object)


def _verdict(entry: Mapping[str, Any]) -> str:
    color, words = verdict_words(entry.get("verdict", "pass"))
    return f":{color}[{words}]"


def _figures(entry: Mapping[str, Any]) -> tuple[str, str]:
    return error(entry.get("max_abs_error")), ratio(entry.get("error_ratio"))
