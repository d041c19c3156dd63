"""The layers: bits, weights, names, errors, and how they behave as modules."""

import copy
import io
import pickle

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

from mha import (
    FusedMultiHeadAttention,
    MultiHeadAttention,
    call_official,
    causal_mask,
    fast_path,
    official_layer,
    randomize_,
    transplant,
)

LAYERS = [MultiHeadAttention, FusedMultiHeadAttention]
SHAPES = [
    # d_model, num_heads, batch_size, seq_len
    (8, 2, 2, 5),
    (33, 3, 2, 7),
    (231, 7, 3, 19),  # 7 heads of 33: where another layout of q, k, v changes the last bits
    (64, 64, 1, 13),
    (52, 4, 5, 101),
    (1024, 16, 2, 11),
    (61, 1, 4, 257),
    (96, 8, 3, 1),
    (2, 2, 3, 5),
]


def pair(cls, d_model, num_heads, *, bias=False, causal=False, dtype=torch.float32, seed=0):
    """One of our layers and the official one, with the same weights."""
    official = randomize_(official_layer(d_model, num_heads, bias=bias, dtype=dtype), seed)
    layer = cls(d_model, num_heads, bias=bias, causal=causal, dtype=dtype)
    transplant(official, layer)
    return layer, official


def official_output(layer, official, x):
    need_weights = layer.attends == "explicit"
    mask = causal_mask(x.shape[1], dtype=x.dtype) if layer.causal else None
    with fast_path(False):
        return call_official(official, x, need_weights=need_weights, causal_mask=mask)


def assert_same_bits(layer, official, x):
    for training in (False, True):
        layer.train(training)
        official.train(training)
        with torch.no_grad():
            assert torch.equal(layer(x), official_output(layer, official, x))
        with torch.inference_mode():
            assert torch.equal(layer(x), official_output(layer, official, x))
        assert torch.equal(layer(x), official_output(layer, official, x))


def gradients(layer, run, x, upstream):
    x = x.clone().requires_grad_()
    layer.zero_grad()
    run(x).backward(upstream)
    return [x.grad, *(parameter.grad for parameter in layer.parameters())]


def assert_same_gradient_bits(layer, official, x):
    upstream = torch.randn(x.shape).to(x.dtype)
    mine = gradients(layer, layer, x, upstream)
    theirs = gradients(official, lambda x: official_output(layer, official, x), x, upstream)
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_explicit_layer_equals_official_bit_for_bit(shape):
    d_model, num_heads, batch_size, seq_len = shape
    layer, official = pair(MultiHeadAttention, d_model, num_heads)
    assert_same_bits(layer, official, torch.randn(batch_size, seq_len, d_model))


@pytest.mark.parametrize("shape", SHAPES)
def test_fused_layer_equals_official_bit_for_bit(shape):
    d_model, num_heads, batch_size, seq_len = shape
    layer, official = pair(FusedMultiHeadAttention, d_model, num_heads)
    assert_same_bits(layer, official, torch.randn(batch_size, seq_len, d_model))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    cls=st.sampled_from(LAYERS),
    num_heads=st.integers(1, 64),
    head_dim=st.integers(1, 64),
    batch_size=st.integers(1, 5),
    seq_len=st.integers(1, 257),
    bias=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_any_shape_equals_official_bit_for_bit(cls, num_heads, head_dim, batch_size, seq_len, bias, seed):
    d_model = num_heads * head_dim
    assume(8 <= d_model <= 1024)
    assume(batch_size * seq_len * d_model * (d_model + seq_len) < 3e8)  # keeps the test short, not the claim narrow
    layer, official = pair(cls, d_model, num_heads, bias=bias, seed=seed)
    x = torch.randn(batch_size, seq_len, d_model, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        assert torch.equal(layer(x), official_output(layer, official, x))
    assert_same_gradient_bits(layer, official, x)


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_bias_causal_and_other_dtypes_equal_official_bit_for_bit(cls, causal, bias, dtype):
    layer, official = pair(cls, 42, 3, bias=bias, causal=causal, dtype=dtype)
    x = torch.randn(2, 17, 42, dtype=dtype)
    assert_same_bits(layer, official, x)
    assert_same_gradient_bits(layer, official, x)


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("d_model", "num_heads"), [(512, 1), (67, 1), (67, 67), (11, 11)])
def test_one_head_and_head_dim_1_equal_official_bit_for_bit(cls, bias, dtype, d_model, num_heads):
    # Here putting the heads side by side copies nothing, so the product that follows sees memory of another order.
    layer, official = pair(cls, d_model, num_heads, bias=bias, dtype=dtype)
    x = torch.randn(5, 61, d_model, dtype=dtype)
    assert_same_bits(layer, official, x)
    assert_same_gradient_bits(layer, official, x)


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("bias", [False, True])
def test_gradients_with_head_dim_1_equal_official_bit_for_bit(cls, bias):
    # Here the gradients of q, k and v can be seen as one block without a copy, in a layout of another order.
    for seed in range(10):
        layer, official = pair(cls, 8, 8, bias=bias, seed=seed)
        assert_same_gradient_bits(layer, official, torch.randn(1, 84, 8))


