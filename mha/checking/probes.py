"""Experiments on a layer that no known fault explains: what does its output depend on?"""

from __future__ import annotations

import torch
from torch import Tensor

from mha.checking.report import Probe
from mha.checking.trial import Stopped, Trial
from mha.reading.layouts import Reading

# Relative to the largest output: more than rounding by another order of sums, less than any real dependence.
MOVED = 1e-3


def is_causal(trial: Trial) -> bool:
    """Whether the past does not move when the future does, though it moves when the past does.

    Raises:
        Stopped: where the layer raises.
    """
    if trial.x.shape[1] < 2:
        return False
    half = trial.x.shape[1] // 2
    after, before = _moves(trial, slice(half, None)), _moves(trial, slice(0, half))
    return not _any(after[:, :half]) and _any(after[:, half:]) and _any(before[:, half:])


def probe(trial: Trial, reading: Reading | None) -> list[Probe]:
    """Tell what the output depends on: other sequences of the batch, the future, the order, the length, the values."""
    experiments = [_batch, _future, _order, _length, _values]
    found = []
    for experiment in experiments:
        try:
            found.append(experiment(trial, reading))
        except Stopped as stop:
            name = experiment.__name__.strip("_")
            found.append(Probe(name, f"could not be tried: {stop}"))
    return [one for one in found if one is not None]


def _batch(trial: Trial, reading: Reading | None) -> Probe | None:
    if trial.x.shape[0] < 2:
        return None
    moved = trial.x.clone()
    moved[1:] = moved[1:].flip(1) + 1.0
    if _any(_moved(trial, moved)[:1]):
        return Probe("batch", "a sequence's output changes with other sequences of the batch: it leaks across them")
    return Probe("batch", "each sequence's output depends on itself alone")


def _future(trial: Trial, reading: Reading | None) -> Probe | None:
    if trial.x.shape[1] < 2:
        return None
    half = trial.x.shape[1] // 2
    if _any(_moves(trial, slice(half, None))[:, :half]):
        return Probe("future", "a position's output depends on later positions too, as it does unless it is causal")
    return Probe("future", "a position's output does not depend on later positions: it is causal")


def _order(trial: Trial, reading: Reading | None) -> Probe:
    turned = trial.run(trial.x.flip(1)).flip(1)
    if _any(_difference(turned, trial.run())):
        return Probe(
            "order", "the positions' order matters, beyond their going along with it: positions, a mask or a mix-up"
        )
    return Probe("order", "another order of the positions gives the same outputs in that order")


def _length(trial: Trial, reading: Reading | None) -> Probe:
    seq_len = trial.x.shape[1]
    twice = trial.run(torch.cat([trial.x, trial.x], 1))[:, :seq_len]
    if _any(_difference(twice, trial.run())):
        return Probe("length", "the same sequence twice over gives other outputs: they depend on seq_len or positions")
    return Probe("length", "the same sequence twice over gives the same outputs: they do not depend on seq_len")


def _values(trial: Trial, reading: Reading | None) -> Probe | None:
    """Whether the output is linear in the values: W_V and b_V at 0, 1 and 2 times what they are."""
    if reading is None or reading.is_shared or "w_v" not in reading.roles:
        return None
    weights = {role: values.clone() for role, values in trial.weights(reading).items()}
    outputs = []
    try:
        for factor in (0.0, 1.0, 2.0):
            scaled = {role: values * factor if role in ("w_v", "b_v") else values for role, values in weights.items()}
            reading.write(trial.layer, scaled)
            outputs.append(trial.run())
    finally:
        reading.write(trial.layer, weights)
    if _any(_difference(outputs[2] - outputs[1], outputs[1] - outputs[0], outputs[1])):
        return Probe("values", "the output is not linear in the values, as a weighted sum of them would be")
    return Probe("values", "the output is linear in the values, as a weighted sum of them is")


def _moves(trial: Trial, positions: slice) -> Tensor:
    """How much each output moves, relative to the largest, when the input at some positions is another."""
    moved = trial.x.clone()
    moved[:, positions] = -moved[:, positions] + 0.5
    return _moved(trial, moved)


def _moved(trial: Trial, moved: Tensor) -> Tensor:
    return _difference(trial.run(moved), trial.run())


def _difference(a: Tensor, b: Tensor, scale: Tensor | None = None) -> Tensor:
    a, b = a.double(), b.double()
    largest = torch.nan_to_num((b if scale is None else scale.double()).abs(), nan=0.0, posinf=0.0).max()
    return (a - b).abs() / largest.clamp_min(torch.finfo(torch.float64).tiny)


def _any(moved: Tensor) -> bool:
    return bool((moved > MOVED).any())
