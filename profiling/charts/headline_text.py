"""The small print under a headline: what may be claimed, over how many shapes it speaks, and which it leaves out."""

from __future__ import annotations

from profiling.charts.formatting import count, percent, plain, ratio
from profiling.charts.summary import Headline
from profiling.ratios import SMALLEST_CLAIM
from profiling.settings import MIN_REPLICATES_FOR_VERDICT

_CLAIM = f"{SMALLEST_CLAIM * 100:g} %"
_MARGIN = f"1 ± max({_CLAIM}, noise floor)"
# What each verdict on speed means.
SPEED_RULES = {
    "faster": f"the 95 % interval lies wholly above {_MARGIN}",
    "slower": f"the 95 % interval lies wholly below {_MARGIN}",
    "same": f"the 95 % interval lies wholly within 1 ± {_CLAIM}, and the noise floor is no larger",
    "unsure": "the interval reaches across that edge, or a clone of the reference seems to differ from it as well",
    "provisional": f"with fewer than {MIN_REPLICATES_FOR_VERDICT} replicates nothing can be claimed",
}


def headline_caption(headline: Headline) -> str:
    """What the numbers of a headline rest on, in a few short sentences."""
    parts = [f"mean over {count(headline.num_speedups, 'shape')}" if headline.num_speedups else "no speed-up to tell"]
    parts += [f"interval {ratio(headline.interval[0])} to {ratio(headline.interval[1])}"] if headline.interval else []
    parts += [claim(headline)] if headline.verdicts else []
    parts += [f"noise floor {percent(headline.noise_floor)}"] if headline.noise_floor is not None else []
    parts += _checks(headline)
    if headline.num_unmeasured:
        parts.append(f"{headline.num_unmeasured:,} not measured")
    return " · ".join(parts)


def claim(headline: Headline) -> str:
    """What may be claimed of the speed-ups: `provisional (1 replicate)`, or `faster at 3, unsure at 5 of 8`."""
    if [verdict for verdict, _ in headline.verdicts] == ["provisional"]:
        fewest, most = headline.replicates
        return f"provisional ({count(most, 'replicate') if fewest == most else f'{fewest} to {most} replicates'})"
    total = sum(number for _, number in headline.verdicts)
    return ", ".join(f"{verdict} at {number:,}" for verdict, number in headline.verdicts) + f" of {total:,}"


def claim_help(headline: Headline) -> str:
    """What the verdicts rest on: the one shape's own reason, or the rule behind each verdict that occurs."""
    lines = [
        f"**{verdict}** at {number:,}: {plain(headline.reason or SPEED_RULES[verdict])}."
        for verdict, number in headline.verdicts
    ]
    if headline.noise_floor is not None:
        lines.append(
            "The **noise floor** is how far a clone of the reference, timed in the same rounds, strayed from 1: the "
            "median over these shapes. A speed-up within it says nothing."
        )
    return "\n\n".join(lines)


def _checks(headline: Headline) -> list[str]:
    total, failed, apart = headline.num_checked, headline.num_failed_checks, headline.num_not_comparable
    told = []
    if failed:
        told.append(f":red[**check not passed at {failed:,} of {total:,}**]: these do not count")
    elif total > apart:
        told.append(f"check passed at {total - apart:,} of {total:,}")
    if apart:
        told.append(
            f"≠ not comparable at {apart:,} of {total:,} (weights have no counterpart): timed with its own weights"
        )
    return told
