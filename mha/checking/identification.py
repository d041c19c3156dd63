"""What a layer is: how its weights are read, whether it is causal, and which formula gives its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mha.checking.diagnosis import Explanation, Observation, explain
from mha.checking.formula import CAUSAL, RIGHT, Formula
from mha.checking.masks import causal_extra
from mha.checking.probes import is_causal
from mha.checking.report import Finding, Shape
from mha.checking.surroundings import dropout_at_rest, threads_for
from mha.checking.trial import DROPOUT_IN_EVAL, How, Stopped, Trial, same_reading
from mha.reading.layouts import Reading

# Pairwise different sizes, head_dim among them, no head_dim a power of four: a swapped axis or a wrong scale cannot
# pass by luck, as it does where head_dim equals num_heads. One with seq_len below d_model, one with seq_len above.
PROBE_SHAPES = (Shape(15, 3, 2, 7), Shape(14, 2, 3, 17))
# (batch_size, seq_len) for a layer that fixes d_model and num_heads, by being given ready-made or by refusing others.
PROBE_SIZES = ((2, 7), (3, 17))

# Of a layer that has loaded the official layer's weights itself, nothing has to be read.
NOTHING_READ = Reading((), (), {})


@dataclass
class Identity:
    """What was found out about a layer.

    Attributes:
        trial: it, at the first small shape that it accepts.
        shapes: where it is to be compared: the shape asked for, then the probe shapes.
        reading: how its weights are read; None where it has loaded the official layer's itself.
        base: the right formula for it, causal or not.
        explanation: what gives its output, with faults or none; None where nothing known does.
        limits: sentences on what the verdict does not reach.
    """

    trial: Trial
    shapes: list[Shape]
    reading: Reading | None = None
    base: Formula = RIGHT
    explanation: Explanation | None = None
    limits: list[str] = field(default_factory=list)

    @property
    def is_causal(self) -> bool:
        """Whether it is compared with the official layer's causal call."""
        return self.base.pattern == "causal"

    @property
    def is_unreadable(self) -> bool:
        """Whether one matrix was taken for several roles in want of others, and the output says otherwise."""
        reading = self.reading
        return reading is not None and reading.by_search and reading.is_shared and self.explanation is None

    def at(self, shape: Shape, dtype: torch.dtype, *, seed: int | None = None) -> tuple[Trial, Reading | None]:
        """The same layer at another shape, in another dtype or of another seed, asked to be causal as here.

        Raises:
            Stopped: where it cannot be built, called or read there.
        """
        how = self.trial.how if seed is None else self.trial.how._replace(seed=seed)
        trial = Trial.of(how, shape, dtype)
        reading = None if self.reading is None else same_reading(self.reading, trial.candidates)
        trial.extra = self._extra(trial, reading)
        return trial, reading

    def _extra(self, trial: Trial, reading: Reading | None) -> dict[str, Any]:
        if not any(isinstance(value, Tensor) for value in self.trial.extra.values()):
            return self.trial.extra
        for extra in causal_extra(trial, trial.weights(reading), RIGHT):
            if set(extra) == set(self.trial.extra):
                return extra
        raise Stopped("error", f"its mask ({', '.join(self.trial.extra)}) is not taken there")


def identify(how: How, asked: Shape, dtype: torch.dtype, *, probes: bool) -> Identity:
    """Build and run a layer at a small shape, and find out what it is there.

    Raises:
        Stopped: where it cannot be built, run or read, or where two runs differ.
    """
    identity = _first_accepted(how, asked, dtype, probes)
    try:
        with threads_for(identity.trial.shape):
            _explain(identity)
    except Stopped as stop:
        stop.findings += _faults_beside(stop, identity)
        raise stop.at(identity.trial.shape) from stop
    return identity


def heads_of_instance(identity: Identity) -> int | None:
    """The number of heads that a ready-made layer has, where it is not the one taken; None where that is right."""
    explanation = identity.explanation
    if not isinstance(identity.trial.how.target, nn.Module) or explanation is None or len(explanation.faults) != 1:
        return None
    return explanation.formula.heads if explanation.faults[0].name == "heads-ignored" else None


