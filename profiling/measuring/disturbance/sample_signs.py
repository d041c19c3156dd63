"""What the samples themselves show of a disturbance, told with the next step."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from profiling.measuring.disturbance.page_faults import fault_warning
from profiling.measuring.disturbance.two_modes import two_modes
from profiling.measuring.latency import MIN_STEPS, Rounds
from profiling.wording import rounded_percent

# Relative differences from which a reader has to be told.
MUCH_STRAY = 0.05
MUCH_DRIFT = 0.05
FEW_ROUNDS = 10
# A sample that took so many times the median, and so many seconds more, was not spent computing.
MANY_TIMES = 20
STALL_S = 0.5


def warnings_of_samples(
    rounds: Rounds, name: str, reference: str, noise_floor: float | None, clock_step_s: float
) -> list[str]:
    """All sentences on what the samples of a contender and of its reference show.

    Args:
        rounds: the samples.
        name: the contender.
        reference: what it is compared with; itself, where it is a reference.
        noise_floor: how far the reference's clone strayed from 1; None without a clone.
        clock_step_s: the smallest difference that the device's clock tells.
    """
    call_s = statistics.median(rounds.samples[name])
    told = (clock_warning(rounds.shortest_s, clock_step_s), fault_warning(rounds.faults_per_call[name], call_s))
    return [
        *warnings_of_rounds(rounds.samples, reference, noise_floor),
        *mode_warnings(rounds.samples, list(dict.fromkeys([reference, name]))),
        *stall_warnings(rounds, list(dict.fromkeys([reference, name]))),
        *(text for text in told if text is not None),
    ]


def warnings_of_rounds(samples: Mapping[str, Sequence[float]], reference: str, noise_floor: float | None) -> list[str]:
    """Sentences on what the reference's samples show: a clone that strays, too few rounds, drift.

    Args:
        samples: contender → seconds of one call, round by round.
        reference: which of them to look at.
        noise_floor: how far the reference's clone strayed from 1; None without a clone.
    """
    found = []
    times = samples.get(reference, [])
    if noise_floor is not None and noise_floor >= MUCH_STRAY:
        found.append(
            f"a clone of {reference} strayed from it by {rounded_percent(noise_floor, 0)}: smaller differences say "
            "nothing. Measure on a quieter machine, or longer (--time-budget)"
        )
    if 0 < len(times) < FEW_ROUNDS:
        found.append(f"{len(times)} rounds only: a longer --time-budget makes the figures firmer")
    third = len(times) // 3
    if third >= FEW_ROUNDS:
        first, last = statistics.median(times[:third]), statistics.median(times[-third:])
        if abs(last / first - 1) >= MUCH_DRIFT:
            found.append(
                f"the times drifted by {100 * (last / first - 1):+.0f} % from the first third of the rounds to the "
                "last: ratios, taken round by round, stand, times do not"
            )
    return found


def mode_warnings(samples: Mapping[str, Sequence[float]], names: Sequence[str]) -> list[str]:
    """A sentence for each of these contenders whose times fall into two groups."""
    found = []
    for name in names:
        modes = two_modes(samples.get(name, []))
        if modes is not None:
            found.append(
                f"{rounded_percent(modes.slow_share, 0)} of the times of {name} are a group of their own, "
                f"{rounded_percent(modes.apart, 0)} slower: "
                "the median is that of the larger group (turbo, huge pages or a shared core switch so). Add "
                "--replicates, and where it ran on more than one thread try --threads 1"
            )
    return found


def stall_warnings(rounds: Rounds, names: Sequence[str]) -> list[str]:
    """A sentence for each of these contenders of which a sample spans a pause of the process or the machine."""
    found = []
    for name in names:
        times, num_calls = rounds.samples.get(name, []), rounds.calls_per_sample.get(name, 0)
        median = statistics.median(times) if times else 0.0
        stalled = [t for t in times if t > MANY_TIMES * median and (t - median) * num_calls > STALL_S]
        if stalled:
            found.append(
                f"{len(stalled)} of {len(times)} samples of {name} took up to {max(stalled) / median:,.0f} times the "
                "median: the process stood still (suspended, paused or starved). The median stands, the 95 % point "
                "may not; measure again without"
            )
    return found


def clock_warning(shortest_s: float, clock_step_s: float) -> str | None:
    """A sentence where the clock's step is a share worth knowing of the shortest sample, else None."""
    if shortest_s >= MIN_STEPS * clock_step_s:
        return None
    share = clock_step_s / shortest_s if shortest_s > 0 else 1.0
    return (
        f"the clock's step of {clock_step_s * 1e6:.3g} µs is {rounded_percent(min(share, 1.0), 0)} of the shortest "
        "sample: smaller differences say nothing. Measure a larger shape"
    )
