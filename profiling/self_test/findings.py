"""What a self-test found, from its raw ratios: pure arithmetic, one finding a line of the table."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from profiling.intervals import LEVEL, proportion_interval
from profiling.ratios import SMALLEST_CLAIM, Joined, join_replicates, speed_verdict, stray
from profiling.self_test.settings import PLANTED, REAL
from profiling.self_test.synthetic import Machine
from profiling.self_test.trials import CONTROL, ONE_AFTER_OTHER, PAIRED, Trial

MOST_FALSE_CLAIMS = 0.05
LARGEST_SPREAD_RATIO = 1 / 3
LARGEST_HARNESS_COST = 1.5
# What differs between processes is not quite normal, so real intervals of few hold the truth a little less often than
# their level says.
LEAST_HELD = 0.9
CLAIMS = ("faster", "slower")
# Of fewer verdicts even none that is wrong says little.
MIN_VERDICTS = 30
# The coverage on made-up numbers is held to its level within this many standard errors.
STANDARD_ERRORS = 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the table.

    Attributes:
        part: `a` to `e`, as in the table.
        what: the question.
        workload: where; empty where it is over all.
        value: the answer, a share or a ratio (see `unit`); None where nothing was measured that could give it.
        unit: `share` (0 to 1) or `×`.
        low, high: the 95 % interval of the value, where there is one.
        count: on what it rests, in words: `0 of 60 verdicts`.
        aim: what the value should be at most (`<=`) or at least (`>=`), in words; empty where none is set.
        is_met: whether it is; None without an aim or without a value.
        refutes: whether the miss is more than chance: then the measuring is not what it claims to be.
    """

    part: str
    what: str
    workload: str = ""
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    count: str = ""
    aim: str = ""
    is_met: bool | None = None
    refutes: bool = False


def findings_of_trials(trials: Sequence[Trial]) -> list[Finding]:
    """Parts a, b and c: claims where there is nothing, planted slow-downs, and the spread from launch to launch."""
    sets = _verdicts(trials)
    workloads = list(dict.fromkeys(trial.workload for trial in trials))
    found = [_false_claims(sets), *_naive_claims(trials)]
    for name, slowdown in PLANTED.items():
        if slowdown > 1:
            found += _planted(name, slowdown, sets)
    found.append(_held_truth(sets))
    for workload in workloads:
        found += _spread([trial for trial in trials if trial.workload == workload], workload)
    return found


def finding_of_cost(wall_s: float, timed_s: float) -> Finding:
    """Part d: the harness's own cost."""
    cost = wall_s / timed_s
    return Finding(
        part="d",
        what="wall time of a sweep / its timed samples",
        value=cost,
        unit="×",
        count=f"{wall_s:.1f} s for {timed_s:.1f} s, budget 1 s",
        aim=f"<= {LARGEST_HARNESS_COST:g}",
        is_met=cost <= LARGEST_HARNESS_COST,
    )


def finding_of_coverage(machine: Machine, num_replicates: int, num_compared: int, hits: int, draws: int) -> Finding:
    """Part e: coverage on made-up numbers with a known truth."""
    share = hits / draws
    low, high = proportion_interval(hits, draws)
    least = LEVEL - STANDARD_ERRORS * math.sqrt(LEVEL * (1 - LEVEL) / draws)
    compared = f", {num_compared} at once" if num_compared > 1 else ""
    return Finding(
        part="e",
        what=f"{machine.name}, {num_replicates} replicates{compared}",
        value=share,
        unit="share",
        low=low,
        high=high,
        count=f"{hits} of {draws}",
        aim=f">= {LEVEL:.0%} but for chance",
        is_met=share >= least,
        refutes=share < least,
    )


Verdicts = Mapping[str, list[tuple[Joined, str]]]


