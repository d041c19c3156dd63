"""Values as an error message shows them: as Python writes them, and never longer than a person reads."""

from __future__ import annotations

import math

from profiling.wording import cut_middle

WIDTH = 80
# Python refuses to write out an int of more than some thousand digits; nobody reads a hundred.
_MAX_DIGITS = 100


def quoted(value: object, width: int = WIDTH) -> str:
    """The value as Python writes it, control characters escaped, in at most `width` characters."""
    if isinstance(value, int) and not -(10**_MAX_DIGITS) < value < 10**_MAX_DIGITS:
        kind = "a negative number" if value < 0 else "a number"
        return f"{kind} of about {int(value.bit_length() * math.log10(2)) + 1:,} digits"
    try:
        text = repr(value)
    except Exception:  # whatever a stranger's type raises, or a huge int within a list: the message must still be told
        text = f"a {type(value).__name__}"
    return cut_middle(text if text.isprintable() else ascii(text), width)
