"""Roles are read off names, orders of axes off shapes, and each reading writes what it reads."""

import pytest
import torch
from foreign_layers import RIGHT_LAYERS
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mha import UnknownLayoutError
from mha.reading.building import build_layer
from mha.reading.layouts import parameters_of
from mha.reading.reader import readings
from mha.reading.roles import is_norm, roles_of, without_index
from mha.reading.storage import Stored, arrangements


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("W_Q.weight", "q"),
        ("wk", "k"),
        ("to_v.weight", "v"),
        ("fc_q.bias", "q"),
        ("w_ks.weight", "k"),
        ("attention.self.query.weight", "q"),
        ("tovalues.weight", "v"),
        ("linear_k.weight", "k"),
        ("heads.11.value.weight", "v"),
        ("q_proj_weight", "q"),
        ("in_proj_weight", "qkv"),
        ("query_key_value.weight", "qkv"),
        ("c_attn.bias", "qkv"),
        ("Wqkv.weight", "qkv"),
        ("to_kv.weight", "kv"),
        ("kqv.weight", "kqv"),
        ("out_proj.weight", "o"),
        ("to_out.0.weight", "o"),
        ("unifyheads.weight", "o"),
        ("output.dense.weight", "o"),
        ("b_O", "o"),
        ("linears.0.weight", ""),
        ("relative_position_bias_table", ""),
        ("q_norm.weight", ""),
        ("proj.weight", ""),
    ],
)
def test_a_name_tells_the_role(name, roles):
    assert "".join(roles_of(name) or ()) == roles


@pytest.mark.parametrize(
    ("name", "norm"), [("norm.weight", True), ("ln_1.bias", True), ("k_norm.weight", True), ("linear.weight", False)]
)
def test_a_norm_is_told_by_its_name(name, norm):
    assert is_norm(name) is norm


def test_heads_of_a_list_have_one_name_without_their_index():
    assert without_index("heads.0.key.weight") == without_index("heads.17.key.weight") != without_index("heads.0.q")


def test_a_square_matrix_may_be_stored_either_way_and_its_rows_in_two_orders():
    assert list(arrangements((6, 6), "HDE", {"H": 2, "D": 3, "E": 6})) == [
        (("H", "D"), ("E",)),
        (("D", "H"), ("E",)),
        (("E",), ("H", "D")),
        (("E",), ("D", "H")),
    ]


def test_three_axes_of_different_sizes_leave_one_order():
    assert list(arrangements((2, 6, 3), "HDE", {"H": 2, "D": 3, "E": 6})) == [(("H",), ("E",), ("D",))]


def test_a_shape_that_cannot_be_has_no_order():
    assert not list(arrangements((5, 6), "HDE", {"H": 2, "D": 3, "E": 6}))


def test_a_block_packed_head_by_head_is_read_by_hand():
    # d_model 2, 2 heads of 1: rows q0 k0 v0 q1 k1 v1.
    rows = torch.tensor([[1.0, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]])
    stored = Stored("w", ("q", "k", "v"), ("qkv",), (("H", "R", "D"), ("E",)))
    read = stored.read({"qkv": rows}, {"H": 2, "R": 3, "D": 1, "E": 2})
    assert read["w_q"].tolist() == [[1, 2], [7, 8]]
    assert read["w_k"].tolist() == [[3, 4], [9, 10]]
    assert read["w_v"].tolist() == [[5, 6], [11, 12]]
    assert stored.how() == "packed head by head"


def test_fewer_key_heads_are_repeated_each_for_its_queries():
    stored = Stored("w", ("k",), ("k",), (("G", "D"), ("E",)))
    read = stored.read({"k": torch.tensor([[1.0] * 4, [2.0] * 4])}, {"H": 4, "G": 2, "D": 1, "E": 4})
    assert read["w_k"][:, 0].tolist() == [1, 1, 2, 2]
    assert stored.is_shared


def test_one_heads_matrix_stands_on_the_diagonal_for_every_head():
    stored = Stored("w", ("q",), ("q",), (("D",), ("d",)))
    read = stored.read({"q": torch.tensor([[1.0, 2], [3, 4]])}, {"H": 2, "D": 2, "d": 2, "E": 4})
    assert read["w_q"].tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 1, 2], [0, 0, 3, 4]]


@settings(deadline=None, max_examples=40)
@given(
    layer=st.sampled_from(RIGHT_LAYERS),
    num_heads=st.integers(1, 5),
    head_dim=st.integers(1, 6),
    seed=st.integers(0, 999),
)
def test_every_reading_reads_what_it_writes(layer, num_heads, head_dim, seed):
    d_model = num_heads * head_dim
    built = build_layer(layer, d_model, num_heads)
    generator = torch.Generator().manual_seed(seed)
    for reading in readings(built, d_model, num_heads)[:30]:
        if reading.is_shared:
            continue
        values = {
            role: torch.randn(tuple(was.shape), generator=generator)
            for role, was in reading.read(parameters_of(built)).items()
        }
        reading.write(built, values)
        assert all(torch.equal(now, values[role]) for role, now in reading.read(parameters_of(built)).items())


def test_names_are_never_overruled():
    layer = nn.Module()
    layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj = (nn.Linear(6, 6) for _ in range(4))
    for reading in readings(layer, 6, 2):
        told = {one.roles: one.names for one in reading.stored if one.kind == "w"}
        assert told == {
            ("q",): ("q_proj.weight",),
            ("k",): ("k_proj.weight",),
            ("v",): ("v_proj.weight",),
            ("o",): ("out_proj.weight",),
        }


def test_parameters_without_counterpart_are_named():
    layer = nn.Module()
    layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj = (nn.Linear(6, 6) for _ in range(4))
    layer.norm, layer.gate = nn.LayerNorm(6), nn.Parameter(torch.ones(1))
    assert set(readings(layer, 6, 2)[0].unmatched) == {"norm.weight", "norm.bias", "gate"}


def test_a_misfit_names_the_parameter_and_both_shapes():
    layer = nn.Module()
    layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj = nn.Linear(6, 7), *(nn.Linear(6, 6) for _ in range(3))
    with pytest.raises(UnknownLayoutError, match=r"q_proj\.weight is \(7, 6\).*needs \(6, 6\)"):
        readings(layer, 6, 2)