def _verdicts(trials: Sequence[Trial]) -> Verdicts:
    """Contender → what each set and workload says of it, as a sweep with that one contender would."""
    ratios: dict[tuple[int, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        if trial.method == PAIRED:
            ratios[trial.set_number, trial.workload][trial.contender].append(trial.speedup)
    found: dict[str, list[tuple[Joined, str]]] = defaultdict(list)
    for of_set in ratios.values():
        clone = join_replicates(of_set[CONTROL])
        for name in PLANTED:
            joined = join_replicates(of_set[name])
            found[name].append((joined, speed_verdict(joined, clone)[0]))
    return found


def _false_claims(sets: Verdicts) -> Finding:
    verdicts = [verdict for name in PLANTED if PLANTED[name] == 1 for _, verdict in sets[name]]
    claims = sum(verdict in CLAIMS for verdict in verdicts)
    low, high = proportion_interval(claims, len(verdicts))
    told = ", ".join(f"{verdicts.count(word)} {word}" for word in ("same", "unsure", "provisional") if word in verdicts)
    return Finding(
        part="a",
        what="a difference is claimed",
        value=claims / len(verdicts),
        unit="share",
        low=low,
        high=high,
        count=f"{claims} of {len(verdicts)} verdicts" + (f" ({told})" if told else ""),
        aim=f"<= {MOST_FALSE_CLAIMS:.0%}",
        is_met=claims / len(verdicts) <= MOST_FALSE_CLAIMS if len(verdicts) >= MIN_VERDICTS else None,
        refutes=low > MOST_FALSE_CLAIMS,
    )


def _naive_claims(trials: Sequence[Trial]) -> Iterator[Finding]:
    """How far one figure without an interval is off, by either method."""
    one_by_one = [trial.speedup for trial in trials if trial.method == ONE_AFTER_OTHER and trial.contender == CONTROL]
    joined = [
        join_replicates(ratios).speedup for ratios in _grouped(trials, lambda t: t.method == PAIRED, CONTROL).values()
    ]
    for name, ratios in (("joined replicates", joined), ("torch.utils.benchmark", one_by_one)):
        if not ratios:
            continue
        off = sum(stray(ratio) > SMALLEST_CLAIM for ratio in ratios)
        low, high = proportion_interval(off, len(ratios))
        yield Finding(
            part="a",
            what=f"more than {SMALLEST_CLAIM:.0%} off: {name}",
            value=off / len(ratios),
            unit="share",
            low=low,
            high=high,
            count=f"{off} of {len(ratios)} ratios",
        )


def _planted(name: str, slowdown: float, sets: Verdicts) -> Iterator[Finding]:
    verdicts = [verdict for _, verdict in sets[name]]
    hits, wrong = verdicts.count("slower"), verdicts.count("faster")
    low, high = proportion_interval(hits, len(verdicts))
    yield Finding(
        part="b",
        what=f"{name}: found",
        value=hits / len(verdicts),
        unit="share",
        low=low,
        high=high,
        count=f"{hits} of {len(verdicts)} verdicts" + (f", {wrong} the wrong way round" if wrong else ""),
        refutes=proportion_interval(wrong, len(verdicts))[0] > MOST_FALSE_CLAIMS,
    )
    told = [1 / joined.speedup for joined, _ in sets[name]]
    off = math.sqrt(statistics.fmean((ratio / slowdown - 1) ** 2 for ratio in told))
    yield Finding(
        part="b",
        what=f"{name}: told as",
        value=statistics.fmean(told),
        unit="×",
        low=min(told),
        high=max(told),
        count=f"truth {slowdown:.2f}×, off by {off:.1%} (RMS)",
    )


def _held_truth(sets: Verdicts) -> Finding:
    held = [joined.holds(1 / PLANTED[name]) for name, verdicts in sets.items() for joined, _ in verdicts]
    low, high = proportion_interval(sum(held), len(held))
    share = sum(held) / len(held)
    return Finding(
        part="b",
        what="the interval holds the truth, copies too",
        value=share,
        unit="share",
        low=low,
        high=high,
        count=f"{sum(held)} of {len(held)} intervals",
        aim=f">= {LEAST_HELD:.0%}",
        is_met=share >= LEAST_HELD,
        refutes=high < LEAST_HELD,
    )


def _spread(trials: Sequence[Trial], workload: str) -> Iterator[Finding]:
    """Deviation of the logarithm of the reported speed-up, over launches that had the same time in all."""
    paired = _grouped(trials, lambda t: t.method == PAIRED, REAL)
    theirs = [trial.speedup for trial in trials if trial.method == ONE_AFTER_OTHER and trial.contender == REAL]
    joined = [join_replicates(ratios).speedup for ratios in paired.values()]
    single = [ratio for ratios in paired.values() for ratio in ratios]
    told = {
        "ours, joined replicates": _deviation(joined),
        "torch.utils.benchmark, same time": _deviation(theirs),
        "one process of ours": _deviation(single),
    }
    numbers = {name: len(values) for name, values in zip(told, (joined, theirs, single), strict=True)}
    for name, deviation in told.items():
        yield Finding(
            part="c",
            what=name,
            workload=workload,
            value=deviation,
            unit="share",
            count=f"{numbers[name]} launches",
        )
    ours, other = list(told.values())[:2]
    ratio = ours / other if ours is not None and other else None
    # Of n normal numbers the logarithm of the deviation itself deviates by about 1 / sqrt(2 (n - 1)).
    reach = math.exp(1.96 / math.sqrt(min(len(joined), len(theirs)) - 1)) if ratio is not None else 1.0
    yield Finding(
        part="c",
        what="ours / theirs",
        workload=workload,
        value=ratio,
        unit="×",
        low=None if ratio is None else ratio / reach,
        high=None if ratio is None else ratio * reach,
        count=f"{numbers['ours, joined replicates']} launches each",
        aim=f"<= {LARGEST_SPREAD_RATIO:.2f}",
        is_met=None if ratio is None else ratio <= LARGEST_SPREAD_RATIO,
    )


def _grouped(
    trials: Sequence[Trial], is_wanted: Callable[[Trial], bool], contender: str
) -> Mapping[tuple[int, str], list[float]]:
    """(Set, workload) → the speed-ups of a contender, one a replicate."""
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    for trial in trials:
        if is_wanted(trial) and trial.contender == contender:
            found[trial.set_number, trial.workload].append(trial.speedup)
    return found


def _deviation(ratios: Sequence[float]) -> float | None:
    return statistics.stdev(math.log(ratio) for ratio in ratios) if len(ratios) > 1 else None
