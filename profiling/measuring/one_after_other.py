"""The same work timed in the usual way, one layer after the other: what the paired rounds are held against."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mha import fast_path
from profiling.measuring.contenders.known import make_contender, make_input, make_weights
from profiling.settings import CLONE
from profiling.workload import Workload


def time_one_after_other(workload: Workload, contenders: Sequence[str], seconds_each: float) -> dict[str, float]:
    """Median seconds of one call by `torch.utils.benchmark`'s `blocked_autorange`, contender by contender.

    Args:
        workload: the point, of inference.
        contenders: names, also of clones; each has weights of its own.
        seconds_each: how long each is timed at least.
    """
    # It loads the tools that build extensions, a tenth of the time in which a measuring process starts.
    from torch.utils.benchmark import Timer

    torch.set_num_threads(workload.threads)
    x, weights = make_input(workload), make_weights(workload)
    calls = {name: make_contender(name.removeprefix(CLONE), workload, weights, x).call for name in contenders}
    with torch.inference_mode(), fast_path(False):
        return {
            name: float(
                Timer("call()", globals={"call": call}, num_threads=workload.threads)
                .blocked_autorange(min_run_time=seconds_each)
                .median
            )
            for name, call in calls.items()
        }
