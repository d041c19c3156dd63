"""Weights move by role, as copies, and the mapping is told."""

import pytest
import torch
from foreign_layers import RIGHT_LAYERS
from torch import nn

from mha import (
    FusedMultiHeadAttention,
    MultiHeadAttention,
    TransplantError,
    UnknownLayoutError,
    call_official,
    official_layer,
    randomize_,
    transplant,
)
from mha.reading.building import build_layer
from mha.reading.calling import calling_of
from mha.slots import slots


def build(kind, bias):
    return {
        "explicit": lambda: MultiHeadAttention(14, 2, bias=bias),
        "fused": lambda: FusedMultiHeadAttention(14, 2, bias=bias),
        "official": lambda: official_layer(14, 2, bias=bias),
    }[kind]()


KINDS = ["explicit", "fused", "official"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_weights_arrive_by_role_in_every_direction(source, target, bias):
    source, target = randomize_(build(source, bias), 1), randomize_(build(target, bias), 2)
    mapping = transplant(source, target)
    given, arrived = slots(source), slots(target)
    assert [entry.how for entry in mapping] == ["copied"] * (8 if bias else 4)
    assert list(given) == list(arrived)
    assert all(torch.equal(given[role].tensor, arrived[role].tensor) for role in given)


def test_no_storage_is_shared():
    source, target = randomize_(official_layer(14, 2), 1), MultiHeadAttention(14, 2)
    transplant(source, target)
    kept = target.in_proj_weight.clone()
    source.in_proj_weight.data.zero_()
    source.out_proj.weight.data.zero_()
    assert torch.equal(target.in_proj_weight, kept)
    assert target.W_O.weight.any()


def test_the_mapping_names_both_sides():
    mapping = transplant(official_layer(14, 2), MultiHeadAttention(14, 2))
    assert mapping == [
        ("in_proj_weight[0:14]", "W_Q.weight", "copied"),
        ("in_proj_weight[14:28]", "W_K.weight", "copied"),
        ("in_proj_weight[28:42]", "W_V.weight", "copied"),
        ("out_proj.weight", "W_O.weight", "copied"),
    ]


def test_biases_that_only_the_target_has_become_zero_and_it_is_said():
    target = randomize_(MultiHeadAttention(14, 2, bias=True), 1)
    mapping = transplant(official_layer(14, 2), target)
    assert {entry.how for entry in mapping if entry.target.endswith("bias")} == {"set to zero"}
    assert not target.in_proj_bias.any()
    assert not target.W_O.bias.any()


def test_biases_that_have_no_place_are_refused_unless_zero():
    fresh = official_layer(14, 2, bias=True)
    transplant(fresh, MultiHeadAttention(14, 2))
    with pytest.raises(TransplantError, match=r"in_proj_bias\[0:14\] is not zero"):
        transplant(randomize_(fresh, 1), MultiHeadAttention(14, 2))


def test_another_width_is_refused_naming_both_shapes():
    with pytest.raises(TransplantError, match=r"\(14, 14\).*\(10, 10\)"):
        transplant(official_layer(14, 2), MultiHeadAttention(10, 2))


def test_an_unknown_layout_is_refused_with_its_parameters():
    with pytest.raises(UnknownLayoutError, match=r"Sequential has no layout known here.*0\.weight, 0\.bias"):
        slots(nn.Sequential(nn.Linear(3, 3)))


def test_projections_that_are_not_square_are_refused():
    layer = official_layer(14, 2)
    layer.in_proj_weight = nn.Parameter(torch.zeros(21, 14))
    with pytest.raises(UnknownLayoutError, match=r"in_proj_weight\[0:7\] has shape \(7, 14\), not \(14, 14\)"):
        slots(layer)


@pytest.mark.parametrize("layer", RIGHT_LAYERS)
def test_weights_arrive_in_layers_of_other_hands_whatever_their_layout(layer):
    target = build_layer(layer, 30, 5).eval()
    bias = sum(parameter.dim() == 1 for parameter in target.parameters()) > 1
    source = randomize_(official_layer(30, 5, bias=bias), 1)
    mapping = transplant(source, target)
    x = torch.randn(3, 7, 30)
    with torch.no_grad():
        output = calling_of(target)(target, x)
        torch.testing.assert_close(output, call_official(source, x), rtol=1e-4, atol=1e-5)
    assert len(mapping) >= 4


@pytest.mark.parametrize("layer", RIGHT_LAYERS)
def test_weights_leave_layers_of_other_hands_whatever_their_layout(layer):
    source = build_layer(layer, 30, 5).eval()
    target = official_layer(30, 5, bias=True)
    transplant(source, target)
    x = torch.randn(3, 7, 30)
    with torch.no_grad():
        output = calling_of(source)(source, x)
        torch.testing.assert_close(call_official(target, x), output, rtol=1e-4, atol=1e-5)


def test_random_values_depend_on_the_seed_and_not_on_the_layout():
    layers = [randomize_(build(kind, True), 7) for kind in KINDS]
    first = slots(layers[0])
    for layer in layers[1:]:
        assert all(torch.equal(slot.tensor, first[role].tensor) for role, slot in slots(layer).items())
    assert not torch.equal(slots(randomize_(build("official", True), 8))["w_q"].tensor, first["w_q"].tensor)
    assert all(slot.tensor.any() for slot in first.values())


def test_a_generator_goes_on_where_it_was():
    generator = torch.Generator().manual_seed(7)
    one, two = (randomize_(MultiHeadAttention(14, 2), generator).W_Q.weight for _ in range(2))
    assert torch.equal(one, randomize_(MultiHeadAttention(14, 2), 7).W_Q.weight)
    assert not torch.equal(one, two)


def test_values_are_converted_to_the_targets_dtype():
    source, target = randomize_(official_layer(14, 2), 1), MultiHeadAttention(14, 2, dtype=torch.bfloat16)
    transplant(source, target)
    assert torch.equal(target.W_Q.weight, source.in_proj_weight[:14].bfloat16())