@pytest.mark.parametrize("cls", LAYERS)
def test_the_written_procedure_passes(cls):
    torch.manual_seed(42)
    d = 8
    layer = cls(d, 2)
    official = nn.MultiheadAttention(d, 2, batch_first=True, bias=False)
    with torch.no_grad():
        official.in_proj_weight[0:d] = layer.W_Q.weight.data
        official.in_proj_weight[d : 2 * d] = layer.W_K.weight.data
        official.in_proj_weight[2 * d : 3 * d] = layer.W_V.weight.data
    official.out_proj.weight.data = layer.W_O.weight.data
    x = torch.randn(2, 5, d)
    assert (layer(x) - official(x, x, x)[0]).abs().max() < 1e-5


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("role", ["W_Q", "W_K", "W_V"])
@pytest.mark.parametrize("how", ["data", "assign", "no_grad"])
def test_writing_a_view_changes_what_the_layer_computes(cls, role, how):
    layer, x, values = cls(6, 2), torch.randn(2, 5, 6), torch.randn(6, 6)
    before = layer(x)
    view = getattr(layer, role)
    if how == "data":
        view.weight.data[...] = values
    elif how == "assign":
        view.weight = values
    else:
        with torch.no_grad():
            view.weight.copy_(values)
    assert torch.equal(getattr(layer, role).weight, values)
    assert not torch.equal(layer(x), before)
    rows = {"W_Q": 0, "W_K": 6, "W_V": 12}[role]
    assert torch.equal(layer.in_proj_weight[rows : rows + 6], values)


def test_rebinding_data_of_a_view_has_no_effect():
    layer = MultiHeadAttention(6, 2)
    before = layer.in_proj_weight.clone()
    layer.W_Q.weight.data = torch.zeros(6, 6)
    assert torch.equal(layer.in_proj_weight, before)


def test_a_view_refuses_values_of_another_shape_naming_both():
    layer = MultiHeadAttention(6, 2)
    with pytest.raises(ValueError, match=r"W_K\.weight has shape \(6, 6\), got values of shape \(6, 5\)"):
        layer.W_K.weight = torch.zeros(6, 5)


def test_a_view_has_a_bias_where_the_layer_has():
    layer = MultiHeadAttention(6, 2, bias=True)
    layer.W_V.bias = torch.arange(6.0)
    assert torch.equal(layer.in_proj_bias[12:], torch.arange(6.0))
    assert MultiHeadAttention(6, 2).W_V.bias is None
    with pytest.raises(ValueError, match="bias=False"):
        MultiHeadAttention(6, 2).W_V.bias = torch.zeros(6)


def test_a_projection_cannot_be_replaced_in_silence():
    layer = MultiHeadAttention(6, 2)
    with pytest.raises(AttributeError, match=r"assign W_Q\.weight"):
        layer.W_Q = nn.Linear(6, 6)


def test_hand_computed_output():
    # d_model 1: W_Q = 0 makes the attention uniform, so each output is the mean of the values, times W_O.
    layer = MultiHeadAttention(1, 1)
    layer.W_Q.weight = torch.tensor([[0.0]])
    layer.W_V.weight = torch.tensor([[2.0]])
    layer.W_O.weight.data[...] = torch.tensor([[5.0]])
    assert layer(torch.tensor([[[1.0], [2.0], [6.0]]])).tolist() == [[[30.0], [30.0], [30.0]]]
    causal = MultiHeadAttention(1, 1, causal=True)
    causal.load_state_dict(layer.state_dict())
    assert causal(torch.tensor([[[1.0], [2.0], [6.0]]])).flatten().tolist() == pytest.approx([10.0, 15.0, 30.0])


