"""Which of the possible readings of a layer's weights is the true one: found by running a copy of it."""

from __future__ import annotations

import copy

import torch
from torch import nn

from mha.checking.diagnosis import Observation
from mha.checking.formula import CAUSAL, RIGHT
from mha.checking.surroundings import own_random_state
from mha.checking.trial import randomize_roles
from mha.reading.calling import calling_of
from mha.reading.layouts import Reading, parameters_of
from mha.reading.reader import readings

# (batch_size, seq_len) of the run: small, and neither equal to the other nor to a usual number of heads.
SIZES = (2, 7)


def settled_reading(layer: nn.Module, d_model: int, num_heads: int, *, batch_first: bool = True) -> Reading:
    """The reading whose weights give the layer's output; the likeliest where none does, as for a layer that is wrong.

    Raises:
        UnknownLayoutError: where the parameters cannot be read at all.
    """
    found = readings(layer, d_model, num_heads)
    try:
        twin = copy.deepcopy(layer).eval()
        randomize_roles(twin, found, torch.Generator().manual_seed(0))
        like = next(iter(twin.parameters()))
        x = torch.randn(*SIZES, d_model, generator=torch.Generator().manual_seed(1)).to(like)
        with torch.no_grad(), own_random_state(like.device):
            output = calling_of(twin, batch_first=batch_first)(twin, x)
    except Exception:  # whatever a user's layer raises: nothing can be settled, and who runs it next will see it raise
        return found[0]
    seen = Observation.of([x], output, num_heads)
    for reading in found:
        weights = {role: values.cpu().double() for role, values in reading.read(parameters_of(twin)).items()}
        if "w_o" in weights and (seen.is_given_by(RIGHT, weights) or seen.is_given_by(CAUSAL, weights)):
            return reading
    return found[0]
