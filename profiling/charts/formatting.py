"""Numbers, times and names as the page shows them: those of `profiling.units`, and a dash for what is missing."""

from __future__ import annotations

import html
import math
import re
import textwrap
import unicodedata
from collections.abc import Callable
from datetime import datetime

from profiling import units

MISSING = "–"
# Of a text that others have written: a page of it would push away what was measured.
MOST_LETTERS = 600
# Letters on a line of what opens where one points at a chart.
HOVER_WIDTH = 64

_TIME_UNITS = ((1.0, "µs", 1e3), (1e3, "ms", 1.0), (math.inf, "s", 1e-3))
_MEMORY_UNITS = ((1.0, "KiB", 1024.0), (1024.0, "MiB", 1.0), (math.inf, "GiB", 1 / 1024))

# What Streamlit puts a sign in place of, escaped or not: icons, and arrows and dashes that stand alone. A letter that
# is not seen keeps them apart.
_SIGNS = re.compile(r":material/|:streamlit:|(?<!\S)(?:<->|<-|->|--|<=|>=|~=)(?!\S)")
_JOINER = "\u2060"

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
    "official-fastpath": "official layer, fast path",
}


def time_unit(milliseconds: float | None) -> tuple[str, float]:
    """The SI unit in which a time of that size reads best, and what to multiply milliseconds with."""
    return _unit(milliseconds, _TIME_UNITS)


def memory_unit(mebibytes: float | None) -> tuple[str, float]:
    """The binary unit in which a size reads best, and what to multiply mebibytes with."""
    return _unit(mebibytes, _MEMORY_UNITS)


def latency(milliseconds: float | None) -> str:
    """A call's time, three digits: `1.23 ms`."""
    return MISSING if milliseconds is None else _unless_nan(milliseconds, units.format_time, 1e-3)


def memory(mebibytes: float | None) -> str:
    """A size, three digits: `1.23 MiB`."""
    return MISSING if mebibytes is None else _unless_nan(mebibytes, units.format_mib)


def ratio(value: float | None) -> str:
    """A quotient: `1.32×`."""
    return MISSING if value is None else _unless_nan(value, units.format_ratio)


def percent(value: float | None) -> str:
    """A share, two digits or so: `1.2 %`, `12 %`."""
    return MISSING if value is None else _unless_nan(value, _percent)


def error(value: float | None) -> str:
    """An absolute error: `0.00e+00`, as the command line prints it; `inf` where an output was not finite."""
    return MISSING if value is None else _unless_nan(value, units.format_error)


def duration(seconds: float | None) -> str:
    """How long something takes: `8 s`, `3 min 20 s`, `2 h 5 min`."""
    return MISSING if seconds is None else _unless_nan(seconds, units.format_duration)


def digits(value: float | None, significant: int = 3) -> str:
    """A number with that many digits, never in powers of ten unless it is very large or small."""
    if value is None or math.isnan(value):
        return MISSING
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


def plain(text: str, most: int = MOST_LETTERS) -> str:
    """Text as it is, on one line, with nothing that markdown would take for itself; shortened to `most` letters."""
    line = shortened(" ".join(visible(text).split()), most)
    line = _SIGNS.sub(lambda found: found[0][0] + _JOINER + found[0][1:], line)
    return "".join("\\" + letter if letter in "\\`*_{}[]<>()#+-.!|$~:=&@" else letter for letter in line)


def chart_text(text: object, most: int = 60) -> str:
    """Text as it is, in a chart, which takes a subset of HTML for itself; shortened to `most` letters."""
    line = " ".join(visible(str(text)).split())
    return html.escape(shortened(line, most), quote=False)


def chart_lines(text: object, most: int = 400) -> list[str]:
    """A sentence in a chart, on lines of which each fits into what opens where one points."""
    line = shortened(" ".join(visible(str(text)).split()), most)
    return [html.escape(part, quote=False) for part in textwrap.wrap(line, HOVER_WIDTH)]


def shortened(text: str, most: int) -> str:
    """A text that is too long without its middle: its end tells as much as its beginning."""
    if len(text) <= most:
        return text
    kept = most - 1
    return text[: kept - kept // 3] + "…" + text[len(text) - kept // 3 :]


def visible(text: str) -> str:
    """Text without letters that are not seen but change how others are: they are written as their escapes."""
    return "".join(letter if _is_seen(letter) else ascii(letter)[1:-1] for letter in text)


def _is_seen(letter: str) -> bool:
    """Blanks and line breaks are; controls, marks of direction, and halves of a letter are not."""
    return letter in " \t\r\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if abs(share) >= 0.0995 else f"{share:.1%}".replace("%", " %")


def _unit(value: float | None, steps: tuple[tuple[float, str, float], ...]) -> tuple[str, float]:
    size = 0.0 if value is None or math.isnan(value) else abs(value)
    if size == 0 or math.isinf(size):
        return steps[1][1:]
    return next((name, factor) for limit, name, factor in steps if size < limit)


def _unless_nan(value: float, formatted: Callable[[float], str], factor: float = 1.0) -> str:
    return MISSING if math.isnan(value) else formatted(value * factor)
