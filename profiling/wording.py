"""Contenders and workloads in few characters, for tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


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


def cut_middle(text: str, width: int) -> str:
    """A text of at most `width` characters: the middle of a longer one gives way to an ellipsis."""
    if len(text) <= width:
        return text
    end = (width - 1) * 2 // 3
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
