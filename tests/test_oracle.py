"""The float64 truth, against values computed by hand and against torch's own float64."""

import math
import sys

import pytest
import torch

from mha import AttentionWeights, MultiHeadAttention, call_official, causal_mask, official_layer, oracle, randomize_

ORACLE_MODULE = sys.modules["mha.oracle"]  # the attribute `oracle` of the package is the function


def scalar_weights(w_q, w_k, w_v, w_o):
    return AttentionWeights(*(torch.tensor([[float(w)]], dtype=torch.float64) for w in (w_q, w_k, w_v, w_o)))


def test_one_channel_by_hand():
    # Queries and keys are x itself, values 2x, output 5 times. Scores of token 1 (x=1): 0*1, 1*1.
    x = torch.tensor([[[0.0], [1.0]]])
    found = oracle(x, scalar_weights(1, 1, 2, 5), 1)
    share = math.e / (1 + math.e)  # softmax of (0, 1), at the second
    assert found.output[0, :, 0].tolist() == pytest.approx([5 * 2 * 0.5, 5 * 2 * share], abs=1e-15)
    assert found.rows.tolist() == [0, 1]


def test_two_heads_are_scaled_by_head_dim_by_hand():
    # d_model 8, 2 heads of 4: all weights 1/8 make every q, k, v channel the mean of x; x = (4, 0) per token.
    x = torch.zeros(1, 2, 8)
    x[0, 0] = 4.0
    weights = AttentionWeights(*(torch.full((8, 8), 0.125, dtype=torch.float64) for _ in range(4)))
    # Token 0: scores (4*4*4, 0) / sqrt(4) = (32, 0); its attention to itself is 1/(1+e^-32). Token 1: uniform, 2.
    assert oracle(x, weights, 2).output[0, :, 0].tolist() == pytest.approx([4 / (1 + math.exp(-32)), 2.0], abs=1e-15)


def test_causal_first_token_sees_itself_only():
    x = torch.tensor([[[3.0], [1.0], [7.0]]])
    output = oracle(x, scalar_weights(0, 0, 1, 1), 1, causal=True).output
    assert output[0, :, 0].tolist() == pytest.approx([3.0, 2.0, 11 / 3])


def test_biases_are_added_by_hand():
    one, two = torch.ones(1, dtype=torch.float64), torch.full((1,), 2.0, dtype=torch.float64)
    plain = scalar_weights(0, 0, 1, 3)
    weights = AttentionWeights(plain.w_q, plain.w_k, plain.w_v, plain.w_o, b_v=one, b_o=two)
    assert oracle(torch.tensor([[[1.0], [5.0]]]), weights, 1).output.flatten().tolist() == [14.0, 14.0]  # (3+1)*3+2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_oracle_is_near_the_official_layer_in_float64(bias, causal):
    official = randomize_(official_layer(15, 3, bias=bias, dtype=torch.float64), 3)
    x = torch.randn(2, 7, 15, dtype=torch.float64)
    expected = call_official(official, x, causal_mask=causal_mask(7, dtype=x.dtype) if causal else None)
    found = oracle(x, AttentionWeights.of(official), 3, causal=causal).output
    assert torch.allclose(found, expected, atol=1e-14)


def test_blocks_do_not_change_the_result(monkeypatch):
    layer, x = randomize_(MultiHeadAttention(14, 2), 1), torch.randn(3, 11, 14)
    whole = oracle(x, AttentionWeights.of(layer), 2, causal=True).output
    monkeypatch.setattr(ORACLE_MODULE, "BLOCK_ELEMENTS", 3 * 2 * 11 * 4)
    assert torch.allclose(oracle(x, AttentionWeights.of(layer), 2, causal=True).output, whole, atol=1e-15)


def test_a_sample_of_rows_is_those_rows_of_the_whole(monkeypatch):
    layer, x = randomize_(MultiHeadAttention(14, 2), 1), torch.randn(3, 11, 14)
    whole = oracle(x, AttentionWeights.of(layer), 2)
    monkeypatch.setattr(ORACLE_MODULE, "TOTAL_ELEMENTS", 3 * 2 * 11 * 4)
    sample = oracle(x, AttentionWeights.of(layer), 2)
    assert sample.rows.tolist() == [0, 3, 7, 10]
    assert torch.allclose(sample.output, whole.output[:, sample.rows], atol=1e-15)
    chosen = oracle(x, AttentionWeights.of(layer), 2, rows=torch.tensor([9, 2]))
    assert torch.allclose(chosen.output, whole.output[:, [9, 2]], atol=1e-15)


def test_weights_are_copies_in_float64():
    layer = MultiHeadAttention(6, 2, dtype=torch.float64)
    weights = AttentionWeights.of(layer)
    layer.W_Q.weight.data.zero_()
    assert weights.w_q.any()
    assert AttentionWeights.of(MultiHeadAttention(6, 2, dtype=torch.bfloat16)).w_o.dtype == torch.float64


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="d_model=1 and num_heads=2"):
        oracle(torch.zeros(1, 2, 1), scalar_weights(1, 1, 1, 1), 2)
