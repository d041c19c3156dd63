"""Times copies of a layer as if they were contenders: some as they are, some slowed down by a known amount."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

import torch

from mha import fast_path
from profiling.measuring.contenders.known import make_contender, make_input, make_weights
from profiling.measuring.devices import Device
from profiling.measuring.latency import measure_rounds, warm_up
from profiling.settings import CLONE
from profiling.workload import Workload


def time_planted(
    workload: Workload,
    device: Device,
    *,
    slowdowns: Mapping[str, float],
    real: str,
    reference: str,
    budget_s: float,
    order_seed: int,
) -> dict[str, list[float]]:
    """Seconds of one call in each round: of the reference, its clone, a real contender, and one copy for each name.

    Args:
        workload: the point, of inference.
        device: where it runs.
        slowdowns: name of a copy of the reference → what its time is of the reference's, 1 or above.
        real: a contender whose speed-up nobody knows.
        reference: the contender that is copied.
        budget_s: seconds of timed rounds for each.
        order_seed: seed of the random order within the rounds.
    """
    torch.set_num_threads(workload.threads)
    x, weights = make_input(workload), make_weights(workload)
    clone = CLONE + reference
    sources = {reference: reference, clone: reference, real: real, **dict.fromkeys(slowdowns, reference)}
    calls: dict[str, Callable[[], object]] = {
        name: make_contender(source, workload, weights, x).call for name, source in sources.items()
    }
    # A host that waits slows down nothing on a device behind a queue: there it is the time told that is made longer.
    is_told = device.name != "cpu"
    if not is_told:
        calls |= {name: slowed(calls[name], slowdown) for name, slowdown in slowdowns.items() if slowdown > 1}
    with torch.inference_mode(), fast_path(False):
        call_s = {name: warm_up(call, device, budget_s) for name, call in calls.items()}
        call_s[clone] = call_s[reference]  # as in a sweep: its samples are as long as its original's
        rounds = measure_rounds(
            calls,
            {name: reference for name in calls if name != reference},
            device,
            budget_s=budget_s,
            rng=random.Random(order_seed),
            call_s=call_s,
            on_sample=lambda _: None,
        )
    told = {name: slowdown if is_told else 1.0 for name, slowdown in slowdowns.items()}
    return {name: [told.get(name, 1.0) * seconds for seconds in times] for name, times in rounds.samples.items()}


def slowed(
    call: Callable[[], object], slowdown: float, clock: Callable[[], int] = time.perf_counter_ns
) -> Callable[[], object]:
    """A call that takes `slowdown` times as long: after the work it keeps the processor busy for the rest."""

    def run() -> object:
        start = clock()
        result = call()
        end = start + (clock() - start) * slowdown
        while clock() < end:
            pass
        return result

    return run
