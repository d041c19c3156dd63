"""What a call costs by formula: its floating-point operations and the bytes it has to move at least. No torch.

Letters: b batch_size, s seq_len, d d_model. All of it holds for any number of heads and for every implementation, since
it is about what is computed, not how: so one yardstick serves all contenders of a workload.
"""

from __future__ import annotations

from profiling.workload import Workload

MIB = 2**20

ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}
# Query, key, value and output projection.
NUM_PROJECTIONS = 4


def forward_flop(workload: Workload) -> int:
    """Floating-point operations of one forward call: four projections, scores and weighted sum.

    `8·b·s·d² + 4·b·s²·d`, a multiplication and an addition counted as two. A causal layer is counted in full, whether
    its program skips the masked half or not: so one that skips it may seem faster than the machine allows.

    Not counted: adding the biases (4·b·s·d, one part in 2·d of the projections) and the softmax (about 5 per score,
    against 4·head_dim counted for it: 2 % at head_dim 64, more for narrow heads). They run at another rate than the
    matrix products that the machine's ceiling is measured with, and torch's counter leaves them out as well.
    """
    b, s, d = workload.batch_size, workload.seq_len, workload.d_model
    return 2 * NUM_PROJECTIONS * b * s * d * d + 4 * b * s * s * d


def call_flop(workload: Workload) -> int:
    """Operations of one call in the workload's mode.

    Training is three times the forward: each product `C = A·B` has two behind it, `dA = dC·Bᵀ` and `dB = Aᵀ·dC`, of as
    many operations as itself. Both are needed, since the gradients are those of the input and of all weights. A fused
    kernel that computes its scores anew on the way back does more than that, and is not paid for it.
    """
    return forward_flop(workload) * (3 if workload.mode == "training" else 1)


def call_bytes(workload: Workload) -> int:
    """Bytes that one call has to move between memory and processor at least, with a cache that holds all the rest.

    Inference reads the input (b·s·d elements) and the weights (4·d², with bias 4·d more) and writes the output,
    as large as the input: 2·b·s·d and the weights once. In training the gradient of the output is given only after the
    output is there, so what the forward read has to be read again. On top come the output's gradient (read), input and
    weights (read again), the gradients of both (written): 5·b·s·d, and the weights 3 times; but a bias twice, since no
    gradient needs its value.

    Queries, keys, values, scores and context are left out: a layer need not put them into memory. Where it does, as an
    explicit one does with its scores, that is a cost of its own, and shows as a smaller share of what is possible.
    """
    b, s, d = workload.batch_size, workload.seq_len, workload.d_model
    tokens, weights = b * s * d, NUM_PROJECTIONS * d * d
    biases = NUM_PROJECTIONS * d if workload.bias else 0
    moved = 5 * tokens + 3 * weights + 2 * biases if workload.mode == "training" else 2 * tokens + weights + biases
    return moved * ELEMENT_BYTES[workload.dtype]


def arithmetic_intensity(workload: Workload) -> float:
    """Operations of one call per byte that it has to move at least."""
    return call_flop(workload) / call_bytes(workload)
