"""Where a layer first strays from the truth, found by running it with weights that leave a single stage at work."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from mha.oracle import AttentionWeights, oracle
from mha.slots import slots

Layer = TypeVar("Layer", bound=nn.Module)

STRAYS_ABOVE = 1e-4  # of the largest true value: far above rounding in float32, far below any real fault


def first_stray_stage(layer: Layer, call: Callable[[Layer, Tensor], Tensor], x: Tensor) -> str | None:
    """Name the first stage of a layer that is off from the float64 oracle, or None where the whole is right.

    - ``values``: with W_Q = 0 the attention is uniform, and with W_O = 1 the output is each head's mean of the values.
    - ``weights``: with all values 1 (an input channel of ones, picked by W_V) and W_O = 1 the output is the sum of each
      query's attention weights: 1, whatever the scores are, unless the softmax is not over the keys.
    - ``scores``: with W_O = 1 alone, what is left is the product of queries and keys, its scale and its mask.
    - ``output``: everything before was right.

    Args:
        layer: any layer whose layout is known; it is copied, not touched.
        call: how to run it: (layer, x) -> (B, S, E).
        x: (B, S, E), seq_len > 1.
    """
    num_heads: int = layer.num_heads  # type: ignore[assignment]
    d_model = x.shape[-1]
    one, none = torch.eye(d_model), torch.zeros(d_model, d_model)
    ones_first = x.clone()
    ones_first[..., 0] = 1.0
    pick_first = none.clone()
    pick_first[:, 0] = 1.0
    trials = [
        ("values", x, {"w_q": none, "w_o": one}),
        ("weights", ones_first, {"w_v": pick_first, "w_o": one}),
        ("scores", x, {"w_o": one}),
        ("output", x, {}),
    ]
    for stage, probe, weights in trials:
        altered = copy.deepcopy(layer)
        for role, values in weights.items():
            slots(altered)[role].tensor.copy_(values)
        with torch.no_grad():
            output = call(altered, probe).double()
        truth = oracle(probe, AttentionWeights.of(altered), num_heads).output
        # Not `error > bound`: that is False for NaN.
        if not float((output - truth).abs().max()) <= STRAYS_ABOVE * float(truth.abs().max()):
            return stage
    return None
