"""A class, a factory or a layer is built and called by the usual names of its arguments; others are asked about."""

import pytest
import torch
from torch import nn

from mha.reading.building import BuildError, build_layer, sizes_of
from mha.reading.calling import CallError, calling_of, output_of


def class_with(signature):
    """A layer whose constructor has these arguments and keeps what it was given."""
    scope = {"nn": nn}
    names = [part.split("=")[0].strip(" *") for part in signature.split(",")]
    kept = ", ".join(f"{name}={name}" for name in names if name)
    exec(
        f"class Layer(nn.Module):\n    def __init__(self, {signature}):\n        super().__init__()\n"
        f"        self.given = dict({kept})\n",
        scope,
    )
    return scope["Layer"]


@pytest.mark.parametrize(
    ("signature", "given"),
    [
        ("d_model, num_heads", {"d_model": 30, "num_heads": 5}),
        ("h, d_model, dropout=0.1", {"h": 5, "d_model": 30, "dropout": 0.1}),
        ("n_head, n_embd", {"n_head": 5, "n_embd": 30}),
        ("dim, heads=8, dim_head=64", {"dim": 30, "heads": 5, "dim_head": 6}),
        ("embed_dim, num_heads=8, bias=True", {"embed_dim": 30, "num_heads": 5, "bias": True}),
        ("d_in, d_out, context_length, dropout, num_heads", {"d_in": 30, "d_out": 30, "num_heads": 5, "dropout": 0.0}),
        ("hidden_size, num_attention_heads, head_dim", {"head_dim": 6}),
        ("d_model, n_heads, n_kv_heads", {"n_kv_heads": 5}),
        ("a, b", {"a": 30, "b": 5}),
        ("a, num_heads", {"a": 30, "num_heads": 5}),
        ("dim", {"dim": 30}),
        ("d_model, num_heads, *, max_len=4", {"max_len": 4096}),
    ],
)
def test_arguments_are_told_by_their_names(signature, given):
    built = build_layer(class_with(signature), 30, 5).given
    assert given.items() <= built.items()


def test_bias_and_causal_are_passed_on_only_where_asked_for():
    layer = class_with("d_model, num_heads, qkv_bias=False, causal=False")
    assert build_layer(layer, 30, 5).given["qkv_bias"] is False
    asked = build_layer(layer, 30, 5, bias=True, causal=True).given
    assert (asked["qkv_bias"], asked["causal"]) == (True, True)


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("config", "takes a configuration"),
        ("d_model, num_heads, vocabulary", "asks for vocabulary"),
    ],
)
def test_an_argument_of_unknown_meaning_asks_for_a_factory(signature, words):
    with pytest.raises(BuildError, match=f"{words}.*write a factory"):
        build_layer(class_with(signature), 30, 5)


@pytest.mark.parametrize("target", [3, "attention", lambda d_model, num_heads: 7])
def test_what_is_no_layer_is_refused(target):
    with pytest.raises(BuildError, match=r"torch\.nn\.Module"):
        build_layer(target, 30, 5)


def test_a_ready_made_layer_is_copied():
    layer = nn.Linear(3, 3)
    built = build_layer(layer, 30, 5)
    assert built is not layer
    assert torch.equal(built.weight, layer.weight)
    assert built.weight.data_ptr() != layer.weight.data_ptr()


def test_sizes_of_a_ready_made_layer_are_read_off_its_attributes_or_its_modules():
    assert sizes_of(nn.MultiheadAttention(30, 5), 7, 7) == (30, 5)
    assert sizes_of(nn.Sequential(nn.Linear(14, 14)), 7, 2) == (14, 2)


def layer_with(signature, body):
    scope = {"nn": nn, "torch": torch}
    exec(f"class Layer(nn.Module):\n    def forward(self, {signature}):\n        return {body}\n", scope)
    return scope["Layer"]()


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("x", "10 * x"),
        ("hidden_states, attention_mask=None", "10 * hidden_states"),
        ("query, key, value", "100 * query + 10 * key + value"),
        ("values, keys, query, mask", "100 * query + 10 * keys + values"),
        ("a, b, c", "100 * a + 10 * b + c"),
        ("x, context=None", "100 * x + 11 * (x if context is None else context)"),
        ("x, memory", "100 * x + 11 * memory"),
        (
            "query, key=None, value=None",
            "100 * query + 10 * (query if key is None else key) + (query if value is None else value)",
        ),
        ("q, k, v, mask=None, need_weights=False", "(100 * q + 10 * k + v, mask)"),
        ("x", "{'weights': torch.ones(1), 'output': 10 * x}"),
        ("x", "(torch.ones(2), 10 * x)"),
        ("*args", "10 * args[0]"),
        ("*args, context=None, **options", "10 * args[0] if context is None else None"),
    ],
)
def test_a_layer_is_called_by_the_names_of_its_arguments(signature, body):
    layer = layer_with(signature, body)
    x = torch.tensor([[[1.0, 2.0]]])
    calling = calling_of(layer)
    expected = 111 * x if ("100" in body) else 10 * x
    assert torch.equal(calling(layer, x), expected)
    if calling.takes_keys_and_values and calling.key is not None:
        assert torch.equal(calling(layer, x, 2 * x, 3 * x), 100 * x + 20 * x + 3 * x)


def test_a_sequence_first_layer_sees_and_gives_its_own_layout():
    layer = layer_with("x", "x.cumsum(0)")
    x = torch.ones(2, 3, 5)
    assert torch.equal(calling_of(layer, batch_first=False)(layer, x), x.cumsum(1))


def test_an_argument_of_unknown_meaning_is_named():
    with pytest.raises(CallError, match="asks for rope, of which"):
        calling_of(layer_with("x, mask, *, rope", "x"))


@pytest.mark.parametrize("body", ["None", "3", "{}", "('a',)"])
def test_no_tensor_returned_is_said(body):
    layer = layer_with("x", body)
    with pytest.raises(CallError, match="without a tensor"):
        calling_of(layer)(layer, torch.ones(1, 2, 3))


class Returned:
    """An object with the output among its attributes."""

    def __init__(self, output):
        self.attentions, self.output = None, output


@pytest.mark.parametrize(
    "wrapped",
    [lambda x: {"out": {"hidden": x}}, lambda x: ((None, x), "weights"), lambda x: [Returned(x)]],
)
def test_the_output_is_found_in_what_holds_it(wrapped):
    x = torch.ones(1, 2, 3)
    assert output_of(wrapped(x), x.shape) is x
