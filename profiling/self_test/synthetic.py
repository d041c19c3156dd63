"""How often the intervals hold a truth that is known: on times drawn at random, through the code that joins a run's."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator

from profiling.ratios import join_replicates, paired_speedup

TRUTH = 1.07
NUM_ROUNDS = 11
NUM_DRAWS = 400


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """A made-up machine.

    Attributes:
        between: deviation of the log ratio from process to process.
        within: deviation of a log time from round to round, of each layer for itself.
        drift: deviation of the log time from round to round that hits both layers alike.
        disturbed: share of the samples that something else makes up to ten times as long.
    """

    name: str
    between: float
    within: float
    drift: float
    disturbed: float


MACHINES = (
    Machine(name="quiet", between=0.002, within=0.005, drift=0.0, disturbed=0.0),
    Machine(name="uneven processes", between=0.03, within=0.01, drift=0.05, disturbed=0.01),
    Machine(name="busy", between=0.01, within=0.05, drift=0.3, disturbed=0.1),
)


def coverage(machine: Machine, num_replicates: int, num_compared: int, rng: random.Random) -> tuple[int, int]:
    """How many of the draws have intervals that hold the truth of all compared contenders together, and how many draws.

    Args:
        machine: what disturbs the times.
        num_replicates: processes behind one interval.
        num_compared: contenders of one point; the verdict is corrected for them.
        rng: where the numbers come from.
    """
    hits = 0
    for _ in range(NUM_DRAWS):
        joined = [
            join_replicates([_speedup(machine, rng) for _ in range(num_replicates)], num_compared)
            for _ in range(num_compared)
        ]
        hits += all(found.holds(TRUTH) for found in joined)
    return hits, NUM_DRAWS


def all_coverages(seed: int) -> Iterator[tuple[Machine, int, int, int, int]]:
    """Machine, replicates, compared contenders, hits and draws, for every combination."""
    rng = random.Random(seed)
    for machine in MACHINES:
        for num_replicates, num_compared in ((5, 1), (5, 3), (8, 1)):
            hits, draws = coverage(machine, num_replicates, num_compared, rng)
            yield machine, num_replicates, num_compared, hits, draws


def _speedup(machine: Machine, rng: random.Random) -> float:
    """What one process would report."""
    truth = TRUTH * math.exp(rng.gauss(0, machine.between))
    reference_times, times = [], []
    for _ in range(NUM_ROUNDS):
        common = math.exp(rng.gauss(0, machine.drift))
        reference_times.append(common * truth * _noise(machine, rng))
        times.append(common * _noise(machine, rng))
    return paired_speedup(reference_times, times)


def _noise(machine: Machine, rng: random.Random) -> float:
    slowed = rng.uniform(1, 10) if rng.random() < machine.disturbed else 1.0
    return slowed * math.exp(rng.gauss(0, machine.within))