def test_the_same_seed_gives_the_official_layers_weights():
    for bias in (False, True):
        torch.manual_seed(3)
        layer = MultiHeadAttention(14, 2, bias=bias)
        torch.manual_seed(3)
        official = official_layer(14, 2, bias=bias)
        assert torch.equal(layer.in_proj_weight, official.in_proj_weight)
        assert torch.equal(layer.W_O.weight, official.out_proj.weight)
        assert not bias or not (layer.in_proj_bias.any() or layer.W_O.bias.any())


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize(("d_model", "num_heads"), [(10, 3), (4, 8)])
def test_heads_that_do_not_divide_are_refused_naming_both_numbers(cls, d_model, num_heads):
    with pytest.raises(ValueError, match=f"d_model={d_model} and num_heads={num_heads}"):
        cls(d_model, num_heads)


@pytest.mark.parametrize("sizes", [(0, 1), (8, 0), (-8, 2), (8, -2), (8.0, 2), (8, "2"), (True, True), (8, None)])
def test_sizes_that_are_no_positive_integers_are_refused(sizes):
    with pytest.raises(ValueError, match="must be a positive integer, got"):
        MultiHeadAttention(*sizes)


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("shape", [(5, 6), (2, 5, 7), (1, 2, 5, 6), (6,)])
def test_input_of_another_shape_is_refused_naming_it(cls, shape):
    with pytest.raises(ValueError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        cls(6, 2)(torch.zeros(shape))


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("shape", [(0, 5, 6), (2, 0, 6)])
def test_empty_input_gives_empty_output(cls, shape):
    layer, official = pair(cls, 6, 2)
    with torch.no_grad():
        assert layer(torch.zeros(shape)).shape == official_output(layer, official, torch.zeros(shape)).shape == shape


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", ["packed", "separate", "official"])
def test_state_dict_of_every_form_loads(form, bias):
    source = randomize_(MultiHeadAttention(6, 2, bias=bias), 5)
    state = dict(source.state_dict())
    parts = ["weight", "bias"] if bias else ["weight"]
    for part in parts:
        if form == "separate":
            block = state.pop(f"in_proj_{part}")
            state.update({f"W_{r}.{part}": block[i * 6 : i * 6 + 6] for i, r in enumerate("QKV")})
        if form == "official":
            state[f"out_proj.{part}"] = state.pop(f"W_O.{part}")
    target = MultiHeadAttention(6, 2, bias=bias)
    assert str(target.load_state_dict(state)) == "<All keys matched successfully>"
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))
    nested = nn.Sequential(MultiHeadAttention(6, 2, bias=bias))
    nested.load_state_dict({f"0.{name}": value for name, value in state.items()})
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), nested.parameters(), strict=True))


def test_a_state_dict_of_the_official_layer_itself_loads():
    layer, official = pair(MultiHeadAttention, 6, 2, bias=True)
    fresh = MultiHeadAttention(6, 2, bias=True)
    fresh.load_state_dict(official.state_dict())
    assert torch.equal(fresh.in_proj_weight, layer.in_proj_weight)


def test_loading_says_which_keys_are_missing_unexpected_or_misshapen():
    state = {f"W_{r}.weight": torch.zeros(6, 6) for r in "QKVO"}
    layer = MultiHeadAttention(6, 2)
    del state["W_K.weight"]
    result = layer.load_state_dict(state, strict=False)
    assert (result.missing_keys, result.unexpected_keys) == (["W_K.weight"], [])
    assert layer.W_K.weight.any()
    assert not layer.W_V.weight.any()
    with pytest.raises(RuntimeError, match=r"Missing key.*W_K\.weight"):
        layer.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*W_Q\.bias"):
        layer.load_state_dict({**layer.state_dict(), "W_Q.bias": torch.zeros(6)})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*W_Q\.weight"):
        layer.load_state_dict({**layer.state_dict(), "W_Q.weight": torch.zeros(6, 6)})
    with pytest.raises(RuntimeError, match=r"size mismatch for W_K\.weight"):
        layer.load_state_dict({**state, "W_K.weight": torch.zeros(6, 5)})
    with pytest.raises(RuntimeError, match=r"Missing key.*in_proj_weight"):
        layer.load_state_dict({"W_O.weight": torch.zeros(6, 6)})


