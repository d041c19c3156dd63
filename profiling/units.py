"""Numbers as a person reads them. Inside, every time is in seconds or in the unit of its name; this is the edge."""

from __future__ import annotations

import math

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def format_time(seconds: float) -> str:
    """A measured time with three digits and its own unit: `12.3 ms`."""
    for size, unit in _TIMES:
        if seconds >= 0.9995 * size:  # rounds to 1.00 of this unit
            return f"{_three_digits(seconds / size)} {unit}"
    return "0 s" if seconds == 0 else f"{seconds / 1e-9:.2g} ns"


def format_duration(seconds: float) -> str:
    """A wait, no more exact than it deserves: `8 s`, `3 min 20 s`, `45 min`, `2 h 5 min`, `3 days`, `40 years`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days = round(seconds / 86_400)
    return f"{days} days" if days < 2 * 365 else f"{round(days / 365.25):,} years"


def format_mib(mib: float) -> str:
    """An amount of memory given in MiB, with three digits and a binary unit: `128 MiB`, `1.5 GiB`, `3.64 TiB`."""
    if mib >= 1023.5 * 1024:
        return f"{_three_digits(mib / 1024**2)} TiB"
    if mib >= 1023.5:
        return f"{_three_digits(mib / 1024)} GiB"
    if mib >= 1023.5 / 1024 or mib == 0:
        return f"{_three_digits(mib)} MiB"
    return f"{_three_digits(mib * 1024)} KiB"


def format_ratio(ratio: float) -> str:
    """How many times: `1.32×`."""
    return f"{_three_digits(ratio)}×"


def format_error(error: float) -> str:
    """A numerical error: `0.00e+00`, `1.19e-07`, `inf`."""
    return f"{error:.2e}" if math.isfinite(error) else str(error)


def _three_digits(value: float) -> str:
    if value >= 99.95 or value == 0:
        return f"{value:,.0f}"
    if value < 0.1:
        return f"{value:.3g}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
