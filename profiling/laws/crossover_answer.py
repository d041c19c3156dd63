"""What a search for a crossover has found, and how certain it is, as data and in words. Pure."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from profiling.laws.crossover_search import FASTER, LOST, SLOWER, UNSURE, Probe
from profiling.settings import MIN_REPLICATES_FOR_VERDICT

# Kinds of answers.
FROM, ALWAYS, NEVER, UNTOLD = "from", "always", "never", "untold"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Crossover:
    """Which of two contenders is faster, from which size on.

    Attributes:
        first, second: the contenders; a ratio above 1 means that the first is faster.
        axis: along which it was searched.
        probes: what was measured, by size.
        stopped: why the search ended before its time; empty where it did not.
        folders: the runs that hold what was measured.
    """

    first: str
    second: str
    axis: str
    probes: tuple[Probe, ...]
    stopped: str = ""
    folders: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[Probe, ...]:
        """The sizes with a certain sign."""
        return tuple(probe for probe in self.probes if probe.sign in (FASTER, SLOWER))

    @property
    def measured(self) -> tuple[Probe, ...]:
        """The sizes at which both were measured."""
        return tuple(probe for probe in self.probes if probe.sign != LOST)

    @property
    def changes(self) -> tuple[tuple[Probe, Probe], ...]:
        """Neighbouring certain sizes of opposite signs."""
        return tuple((a, b) for a, b in itertools.pairwise(self.told) if a.sign != b.sign)

    @property
    def kind(self) -> str:
        """`from` where the winner changes, `always` or `never` of the first contender, or `untold`.

        Always and never need a certain sign at every size that was measured.
        """
        if self.changes:
            return FROM
        if not self.told or len(self.told) < len(self.measured):
            return UNTOLD
        return ALWAYS if self.told[0].sign == FASTER else NEVER

    @property
    def winner(self) -> str | None:
        """Who is faster at the largest certain size; None where nothing is certain."""
        if not self.told:
            return None
        return self.first if self.told[-1].sign == FASTER else self.second

    @property
    def from_size(self) -> int | None:
        """The size from which on the winner is faster, up to `to_size`; None where the winner never changes."""
        return self.changes[-1][1].size if self.changes else None

    @property
    def to_size(self) -> int | None:
        """Up to where that is certain; None where it is to the last size measured, or the winner never changes."""
        if not self.changes or self.told[-1] == self.measured[-1]:
            return None
        return self.told[-1].size


def crossover_words(found: Crossover) -> list[str]:
    """The answer in a sentence, then what limits it, a sentence each."""
    said = [_answer(found)]
    if len(found.changes) > 1:
        at = "; ".join(
            f"{_who(found, small)} at {small.size:,}, {_who(found, large)} at {large.size:,}"
            for small, large in found.changes
        )
        said.append(f"the sign does not change once but {len(found.changes)} times: {at}")
    said += _lost(found)
    fewest = min((len(probe.ratios) for probe in found.measured), default=MIN_REPLICATES_FOR_VERDICT)
    if fewest < MIN_REPLICATES_FOR_VERDICT:
        said.append(f"provisional: {fewest} of the {MIN_REPLICATES_FOR_VERDICT} replicates needed")
    if found.stopped:
        said.append(f"the search ended early: {found.stopped}")
    return said


def crossover_dict(found: Crossover) -> dict[str, Any]:
    """The answer for JSON."""
    return {
        **{"first": found.first, "second": found.second, "axis": found.axis, "kind": found.kind},
        **{"winner": found.winner, "from_size": found.from_size, "to_size": found.to_size},
        "words": crossover_words(found),
        "probes": [_probe_dict(probe) for probe in found.probes],
        **{"stopped": found.stopped or None, "runs": list(found.folders)},
    }


def probe_words(probe: Probe, first: str, second: str) -> str:
    """One measured size: `at 384 custom faster than official (1.05 [1.02, 1.08], 5 replicates)`."""
    if probe.sign == LOST:
        return f"at {probe.size:,} not compared: {probe.lost}"
    sign = {FASTER: "faster than", SLOWER: "slower than", UNSURE: "not told apart from"}.get(probe.sign, "the same as")
    return f"at {probe.size:,} {first} {sign} {second} ({_ratio(probe)}, {_replicates([probe])})"


def _answer(found: Crossover) -> str:
    axis, sizes = found.axis, [probe.size for probe in found.measured]
    if not sizes:
        return f"whether {found.first} or {found.second} is faster cannot be told: at no {axis} were both measured"
    tried = f"{axis} {sizes[0]:,}"
    if len(sizes) > 1:
        tried = f"{len(sizes)} sizes of {axis} from {sizes[0]:,} to {sizes[-1]:,}"
    if found.kind == FROM:
        return _from_words(found)
    if found.kind in (ALWAYS, NEVER):
        weakest = min(found.told, key=lambda probe: abs(_point(probe) - 1))
        how = f"nearest to even at {weakest.size:,}: {_ratio(weakest, found.winner == found.second)}"
        if found.kind == ALWAYS:
            return f"{found.first} is always faster than {found.second} at {tried} ({how}; {_all(found)})"
        return (
            f"{found.first} is never faster than {found.second} at {tried}: {found.second} is, at each of them "
            f"({how}; {_all(found)})"
        )
    unsure = [probe for probe in found.measured if probe not in found.told]
    at = ", ".join(f"{probe.size:,} ({_ratio(probe)})" for probe in unsure)
    if not found.told:
        return (
            f"whether {found.first} or {found.second} is faster cannot be told: at {tried} both are within "
            f"noise: {at}; {_all(found)}"
        )
    certain = ", ".join(f"{probe.size:,}" for probe in found.told)
    return (
        f"where one overtakes the other cannot be told: {found.winner} is faster at {axis} {certain}, and both are "
        f"within noise at {at}; {_all(found)}"
    )


def _from_words(found: Crossover) -> str:
    """Where the winner of the large end takes over for the last time."""
    before, after = found.changes[-1]
    is_second = found.winner == found.second
    until = "on" if found.to_size is None else f"to {found.to_size:,}"
    said = f"{found.winner} is faster from {found.axis} {after.size:,} {until}"
    evidence = (
        f"at {before.size:,} still slower ({_ratio(before, is_second)}), at {after.size:,} faster "
        f"({_ratio(after, is_second)})"
    )
    between = [probe for probe in found.measured if before.size < probe.size < after.size]
    if between:
        sizes = ", ".join(f"{probe.size:,} ({_ratio(probe, is_second)})" for probe in between)
        evidence += f"; in between cannot be told: both are within noise at {sizes}"
    later = [probe for probe in found.measured if probe.size > after.size and probe not in found.told]
    if later:
        evidence += "; within noise again at " + ", ".join(f"{probe.size:,}" for probe in later)
    return f"{said}: {evidence}; {_replicates([before, after, *between])}"


def _lost(found: Crossover) -> list[str]:
    lost = [probe for probe in found.probes if probe.sign == LOST]
    if not lost:
        return []
    more = f", and at {len(lost) - 1} further sizes" if len(lost) > 1 else ""
    return [f"nothing is known of {found.axis} {lost[0].size:,}: {lost[0].lost}{more}"]


def _who(found: Crossover, probe: Probe) -> str:
    return found.first if probe.sign == FASTER else found.second


def _point(probe: Probe) -> float:
    joined = probe.ratio
    assert joined is not None, "it was measured"
    return joined.speedup


def _ratio(probe: Probe, is_second: bool = False) -> str:
    """The speed-up of the first contender over the second, or the other way round, with its interval."""
    joined = probe.ratio
    assert joined is not None, "it was measured"
    low, high, point = joined.low, joined.high, joined.speedup
    if is_second:
        low, high, point = (None if high is None else 1 / high), (None if low is None else 1 / low), 1 / point
    return f"{point:.2f}" if low is None or high is None else f"{point:.2f} [{low:.2f}, {high:.2f}]"


def _all(found: Crossover) -> str:
    return _replicates(found.measured)


def _replicates(probes: Sequence[Probe]) -> str:
    counts = sorted({len(probe.ratios) for probe in probes})
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} replicate{'s' * (counts[-1] > 1)}" + (" each" if len(probes) > 1 else "")


def _probe_dict(probe: Probe) -> Mapping[str, Any]:
    joined = probe.ratio
    return {
        **{"size": probe.size, "sign": probe.sign, "replicates": len(probe.ratios), "lost": probe.lost or None},
        "ratio": joined.speedup if joined else None,
        "ratio_low": joined.low if joined else None,
        "ratio_high": joined.high if joined else None,
    }