def weights_of(trial: Trial) -> list[tuple[Reading, Mapping[str, Tensor]]]:
    """The ways to read a trial's weights, each with what it reads."""
    if trial.loaded is not None:
        return [(NOTHING_READ, trial.weights(None))]
    return [(reading, trial.weights(reading)) for reading in trial.candidates]


def _first_accepted(how: How, asked: Shape, dtype: torch.dtype, probes: bool) -> Identity:
    """The layer at the first small shape that it accepts, in float32 unless float64 was asked for."""
    small_dtype = dtype if dtype == torch.float64 else torch.float32
    fixed = [Shape(asked.d_model, asked.num_heads, *sizes) for sizes in PROBE_SIZES]
    choices: list[Sequence[Shape]] = [fixed, [asked]]
    if not isinstance(how.target, nn.Module):
        choices.insert(0, PROBE_SHAPES)
    refused: Stopped | None = None
    last: Stopped | None = None
    for shapes in choices:
        try:
            with threads_for(shapes[0]):
                trial = Trial.of(how, shapes[0], small_dtype)
                trial.run()
        except Stopped as stop:
            refused = refused or stop.at(shapes[0])
            last = stop.at(asked)
            continue
        identity = Identity(trial, [asked])
        if probes:
            identity.shapes += [shape for shape in shapes if shape != asked]
        if refused is not None:
            identity.limits.append(
                f"{refused}: so the verdict is for d_model {asked.d_model} with {asked.num_heads} heads alone"
            )
        return identity
    assert last is not None
    raise last  # at the shape asked for, where it was tried last


def _explain(identity: Identity) -> None:
    trial = identity.trial
    candidates = weights_of(trial)
    if trial.loaded is None:
        identity.reading = trial.candidates[0]
    output = trial.run_twice()
    causal_by_itself = is_causal(trial)
    if trial.how.causal and not causal_by_itself:
        asked = _asked_to_be_causal(trial, candidates)
        output = output if asked is None else asked
    identity.base = CAUSAL if trial.how.causal or causal_by_itself else RIGHT
    seen = Observation.of([trial.x], output, trial.shape.num_heads)
    identity.explanation = explain(seen, candidates, base=identity.base)
    if identity.explanation is None and not trial.how.causal:  # a fault may hide that it is meant to be causal
        other = RIGHT if identity.base is CAUSAL else CAUSAL
        identity.explanation = explain(seen, candidates[:1], base=other)
        identity.base = identity.base if identity.explanation is None else other
    if identity.explanation is not None and trial.loaded is None:
        identity.reading = identity.explanation.reading


def _faults_beside(stop: Stopped, identity: Identity) -> tuple[Finding, ...]:
    """What else is wrong with a layer whose dropout is on in eval: found with torch's dropout at rest."""
    if DROPOUT_IN_EVAL not in stop.findings:
        return ()
    shape = identity.trial.shape
    try:
        with dropout_at_rest(), threads_for(shape):
            _explain(identity)
    except Stopped:
        return ()
    faults = identity.explanation.faults if identity.explanation is not None else ()
    return tuple(Finding(fault.name, fault.told(shape.d_model, shape.num_heads)) for fault in faults)


def _asked_to_be_causal(trial: Trial, candidates: list[tuple[Reading, Mapping[str, Tensor]]]) -> Tensor | None:
    """The output of a call that asks the layer to be causal, by a switch or a mask; the trial keeps how it is asked."""
    seen = Observation.of([trial.x], trial.run(), trial.shape.num_heads)
    plain = explain(seen, candidates)
    if plain is None or plain.faults:
        return None
    weights = next(weights for reading, weights in candidates if reading is plain.reading)
    for extra in causal_extra(trial, weights, RIGHT):
        try:
            output = trial.run(None, **extra)
        except Stopped:
            continue
        if Observation.of([trial.x], output, trial.shape.num_heads).is_given_by(CAUSAL, weights):
            trial.extra = extra
            return output
    return None
