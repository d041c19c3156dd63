"""A layer called again and built again: with other inputs, at other sizes, with other numbers of heads."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from mha.checking.diagnosis import Observation, explain
from mha.checking.identification import Identity, weights_of
from mha.checking.report import Finding, Part, Shape
from mha.checking.trial import STATE_BETWEEN_CALLS, Stopped, Trial

NAME = "called again"
HEADS_NAME = "other numbers of heads"

OTHER_HEADS = (Shape(12, 1, 2, 5), Shape(24, 8, 2, 5), Shape(20, 4, 2, 5))

OVERWRITTEN = Finding(
    "output-overwritten",
    "The output of a call is overwritten by the next one: the layer returns a buffer that it keeps. Return a fresh "
    "tensor.",
)


def check_reuse(identity: Identity) -> tuple[Part, list[Finding]]:
    """Call one and the same layer with other inputs: of the same shape, of other sizes, larger, not contiguous.

    A mask or an output that is kept from the first call is right there alone.
    """
    trial = identity.trial
    weights = trial.weights(identity.reading)
    first = trial.run()
    kept = first.clone()
    for name, x in _other_inputs(trial):
        try:
            output = trial.run(x)
        except Stopped as stop:
            return _refused(identity, x, name, stop)
        if not torch.allclose(first, kept, rtol=0, atol=0, equal_nan=True):
            return Part(NAME, "fail", None, None, OVERWRITTEN.sentence), [OVERWRITTEN]
        if not Observation.of([x], output, trial.shape.num_heads).is_given_by(identity.base, weights):
            return _wrong(identity, x, name)
    return Part(NAME, "pass", None, None, "with other inputs and at other sizes"), []


def _other_inputs(trial: Trial) -> Iterator[tuple[str, Tensor]]:
    """Inputs in words and in numbers; of the first shape alone where a mask binds the layer to it."""
    batch_size, seq_len, d_model = trial.x.shape
    generator = torch.Generator().manual_seed(trial.how.seed + 6)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, d_model, generator=generator).to(trial.x)

    yield "another input", normal(batch_size, seq_len)
    yield "an input eight times as large", 8 * normal(batch_size, seq_len)
    yield "an input that is not contiguous", normal(seq_len, batch_size).transpose(0, 1)
    if trial.extra:
        return
    for size in ((batch_size + 1, seq_len + 4), (1, seq_len), (batch_size, 1), (5, 23), (4, 40)):
        yield f"batch {size[0]}, seq_len {size[1]}", normal(*size)


def check_other_heads(identity: Identity) -> Part | None:
    """Build the layer with other numbers of heads, and see whether the formula holds there too.

    None for a layer that is ready-made, or was refused at the probe shapes.
    """
    if isinstance(identity.trial.how.target, nn.Module) or identity.limits or identity.trial.extra:
        return None
    for shape in OTHER_HEADS:
        try:
            trial, _ = identity.at(shape, identity.trial.dtype)
            output = trial.run()
        except Stopped as stop:
            return Part(HEADS_NAME, "error", None, None, f"{shape}: {stop}")
        seen = Observation.of([trial.x], output, shape.num_heads)
        if explain(seen, weights_of(trial), only=identity.base) is None:
            return Part(HEADS_NAME, "fail", None, None, f"right at {identity.trial.shape}, and wrong at {shape}")
    return Part(HEADS_NAME, "pass", None, None, "with " + ", ".join(str(shape.num_heads) for shape in OTHER_HEADS))


def _wrong(identity: Identity, x: Tensor, name: str) -> tuple[Part, list[Finding]]:
    """It is wrong: there in any case, or only after a first call."""
    shape = identity.trial.shape._replace(batch_size=x.shape[0], seq_len=x.shape[1])
    fresh, reading = identity.at(shape, identity.trial.dtype)
    seen = Observation.of([x], fresh.run(x), shape.num_heads)
    if seen.is_given_by(identity.base, fresh.weights(reading)):
        reason = f"right at the first call, and wrong when called again with {name}"
        return Part(NAME, "fail", None, None, reason), [STATE_BETWEEN_CALLS]
    return Part(NAME, "fail", None, None, f"right at {identity.trial.shape}, and wrong with {name}"), []


def _refused(identity: Identity, x: Tensor, name: str, stop: Stopped) -> tuple[Part, list[Finding]]:
    """It raised: there in any case, or only after a first call."""
    shape = identity.trial.shape._replace(batch_size=x.shape[0], seq_len=x.shape[1])
    try:
        identity.at(shape, identity.trial.dtype)[0].run(x)
    except Stopped:
        return Part(NAME, "error", None, None, f"{name}: {stop}"), []
    reason = f"with {name} it raises after a call at another size, and not before: {stop}"
    return Part(NAME, "fail", None, None, reason), [STATE_BETWEEN_CALLS]
