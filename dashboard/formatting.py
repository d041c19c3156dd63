"""Numbers and times as a person reads them. Everything inside stays in the unit that its name says."""

from __future__ import annotations

import math
from datetime import datetime

MISSING = "–"

_TIME_UNITS = ((1.0, "µs", 1e3), (1e3, "ms", 1.0), (math.inf, "s", 1e-3))
_MEMORY_UNITS = ((1.0, "KiB", 1024.0), (1024.0, "MiB", 1.0), (math.inf, "GiB", 1 / 1024))

AXIS_LABELS = {
    "batch_size": "batch size",
    "seq_len": "sequence length",
    "num_heads": "heads",
    "d_model": "d_model",
    "head_dim": "head_dim",
    "dtype": "dtype",
    "mode": "mode",
    "bias": "bias",
    "causal": "causal",
    "contender": "contender",
}

CONTENDER_NAMES = {
    "custom": "explicit layer",
    "custom-fused": "fused layer",
    "official": "official layer",
    "official-fused": "official layer, fused call",
}


def time_unit(milliseconds: float | None) -> tuple[str, float]:
    """The SI unit in which a time of that size reads best, and what to multiply milliseconds with."""
    return _unit(milliseconds, _TIME_UNITS)


def memory_unit(mebibytes: float | None) -> tuple[str, float]:
    """The binary unit in which a size reads best, and what to multiply mebibytes with."""
    return _unit(mebibytes, _MEMORY_UNITS)


def latency(milliseconds: float | None) -> str:
    """A call's time, three digits: `1.23 ms`."""
    if _is_missing(milliseconds):
        return MISSING
    unit, factor = time_unit(milliseconds)
    return f"{digits(milliseconds * factor)} {unit}"  # type: ignore[operator]


def memory(mebibytes: float | None) -> str:
    """A size, three digits: `1.23 MiB`."""
    if _is_missing(mebibytes):
        return MISSING
    unit, factor = memory_unit(mebibytes)
    return f"{digits(mebibytes * factor)} {unit}"  # type: ignore[operator]


def ratio(value: float | None) -> str:
    """A quotient: `1.32×`."""
    if _is_missing(value):
        return MISSING
    assert value is not None
    return f"{value:.2f}×" if 0.1 <= value < 100 else f"{digits(value)}×"


def error(value: float | None) -> str:
    """An absolute error: `0.00e+00`, as the command line prints it; `inf` where an output was not finite."""
    return MISSING if _is_missing(value) else f"{value:.2e}"


def duration(seconds: float | None) -> str:
    """How long something takes: `8 s`, `3 min 20 s`, `2 h 5 min`."""
    if _is_missing(seconds):
        return MISSING
    whole = max(0, round(seconds))  # type: ignore[arg-type]
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def digits(value: float | None, significant: int = 3) -> str:
    """A number with that many digits, never in powers of ten unless it is very large or small."""
    if _is_missing(value):
        return MISSING
    assert value is not None
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    if not -4 <= exponent <= 6:
        return f"{value:.{significant - 1}e}"
    return f"{value:,.{max(0, significant - 1 - exponent)}f}"


def clock(moment: str | None) -> str:
    """The local time of day of an ISO 8601 moment: `19:08:31`."""
    local = local_time(moment)
    return MISSING if local is None else f"{local:%H:%M:%S}"


def day_and_time(moment: str | None) -> str:
    """The local date and time of an ISO 8601 moment: `2026-03-01 19:08`."""
    local = local_time(moment)
    return MISSING if local is None else f"{local:%Y-%m-%d %H:%M}"


def local_time(moment: str | None) -> datetime | None:
    """An ISO 8601 moment in this machine's time zone, or None where the text is none."""
    try:
        return datetime.fromisoformat(moment or "").astimezone()
    except (ValueError, OverflowError):
        return None


def axis_label(axis: str) -> str:
    """An axis as a title: `sequence length`."""
    return AXIS_LABELS.get(axis, axis)


def axis_value(axis: str, value: object) -> str:
    """A value of an axis, short: a size as it is, a switch as yes or no."""
    if axis in ("bias", "causal"):
        return "yes" if value else "no"
    return str(value)


def count(number: int, thing: str) -> str:
    """`1 point`, `12 points`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def plain(text: str) -> str:
    """Text as it is, with nothing that markdown would take for itself."""
    return "".join("\\" + letter if letter in "\\`*_{}[]<>()#+-.!|$~:" else letter for letter in text)


def _unit(value: float | None, units: tuple[tuple[float, str, float], ...]) -> tuple[str, float]:
    size = 0.0 if value is None or math.isnan(value) else abs(value)
    if size == 0 or math.isinf(size):
        return units[1][1:]
    return next((name, factor) for limit, name, factor in units if size < limit)


def _is_missing(value: float | None) -> bool:
    return value is None or math.isnan(value)
