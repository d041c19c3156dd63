"""Latency: interleaved rounds, each running every contender once in a fresh random order, so that drift cancels."""

from __future__ import annotations

import dataclasses
import gc
import math
import random
from collections.abc import Callable, Mapping

from profiling.intervals import median_half_width
from profiling.measuring.devices import Device
from profiling.measuring.disturbance.page_faults import page_faults
from profiling.measuring.garbage import no_garbage_collection
from profiling.ratios import log_ratios
from profiling.settings import MIN_ROUNDS
from profiling.wording import rounded_percent

# A sample lasts well above the clock's resolution (about 0.1 µs) and above the jitter of a wake-up.
SAMPLE_S = 4e-3
# It lasts as many steps of the clock that one more or less is 1 %.
MIN_STEPS = 100
# Below this, what ran just before moves a call by up to 1.8 times: one untimed call comes first.
PRIMED_BELOW_S = 1e-3
WARM_UP_CALLS = 3
WARM_UP_SHARE = 0.1
# The interval of the median of the per-round ratios is narrow enough, in log units, once it has this many rounds.
NARROW = 0.01
MIN_ROUNDS_FOR_INTERVAL = 20
ROUNDS_BETWEEN_LOOKS = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rounds:
    """The raw samples: seconds of one call, one value per round and contender, in the order they were measured.

    `faults_per_call` is the mean over all timed calls of a contender; None where page faults are not counted.
    """

    samples: Mapping[str, list[float]]
    calls_per_sample: Mapping[str, int]
    stop_reason: str
    faults_per_call: Mapping[str, float | None] = dataclasses.field(default_factory=dict)

    @property
    def shortest_s(self) -> float:
        """Seconds of the shortest sample of all."""
        return min(min(times) * self.calls_per_sample[name] for name, times in self.samples.items())


def warm_up(call: Callable[[], object], device: Device, budget_s: float) -> float:
    """Runs a call until it is warm (first calls build kernels, buffers and code pages); returns seconds of one call."""
    times = [device.time_calls(call, 1) for _ in range(WARM_UP_CALLS)]
    while sum(times) < WARM_UP_SHARE * budget_s and len(times) < 1000:
        times.append(device.time_calls(call, 1))
    return min(times[1:])


def calls_per_sample(call_s: float, clock_step_s: float) -> int:
    """How many calls make a sample long enough to time by a clock with such a step."""
    return max(1, math.ceil(max(SAMPLE_S, MIN_STEPS * clock_step_s) / max(call_s, 1e-7)))


def measure_rounds(
    calls: Mapping[str, Callable[[], object]],
    pairs: Mapping[str, str],
    device: Device,
    *,
    budget_s: float,
    rng: random.Random,
    call_s: Mapping[str, float],
    on_sample: Callable[[str], None],
    count_faults: Callable[[], int | None] = page_faults,
) -> Rounds:
    """Times every call in each round, until the ratios are told well enough or the budget is spent.

    Args:
        calls: contender → what to time, warmed up before.
        pairs: contender → the reference it is divided by; the ratios of these pairs decide when it is enough.
        device: where they run.
        budget_s: seconds of timed samples per contender.
        rng: gives each round its order.
        call_s: contender → seconds of one call as seen in warming up.
        on_sample: told which contender is about to run.
        count_faults: the process's page faults so far, read around each sample; None where they are not counted.
    """
    counts = {name: calls_per_sample(call_s[name], device.clock_step_s) for name in calls}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    faults: dict[str, int | None] = dict.fromkeys(calls, 0)
    spent, order, stop_reason = 0.0, list(calls), ""
    gc.collect()
    with no_garbage_collection():
        while not stop_reason:
            rng.shuffle(order)
            for name in order:
                on_sample(name)
                if call_s[name] < PRIMED_BELOW_S:
                    calls[name]()
                device.flush_cache()
                before = count_faults()
                seconds = device.time_calls(calls[name], counts[name])
                faults[name] = _added(faults[name], before, count_faults())
                samples[name].append(seconds / counts[name])
                spent += seconds
            stop_reason = _enough(samples, pairs, spent / len(calls), budget_s)
    per_call = {
        name: None if total is None else total / (len(samples[name]) * counts[name]) for name, total in faults.items()
    }
    return Rounds(samples=samples, calls_per_sample=counts, stop_reason=stop_reason, faults_per_call=per_call)


def _added(total: int | None, before: int | None, after: int | None) -> int | None:
    return None if total is None or before is None or after is None else total + after - before


def _enough(samples: Mapping[str, list[float]], pairs: Mapping[str, str], spent_s: float, budget_s: float) -> str:
    num_rounds = len(next(iter(samples.values())))
    if num_rounds < MIN_ROUNDS:
        return ""
    if spent_s >= budget_s:
        return f"time budget of {budget_s:g} s spent"
    if pairs and num_rounds >= MIN_ROUNDS_FOR_INTERVAL and num_rounds % ROUNDS_BETWEEN_LOOKS == 0:
        widths = (median_half_width(log_ratios(samples[ref], samples[name])) for name, ref in pairs.items())
        if max(widths) <= NARROW:
            return f"interval within {rounded_percent(NARROW)}"
    return ""
