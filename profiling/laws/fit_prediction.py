"""The longest sequence that a run's memory law predicts to fit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from profiling.costs import ELEMENT_BYTES, MIB, NUM_PROJECTIONS
from profiling.laws.growth import MEMORY, laws_of
from profiling.laws.largest_fit import WEIGHT_COPIES
from profiling.laws.law_words import fixed_words
from profiling.memory_estimate import TOKENS_PER_LAYER
from profiling.table import load_run
from profiling.workload import GridError, Workload


def predicted_by_run(folder: Path, contender: str, workload: Workload, room_mib: float) -> int:
    """The length at which the memory law of a run reaches the room.

    To the peak of the call, which is what a run tells, come the weights and the tensors that are there before it.

    Raises:
        RunError: the run cannot be read.
        GridError: it has no such law.
    """
    laws = [law for law in laws_of(load_run(folder), ["seq_len"], [MEMORY]) if law.contender == contender]
    shape = ("batch_size", "num_heads", "d_model", "dtype", "mode", "bias", "causal")
    wanted = {name: getattr(workload, name) for name in shape}
    found = [law for law in laws if {name: law.fixed[name] for name in shape} == wanted and law.curve is not None]
    if not found:
        there = "; ".join(fixed_words(law.fixed) for law in laws[:3])
        has = f"it has one at {there}" if there else "it has none of that contender"
        raise GridError(f"the run must hold a memory law of {contender} at {fixed_words(wanted)}: {has}")
    curve = found[0].curve
    assert curve is not None, "as selected"
    element = ELEMENT_BYTES[workload.dtype] / MIB
    tokens = TOKENS_PER_LAYER * workload.batch_size * workload.d_model * element
    weights = WEIGHT_COPIES * NUM_PROJECTIONS * workload.d_model**2 * element
    whole = dataclasses.replace(curve, constant=curve.constant + weights, linear=curve.linear + tokens)
    return int(min(whole.size_at(room_mib), 2.0**31 - 1))
