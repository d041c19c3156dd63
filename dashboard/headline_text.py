"""The small print under a headline: over how many shapes it speaks, and which it leaves out."""

from __future__ import annotations

from dashboard.formatting import count
from dashboard.summary import Headline


def headline_caption(headline: Headline) -> str:
    """What the numbers of a headline rest on, in one or two short sentences."""
    parts = [f"mean over {count(headline.num_speedups, 'shape')}" if headline.num_speedups else "no speed-up to tell"]
    if headline.num_failed_checks:
        parts.append(
            f":red[**check not passed at {headline.num_failed_checks} of {headline.num_checked}**]: these do not count"
        )
    elif headline.num_checked:
        parts.append(f"check passed at {headline.num_checked} of {headline.num_checked}")
    if headline.num_unmeasured:
        parts.append(f"{headline.num_unmeasured} not measured")
    return " · ".join(parts)
