"""What a contender is called in a title or a legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from profiling.layers import COMPILED, inner_of, is_compiled


def name_of(contender: str) -> str:
    """The class or function of one's own layer, for a title; a built-in contender's own name. Compiled ones say so."""
    return (COMPILED if is_compiled(contender) else "") + inner_of(contender).rpartition(":")[2]


def names_of(contenders: Iterable[str]) -> dict[str, str]:
    """Each contender's name as `name_of` has it, or in full where two of them would share it."""
    known = list(dict.fromkeys(contenders))
    times = Counter(name_of(contender) for contender in known)
    return {contender: name_of(contender) if times[name_of(contender)] == 1 else contender for contender in known}


def file_of(contender: str) -> str:
    """The file of one's own layer, as given; empty for a built-in contender."""
    return inner_of(contender).rpartition(":")[0]
