"""Contenders, workloads and what others have written, in few characters: for tables on a terminal and for rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# A spreadsheet takes a text that begins so for a formula, also behind what cannot be seen, and in full width.
_FORMULA = re.compile(r"^[\s\u200b-\u200f\u2060\ufeff]*[=+\-@\t\r＝＋－＠]")


def workload_words(row: Mapping[str, Any]) -> str:
    """A row's sizes in short, and what is unusual about its workload."""
    words = f"b {row['batch_size']} s {row['seq_len']} h {row['num_heads']} d {row['d_model']}"
    unusual = [row["dtype"]] if row["dtype"] != "float32" else []
    unusual += ["training"] if row["mode"] == "training" else []
    unusual += [name for name in ("bias", "causal") if row[name]]
    return " ".join([words, *unusual])


def short_names(contenders: Sequence[str]) -> dict[str, str]:
    """Contender → the end of its path, `file.py:Name`, with as many folders as tell it from the others."""
    parts = {name: name.replace("\\", "/").split("/") for name in contenders}
    ends = {
        name: ["/".join(parts[name][-count:]) for count in range(1, len(parts[name]) + 1)]
        for name in dict.fromkeys(contenders)
    }
    taken = [end for each in ends.values() for end in each]
    return {name: next((end for end in each if taken.count(end) == 1), name) for name, each in ends.items()}


def counted(number: int, what: str) -> str:
    """`1 row`, `3,000 rows`."""
    return f"{number:,} {what}" + ("s" if number != 1 else "")


def measured_words(done: int, total: int, replicates: int) -> str:
    """`3 of 12 points measured`; of a run with replicates the points of all of them, and it is said so."""
    together = f", {replicates:,} replicates together" if replicates > 1 else ""
    return f"{done:,} of {counted(total, 'point')} measured{together}"


def as_percent(share: float) -> str:
    """`5 %`, `2.31 %`: a share in three digits at most."""
    return f"{100 * share:.3g} %"


def rounded_percent(share: float, places: int = 1) -> str:
    """`5 %`, `2.3 %`: a share to so many places, without a last zero."""
    said = f"{100 * share:,.{places}f}"
    return (said.rstrip("0").rstrip(".") if places else said) + " %"


def one_line(text: str, width: int) -> str:
    """A text that may hold anything, in one line of at most `width` characters, with what cannot be shown escaped."""
    # Ten times as much as can be shown is looked at: whoever wrote it may have written a gigabyte.
    words = " ".join(text[: 10 * width].split())
    shown = "".join(letter if letter.isprintable() else _escaped(letter) for letter in words)
    return shown if len(shown) <= width and len(text) <= 10 * width else f"{shown[: width - 1]}…"


def is_formula(text: str) -> bool:
    """Whether a spreadsheet takes a text for a formula."""
    return _FORMULA.match(text) is not None


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def cut_middle(text: str, width: int) -> str:
    """A text of at most `width` characters: the middle of a longer one gives way to an ellipsis."""
    if len(text) <= width:
        return text
    end = (width - 1) * 2 // 3
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
