"""Whether the check tells right layers from wrong ones where numbers are large: right ones pass, planted faults fail.

Right layers differ from the official one in their order of work alone. Each is checked in three dtypes, at inputs up to
300 times as large as usual, at many seeds; each planted fault likewise, in float64 too. Prints a row for each dtype and
scale: how many of the checks of right layers passed, how many overflowed (float16 ends at 65,504: scores that are
scaled after the product are NaN there, which the check has to say), where the official layer's own output is not finite
so that nothing can be compared, and how many faults passed. Exit status 1 where a right layer fails otherwise, or a
fault passes. `python tests/benchmarks/check_variants.py [SEEDS [SEEDS_OF_FAULTS]]`; 20 and 2 take about an hour and a
half on one core.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch.nn.functional as F

from mha import check_consistency
from mha.checking.planted import PLANTED, PlainAttention

SCALES = (1, 10, 30, 60, 80, 100, 120, 300)
DTYPES = ("float32", "bfloat16", "float16")
KEYS_AT_ONCE = 3


class QueriesScaled(PlainAttention):
    """Scales the queries, before the product."""

    def project(self, x):
        q, k, v = super().project(x)
        return q / math.sqrt(self.head_dim), k, v

    def scaled(self, scores):
        return scores


class KeysScaled(QueriesScaled):
    def project(self, x):
        q, k, v = PlainAttention.project(self, x)
        return q, k * self.head_dim**-0.5, v


class BothScaled(QueriesScaled):
    """Scales queries and keys by the root of the scale each."""

    def project(self, x):
        q, k, v = PlainAttention.project(self, x)
        return q * self.head_dim**-0.25, k * self.head_dim**-0.25, v


class SoftmaxInFloat32(QueriesScaled):
    def attn_weights(self, scores):
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)


class SoftmaxByHand(QueriesScaled):
    def attn_weights(self, scores):
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        return powers / powers.sum(-1, keepdim=True)


class Fused(PlainAttention):
    def forward(self, x):
        q, k, v = (self.split(part) for part in self.project(x))
        return self.out(self.merge(F.scaled_dot_product_attention(q, k, v)), x)


class ScaledInTheProduct(PlainAttention):
    """Lets the batched product scale, before it rounds."""

    def forward(self, x):
        q, k, v = (self.split(part).flatten(0, 1) for part in self.project(x))  # (B*H, S, D)
        scores = x.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scores = torch.baddbmm(scores, q, k.transpose(-2, -1), beta=0, alpha=self.head_dim**-0.5)
        context = (scores.softmax(-1) @ v).unflatten(0, (x.shape[0], self.num_heads))
        return self.out(self.merge(context), x)


class KeysInBlocks(QueriesScaled):
    """Takes a few keys at a time and keeps a running maximum and sum, as flash attention does."""

    def forward(self, x):
        q, k, v = (self.split(part) for part in self.project(x))
        most = q.new_full((*q.shape[:-1], 1), -math.inf, dtype=torch.float32)
        total, context = torch.zeros_like(most), torch.zeros_like(q, dtype=torch.float32)
        for keys, values in zip(k.split(KEYS_AT_ONCE, 2), v.split(KEYS_AT_ONCE, 2), strict=True):
            scores = (q @ keys.transpose(-2, -1)).float()
            higher = torch.maximum(most, scores.amax(-1, keepdim=True))
            powers, kept = (scores - higher).exp(), (most - higher).exp()
            total, context = total * kept + powers.sum(-1, keepdim=True), context * kept + powers @ values.float()
            most = higher
        return self.out(self.merge((context / total).to(x.dtype)), x)


class WholeInFloat32(PlainAttention):
    def forward(self, x):
        def project(linear, values):
            return F.linear(values, linear.weight.float(), linear.bias.float())

        q, k, v = (self.split(project(one, x.float())) for one in (self.q_proj, self.k_proj, self.v_proj))
        attn_weights = (q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)).softmax(-1)
        return project(self.out_proj, self.merge(attn_weights @ v)).to(x.dtype)


RIGHT = (
    PlainAttention,
    QueriesScaled,
    KeysScaled,
    BothScaled,
    SoftmaxInFloat32,
    SoftmaxByHand,
    Fused,
    ScaledInTheProduct,
    KeysInBlocks,
    WholeInFloat32,
)


def answer_of(layer, dtype, scale, seed):
    """What the check says: its verdict, or `overflow`, `nothing to compare`."""
    found = check_consistency(layer, d_model=64, num_heads=4, dtype=dtype, input_scale=scale, seed=seed)
    if found.verdict == "fail" and found.num_non_finite and layer in RIGHT:
        return "overflow"
    if found.verdict == "error" and "the official layer's own output" in found.reason:
        return "nothing to compare"
    return found.verdict


def main(num_seeds=20, num_seeds_of_faults=2):
    torch.set_num_threads(1)
    wrong = 0
    for dtype in (*DTYPES, "float64"):
        for scale in SCALES:
            right, failed = Counter(), []
            for layer in RIGHT if dtype in DTYPES else ():
                for seed in range(num_seeds):
                    answer = answer_of(layer, dtype, scale, seed)
                    right[answer] += 1
                    may_overflow = dtype == "float16" and scale > 30
                    if answer not in ("pass", "overflow", "nothing to compare") or (
                        answer != "pass" and not may_overflow
                    ):
                        failed.append(f"{layer.__name__} at seed {seed}: {answer}")
            faults = Counter()
            for name, layer in PLANTED.items():
                for seed in range(num_seeds_of_faults):
                    answer = answer_of(layer, dtype, scale, seed)
                    faults[answer] += 1
                    if answer == "pass":
                        failed.append(f"{name} at seed {seed}: {answer}")
            wrong += len(failed)
            told = {"right": dict(right), "faults": dict(faults)}
            print(f"{dtype:9} × {scale:3}: {told}", *failed, sep="\n    ", flush=True)
    print(f"{wrong} wrong answers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
