"""The small print under a headline: what may be claimed, over how many shapes it speaks, and which it leaves out."""

from __future__ import annotations

from dashboard.formatting import count
from dashboard.summary import Headline


def headline_caption(headline: Headline) -> str:
    """What the numbers of a headline rest on, in a few short sentences."""
    parts = [f"mean over {count(headline.num_speedups, 'shape')}" if headline.num_speedups else "no speed-up to tell"]
    parts += [claim(headline)] if headline.verdicts else []
    parts += _checks(headline)
    if headline.num_unmeasured:
        parts.append(f"{headline.num_unmeasured} not measured")
    return " · ".join(parts)


def claim(headline: Headline) -> str:
    """What may be claimed of the speed-ups: `provisional (1 replicate)`, or `faster at 3, unsure at 5 of 8`."""
    if [verdict for verdict, _ in headline.verdicts] == ["provisional"]:
        fewest, most = headline.replicates
        return f"provisional ({count(most, 'replicate') if fewest == most else f'{fewest} to {most} replicates'})"
    total = sum(number for _, number in headline.verdicts)
    return ", ".join(f"{verdict} at {number}" for verdict, number in headline.verdicts) + f" of {total}"


def _checks(headline: Headline) -> list[str]:
    total, failed, apart = headline.num_checked, headline.num_failed_checks, headline.num_not_comparable
    told = []
    if failed:
        told.append(f":red[**check not passed at {failed} of {total}**]: these do not count")
    elif total > apart:
        told.append(f"check passed at {total - apart} of {total}")
    if apart:
        told.append(f"≠ not comparable at {apart} of {total} (weights have no counterpart): timed with its own weights")
    return told
