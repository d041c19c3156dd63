"""Texts to values, in one way for the command line, the page and its address; what cannot be read raises GridError.

Numbers are read as people write them: Python would also take `1_000`, digits of other scripts, `nan` and `infinity`.
"""

from __future__ import annotations

import math
import re

from profiling.quoted import quoted
from profiling.workload import GridError

_WHOLE = re.compile(r"[+-]?[0-9]{1,100}")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_AMOUNT = re.compile(rf"(?P<number>{_DECIMAL.pattern}) *(?P<unit>[KMGT]iB)?", re.IGNORECASE)
_MIB_PER_UNIT = {"kib": 1 / 1024, "mib": 1.0, "gib": 1024.0, "tib": 1024.0**2}
_SWITCHES = {"no": False, "false": False, "off": False, "0": False, "yes": True, "true": True, "on": True, "1": True}


def parse_sizes(name: str, text: str) -> tuple[int, ...]:
    """The whole numbers in a comma-separated text such as `1,2,4`; a blank or a fraction raises GridError."""
    return tuple(_whole(part, f"{name} must be whole numbers separated by commas") for part in _parts(name, text))


def parse_number(name: str, text: str) -> int:
    """The whole number that a text holds; anything else raises GridError."""
    return _whole(text.strip(), f"{name} must be a whole number")


def parse_seconds(name: str, text: str) -> float:
    """The number of seconds that a text holds; anything else raises GridError."""
    return _decimal(text, f"{name} must be a number of seconds")


def parse_scale(name: str, text: str) -> float:
    """The number above 0 that a text holds; anything else raises GridError."""
    rule = f"{name} must be a number above 0"
    scale = _decimal(text, rule)
    if scale <= 0:
        raise GridError(f"{rule}, not {quoted(text)}")
    return scale


def parse_mib(name: str, text: str) -> float:
    """The MiB that a text such as `600`, `600MiB` or `1.5 GiB` holds; anything else raises GridError."""
    rule = f"{name} must be an amount above 0 such as 600MiB or 1.5GiB (a number alone is MiB)"
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise GridError(f"{rule}, not {quoted(text)}")
    mib = _decimal(found["number"], rule) * _MIB_PER_UNIT[(found["unit"] or "mib").lower()]
    if not 0 < mib < math.inf:
        raise GridError(f"{rule}, not {quoted(text)}")
    return mib


def parse_words(name: str, text: str) -> tuple[str, ...]:
    """The words in a comma-separated text such as `float32,bfloat16`."""
    return tuple(_parts(name, text))


def parse_switches(name: str, text: str) -> tuple[bool, ...]:
    """The truth values in a comma-separated text such as `no,yes`."""
    switches = []
    for part in _parts(name, text):
        if part.lower() not in _SWITCHES:
            raise GridError(f"{name} must be yes, no or both separated by a comma, not {quoted(part)}")
        switches.append(_SWITCHES[part.lower()])
    return tuple(switches)


def _whole(text: str, rule: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise GridError(f"{rule}, not {quoted(text)}")
    return int(text)


def _decimal(text: str, rule: str) -> float:
    number = float(text) if _DECIMAL.fullmatch(text.strip()) else math.nan
    if not math.isfinite(number):  # no number, or one that is too large to be one here
        raise GridError(f"{rule}, not {quoted(text)}")
    return number


def _parts(name: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if parts == [""]:
        raise GridError(f"{name} must hold at least one value, not an empty list")
    if "" in parts:
        raise GridError(f"{name} must have a value between any two commas, not {quoted(text)}")
    return parts
