r"""`peak_memory_mib` against peaks worked out by hand from the layers' and torch's source.

The letters: T = b·s·d·4 bytes, a tensor of tokens in float32; S = b·h·s²·4, one of scores; W = d²·4, one matrix of
weights; L = b·h·s·4, a number per query, the fused kernel's log-sum-exp. `b` and `h` are at least 2 throughout: with
one sequence or one head some copies are views.

Inference
    All four begin alike: the tokens in rows (T), their product with the packed weights (3T), after which the rows go,
    and its copy into three blocks (3T) beside it: 6T. Then only the copy stays.

    - `custom`: the queries are scaled in place, the scores come (S), the softmax is written over them, the context
      over the queries. Peak: the three blocks and the scores, 3T + S.
    - `official`, the default call: a scaled copy of the queries (T) goes before the softmax, which has a tensor of its
      own (S) beside the scores (S): 3T + 2S. Where S is small another moment is the higher: the context in heads and in
      rows beside the weights, 3T + S + 2T; or the weights' mean over heads beside the output, 3T + S + T + S/h, and
      12 bytes for its divisor as a tensor, in float64 and in float32.
    - `custom-fused` and `official-fused`: the kernel takes the context (T), L, and per thread a block of scores with
      its maxima, sums and context: 4T and little more. So the beginning is the peak, 6T.

Training, one `autograd.grad` of output to input and weights
    The peak lies in the backward of attention. Of the forward there are left: the tokens in rows (T) and the three
    blocks (3T) for the products' gradients, and the output itself (T); of the backward so far the output projection's
    gradient (W).

    - `custom` and `official`: also the scaled queries (T) and their scale as a tensor (8 bytes), the attention weights
      (S), the gradient of the values (T) and of the weights (S). The softmax's gradient (S) comes on top:
      7T + 3S + W + 8.
    - `custom-fused` and `official-fused`: also the context (T) and L, its gradient in rows (T) and made contiguous
      (T), the gradients of q, k and v (3T), and the kernel's own: two blocks of scores per thread and one row's worth
      of sums: 11T + L + W + 2 · threads · 256 · 512 · 4 + 256 · 4. The blocks are 256 x 512 from seq_len 768 on.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_up_runs import make_workload

from mha import fast_path
from profiling.costs import MIB
from profiling.measuring import passes
from profiling.measuring.contenders.known import Contender, make_contender, make_input, make_weights
from profiling.measuring.devices.cpu import Cpu
from profiling.measuring.passes import measure
from profiling.workload import Workload

BOTH_MODES = ("inference", "training")
THREADS = 2


def peaks(workload: Workload, names: tuple[str, ...] | list[str]) -> dict[str, int]:
    """The peak of each contender's call in bytes, in the order of the names."""
    torch.set_num_threads(workload.threads)
    x, weights = make_input(workload), make_weights(workload)
    contenders = [make_contender(name, workload, weights, x) for name in names]
    gradients = torch.enable_grad() if workload.mode == "training" else torch.inference_mode()
    with gradients, fast_path(False):
        return {contender.name: Cpu().peak_bytes(contender.call) for contender in contenders}


@pytest.fixture(autouse=True)
def same_threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def letters(point: Workload, size: int = 4) -> tuple[int, int, int, int]:
    """T, S, W and L in bytes, for elements of so many bytes."""
    b, s, d, h = point.batch_size, point.seq_len, point.d_model, point.num_heads
    return b * s * d * size, b * h * s * s * size, d * d * size, b * h * s * size


# -- at the size that is talked of -------------------------------------------------------------------------------------

MEBI = 2**20
# At batch 4, seq_len 1024, d_model 512, 8 heads: T = 8 MiB, S = 128 MiB, W = 1 MiB, L = 1/8 MiB.
WORKED_MIB = {
    ("custom", "inference"): 3 * 8 + 128,
    ("official", "inference"): 3 * 8 + 2 * 128,
    ("custom-fused", "inference"): 6 * 8,
    ("official-fused", "inference"): 6 * 8,
    ("custom", "training"): 7 * 8 + 3 * 128 + 1,
    ("official", "training"): 7 * 8 + 3 * 128 + 1,
    # 2 threads with two blocks of half a MiB each.
    ("custom-fused", "training"): 11 * 8 + 1 / 8 + 1 + 2 * 2 * 0.5,
    ("official-fused", "training"): 11 * 8 + 1 / 8 + 1 + 2 * 2 * 0.5,
}


@pytest.mark.parametrize(("name", "mode"), list(WORKED_MIB))
def test_the_peak_is_the_one_worked_by_hand_within_a_percent(name: str, mode: str) -> None:
    point = make_workload(batch_size=4, seq_len=1024, d_model=512, num_heads=8, mode=mode, threads=THREADS)
    assert [size / MEBI for size in letters(point)] == [8, 128, 1, 1 / 8]
    assert peaks(point, [name])[name] / MEBI == pytest.approx(WORKED_MIB[name, mode], rel=0.01)


