"""A layer called again: with another input, at another length and batch size, and what became of its first output."""

from __future__ import annotations

import torch

from mha.checking.diagnosis import Observation
from mha.checking.identification import Identity
from mha.checking.report import Finding, Part
from mha.checking.trial import STATE_BETWEEN_CALLS, Stopped

NAME = "called again"

OVERWRITTEN = Finding(
    "output-overwritten",
    "The output of a call is overwritten by the next one: the layer returns a buffer that it keeps. Return a fresh "
    "tensor.",
)


def check_reuse(identity: Identity) -> tuple[Part, list[Finding]]:
    """Call one and the same layer with another input of the same shape, at other sizes, and as at first.

    A mask or an output that is kept from the first call is right there alone.
    """
    trial = identity.trial
    batch_size, seq_len, d_model = trial.x.shape
    weights = trial.weights(identity.reading)
    generator = torch.Generator().manual_seed(trial.how.seed + 6)
    sizes = [(batch_size, seq_len)]
    if not trial.extra:  # a mask is of one size
        sizes += [(batch_size + 1, seq_len + 4), (batch_size, max(1, seq_len - 2))]
    first = trial.run()
    kept = first.clone()
    for size in sizes:
        x = torch.randn(*size, d_model, generator=generator).to(trial.x)
        try:
            output = trial.run(x)
        except Stopped as stop:
            return _refused(identity, size, stop)
        if not torch.allclose(first, kept, rtol=0, atol=0, equal_nan=True):
            return Part(NAME, "fail", None, None, OVERWRITTEN.sentence), [OVERWRITTEN]
        if not Observation.of([x], output, trial.shape.num_heads).is_given_by(identity.base, weights):
            where = "with another input" if size == sizes[0] else f"at batch {size[0]}, seq_len {size[1]}"
            reason = f"right at the first call, and wrong when called again {where}"
            return Part(NAME, "fail", None, None, reason), [STATE_BETWEEN_CALLS]
    return Part(NAME, "pass", None, None, "with other inputs and at other sizes"), []


def _refused(identity: Identity, size: tuple[int, int], stop: Stopped) -> tuple[Part, list[Finding]]:
    """It raised at another size: by itself there as well, or only after a first call."""
    shape = identity.trial.shape._replace(batch_size=size[0], seq_len=size[1])
    try:
        identity.at(shape, identity.trial.dtype)[0].run()
    except Stopped:
        return Part(NAME, "error", None, None, f"batch {size[0]}, seq_len {size[1]}: {stop}"), []
    reason = f"at batch {size[0]}, seq_len {size[1]} it raises after a call at another size, and not before: {stop}"
    return Part(NAME, "fail", None, None, reason), [STATE_BETWEEN_CALLS]