@pytest.mark.parametrize("cls", LAYERS)
def test_copies_are_equal_and_independent(cls):
    layer, x = cls(6, 2), torch.randn(2, 5, 6)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    loaded = cls(6, 2)
    loaded.load_state_dict(torch.load(buffer))
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
        assert torch.equal(twin(x), layer(x))
        twin.W_Q.weight = torch.zeros(6, 6)
        assert layer.W_Q.weight.any()


@pytest.mark.parametrize("cls", LAYERS)
def test_an_optimizer_step_lowers_the_loss(cls):
    torch.manual_seed(0)
    layer, x, target = cls(6, 2), torch.randn(3, 5, 6), torch.randn(3, 5, 6)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = (layer(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize("cls", LAYERS)
def test_layers_move_between_dtypes_and_devices(cls):
    layer = cls(6, 2, bias=True).to(torch.float64)
    assert layer(torch.randn(2, 5, 6, dtype=torch.float64)).dtype == torch.float64
    assert layer.W_Q.weight.dtype == torch.float64
    for meta in (layer.to("meta"), cls(6, 2, device="meta", dtype=torch.bfloat16)):
        out = meta(torch.randn(2, 5, 6, device="meta", dtype=meta.in_proj_weight.dtype))
        assert (out.device.type, tuple(out.shape)) == ("meta", (2, 5, 6))
        with torch.no_grad():
            assert meta(out).shape == (2, 5, 6)


@pytest.mark.parametrize("cls", LAYERS)
def test_compiled_layer_computes_the_same(cls):
    torch.compiler.reset()
    layer, x = cls(12, 3), torch.randn(2, 5, 12)
    # aot_eager traces all that inductor would and needs no C++ compiler.
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        assert torch.allclose(compiled(x), layer(x), atol=1e-6)
    assert torch.allclose(compiled(x), layer(x), atol=1e-6)
    compiled(x).sum().backward()
    assert layer.in_proj_weight.grad is not None


@pytest.mark.parametrize("cls", LAYERS)
def test_gradients_agree_with_finite_differences(cls):
    layer = cls(6, 2, bias=True, causal=True, dtype=torch.float64)
    torch.autograd.gradcheck(layer, (torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True),))


@pytest.mark.parametrize("cls", LAYERS)
def test_the_input_is_not_written_to(cls):
    x = torch.randn(1, 5, 6)
    before = x.clone()
    with torch.no_grad():
        cls(6, 2)(x)
    assert torch.equal(x, before)


def test_pruned_and_parametrized_weights_are_used():
    layer, x = MultiHeadAttention(6, 2), torch.randn(2, 5, 6)
    nn.utils.parametrize.register_parametrization(layer, "in_proj_weight", Zero())
    assert not layer(x).any()
    layer = MultiHeadAttention(6, 2)
    nn.utils.parametrize.register_parametrization(layer.W_O, "weight", Zero())
    assert not layer(x).any()


class Zero(nn.Module):
    def forward(self, weight):
        return torch.zeros_like(weight)


def test_a_fused_layer_without_the_kernel_is_refused(monkeypatch):
    monkeypatch.delattr(torch.nn.functional, "scaled_dot_product_attention")
    with pytest.raises(RuntimeError, match=r"needs torch\.nn\.functional\.scaled_dot_product_attention"):
        FusedMultiHeadAttention(8, 2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.float64])
def test_a_weight_that_a_state_dict_lacks_stays_as_it_is(dtype):
    layer = randomize_(MultiHeadAttention(6, 2), 5)
    before = layer.W_V.weight.clone()
    state = {f"{role}.weight": torch.ones(6, 6, dtype=dtype) for role in ("W_Q", "W_K", "W_O")}
    found = layer.load_state_dict(state, strict=False)
    assert found.missing_keys == ["W_V.weight"]
    assert torch.equal(layer.W_V.weight, before)
    assert torch.equal(layer.W_Q.weight, torch.ones(6, 6))


def test_a_state_dict_entry_that_is_no_tensor_is_missing():
    with pytest.raises(RuntimeError, match=r"Missing key.*W_K\.weight"):
        MultiHeadAttention(6, 2).load_state_dict(
            {
                "W_Q.weight": torch.ones(6, 6),
                "W_K.weight": None,
                "W_V.weight": torch.ones(6, 6),
                "W_O.weight": torch.ones(6, 6),
            }
        )