# -- and at others, to the byte ----------------------------------------------------------------------------------------

# (batch_size, seq_len, d_model, num_heads); S >= T >= W, so that in training the stated moment is the highest.
SHAPES = [(2, 13, 6, 2), (3, 29, 35, 5), (5, 23, 33, 3), (2, 67, 22, 11)]


def worked(name: str, mode: str, point: Workload, size: int) -> int:
    """The peak of the explicit layer or of the official default call, in bytes."""
    tokens, scores, weights, _ = letters(point, size)
    if mode == "training":
        return 7 * tokens + 3 * scores + weights + 8
    if name == "custom":
        return max(6 * tokens, 3 * tokens + scores)
    mean = scores // point.num_heads
    later = max(5 * tokens + scores, 4 * tokens + scores + mean + 8 + size)
    return max(6 * tokens, 3 * tokens + 2 * scores, later)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", BOTH_MODES)
def test_the_rule_holds_at_odd_shapes_to_the_byte(shape: tuple[int, int, int, int], mode: str) -> None:
    b, s, d, h = shape
    dtype, size = ("float64", 8) if shape == SHAPES[1] else ("float32", 4)
    point = make_workload(batch_size=b, seq_len=s, d_model=d, num_heads=h, mode=mode, dtype=dtype)
    tokens, scores, weights, _ = letters(point)
    assert scores >= tokens >= weights, "the rule is stated for such"
    names = ("custom", "official")
    assert peaks(point, names) == {name: worked(name, mode, point, size) for name in names}


def test_a_fused_kernels_own_buffers_are_in_the_peak() -> None:
    # One long sequence, tokens few: the kernel's blocks are most of it.
    def peak(threads: int) -> int:
        point = make_workload(batch_size=2, seq_len=771, d_model=6, num_heads=2, mode="training", threads=threads)
        return peaks(point, ["custom-fused"])["custom-fused"]

    one, two, three = (peak(threads) for threads in (1, 2, 3))
    block = 256 * 512 * 4
    assert two - one == three - two == 2 * block
    tokens, _, weights, logsumexp = letters(make_workload(batch_size=2, seq_len=771, d_model=6, num_heads=2))
    assert one == 11 * tokens + logsumexp + weights + 2 * block + 256 * 4


# -- whatever was measured before --------------------------------------------------------------------------------------


def test_the_peak_does_not_hang_on_what_was_measured_before_nor_on_the_order() -> None:
    names = ["custom", "custom-fused", "official", "official-fused"]
    points = [
        make_workload(batch_size=3, seq_len=s, d_model=14, num_heads=2, mode=mode)
        for s, mode in ((211, "inference"), (37, "training"))
    ]
    first = {point: peaks(point, names) for point in points}
    rng, held = random.Random(7), []
    for point, order in itertools.product(reversed(points), (list(reversed(names)), rng.sample(names, 4))):
        # The heap in another state each time: blocks of all sizes, some kept, some freed.
        held = [torch.empty(rng.randrange(1, 200_000)) for _ in range(29)][:: rng.choice((2, 3))]
        assert peaks(point, order) == first[point]
    assert held


# -- as it comes into a row --------------------------------------------------------------------------------------------


class FewCalls(Cpu):
    """Runs a call once, however many were asked for, and says it took a millisecond."""

    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        call()
        return num_calls * 1e-3


def row(name: str, **changes: Any) -> dict[str, Any]:
    rows = measure(
        make_workload(**changes), [name], FewCalls(), budget_s=0.01, order_seed=7, say=lambda phase, contender: None
    )
    return rows[name].cells


@pytest.mark.parametrize("mode", BOTH_MODES)
def test_a_row_tells_the_worked_peak_in_mib(mode: str) -> None:
    shape = {"batch_size": 3, "seq_len": 29, "d_model": 35, "num_heads": 5, "mode": mode}
    assert row("custom", **shape)["peak_memory_mib"] * MIB == worked("custom", mode, make_workload(**shape), 4)


def test_a_peak_that_cannot_be_told_is_empty_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    make, kept = passes.make_contender, []

    def keeping(name: str, *arguments: Any) -> Contender:
        contender = make(name, *arguments)

        def call() -> object:
            thread = threading.Thread(target=lambda: kept.append(torch.empty(5003, dtype=torch.uint8)))
            thread.start()
            thread.join()
            return contender.call()

        return Contender(contender.name, contender.layer, contender.forward, call)

    monkeypatch.setattr(passes, "make_contender", keeping)
    cells = row("custom")
    assert cells["status"] == "ok"
    assert cells.get("peak_memory_mib") is None
    assert "memory not measured" in cells["warnings"]
    assert "what is alive grew by +5003" in cells["warnings"]
