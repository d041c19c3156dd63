"""``python -m mha``: the layer beside the official one, at a small size, with the same weights; is the error < 1e-5?"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from mha.attention import MultiHeadAttention
from mha.official import call_official, official_layer
from mha.oracle import AttentionWeights, oracle
from mha.slots import slots
from mha.stages import first_stray_stage
from mha.transplant import transplant

D_MODEL, NUM_HEADS, BATCH_SIZE, SEQ_LEN, SEED = 8, 2, 2, 5, 42
TOLERANCE = 1e-5

STAGES = {
    "values": "the value projection, or how heads are split and put side by side again",
    "weights": "the softmax: a query's attention weights do not sum to 1 over the keys",
    "scores": "the scores: the query or key projection, their product, or its scale",
    "output": "the output projection",
}


def main() -> int:
    """Compare, print, and return the exit status: 0 where the error is below the tolerance, else 1."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # the first two lines are not ASCII, whatever the locale says
    torch.manual_seed(SEED)
    layer = MultiHeadAttention(D_MODEL, NUM_HEADS)
    official = official_layer(D_MODEL, NUM_HEADS)
    transplant(layer, official)
    x = torch.randn(BATCH_SIZE, SEQ_LEN, D_MODEL)
    with torch.no_grad():
        output, expected = layer(x), call_official(official, x)
    same_shape = output.shape == expected.shape
    error = float((output - expected).abs().max()) if same_shape else float("nan")
    passed = error < TOLERANCE  # False for NaN

    print(f"最大误差: {error:.2e}")
    print("一致性验证通过" if passed else "一致性验证未通过")
    print()
    told = explanation(error) if passed else likely_cause(layer, official, x, output, expected)
    print("\n".join(told))
    return 0 if passed else 1


def explanation(error: float) -> list[str]:
    """What the two lines mean."""
    return [
        f"Maximum error: {error:.2e}. Consistency check passed.",
        "",
        "mha.MultiHeadAttention and torch.nn.MultiheadAttention were given the same weights (float32, no bias) and the",
        f"same input (d_model {D_MODEL}, {NUM_HEADS} heads, batch {BATCH_SIZE}, seq_len {SEQ_LEN}, seed {SEED}).",
        f"The error is the largest absolute difference between their outputs; the tolerance is {TOLERANCE:.0e};",
        "0.00e+00 means equal bit for bit.",
        f"torch {torch.__version__}",
    ]


def likely_cause(
    layer: nn.Module, official: nn.MultiheadAttention, x: Tensor, output: Tensor, expected: Tensor
) -> list[str]:
    """What is wrong, as far as running both layers again can tell."""
    told = [f"The consistency check failed: the tolerance is {TOLERANCE:.0e}, torch is {torch.__version__}."]
    theirs = slots(official)
    unequal = [
        f"{slot.label} and {theirs[role].label}"
        for role, slot in slots(layer).items()
        if not torch.equal(slot.tensor, theirs[role].tensor)
    ]
    if unequal:
        return [*told, f"Likely wrong: the weights did not arrive; these differ: {', '.join(unequal)}."]
    if output.shape != expected.shape:
        return [*told, f"Likely wrong: the output has shape {tuple(output.shape)}, not {tuple(expected.shape)}."]
    for name, values in (("mha.MultiHeadAttention", output), ("torch.nn.MultiheadAttention", expected)):
        num_non_finite = int((~torch.isfinite(values)).sum())
        if num_non_finite:
            told.append(f"{num_non_finite} of {values.numel()} elements from {name} are NaN or infinite.")
    strays = [
        f"Likely wrong: {name}; it strays from the float64 truth, first in {STAGES[stage]}."
        for name, stage in (
            ("mha.MultiHeadAttention", first_stray_stage(layer, lambda module, probe: module(probe), x)),
            ("torch.nn.MultiheadAttention", first_stray_stage(official, call_official, x)),
        )
        if stage is not None
    ]
    if strays:
        return told + strays
    truth = oracle(x, AttentionWeights.of(official), NUM_HEADS).output
    errors = [float((values.double() - truth).abs().max()) for values in (output, expected)]
    return [
        *told,
        f"Likely wrong: a second run of both was near the float64 truth, the first was off by {errors[0]:.2e} "
        f"(mha) and {errors[1]:.2e} (torch): something random, or rounding coarser than the tolerance.",
    ]


if __name__ == "__main__":
    sys.exit(main())
