from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import make_workload

from profiling.parsing import parse_number, parse_seconds, parse_sizes, parse_switches, parse_words
from profiling.workload import AXES, DTYPES, MAX_SIZE, MAX_THREADS, MODES, Grid, GridError, Workload

SIZES = st.integers(1, 10_000)


def some(values: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=1, max_size=most, unique=True).map(tuple)


GRIDS = st.builds(
    Grid,
    batch_size=some(SIZES),
    seq_len=some(SIZES),
    num_heads=some(SIZES),
    d_model=SIZES,
    dtype=some(st.sampled_from(DTYPES)),
    mode=some(st.sampled_from(MODES)),
    bias=some(st.booleans(), 2),
    causal=some(st.booleans(), 2),
    device=st.sampled_from(["auto", "cpu", "cuda:1"]),
    threads=st.none() | st.integers(1, MAX_THREADS),
    seed=st.integers(0, 2**63 - 1),
)


@given(GRIDS)
def test_a_grid_survives_the_way_through_json(grid: Grid) -> None:
    assert Grid.from_dict(json.loads(json.dumps(grid.to_dict()))) == grid


@given(GRIDS)
def test_a_grid_holds_as_many_points_as_it_says_all_different(grid: Grid) -> None:
    points = list(grid.workloads())
    assert len(points) == grid.num_points == len(set(points))


@given(GRIDS)
def test_a_workload_survives_the_way_through_json(grid: Grid) -> None:
    point = next(grid.workloads(device="cpu", threads=2))
    assert Workload.from_dict(json.loads(json.dumps(point.to_dict()))) == point


def test_the_last_axis_varies_fastest() -> None:
    grid = Grid(batch_size=(2, 3), seq_len=(5, 7), num_heads=(11,), d_model=22)
    assert [(point.batch_size, point.seq_len) for point in grid.workloads()] == [(2, 5), (2, 7), (3, 5), (3, 7)]
    assert AXES[-1] == "seq_len"


def test_width_stays_fixed_or_grows_with_the_heads() -> None:
    fixed = Grid(num_heads=(2, 3), d_model=12, batch_size=(1,), seq_len=(5,))
    growing = Grid(num_heads=(2, 3), head_dim=7, batch_size=(1,), seq_len=(5,))
    assert [(point.d_model, point.head_dim) for point in fixed.workloads()] == [(12, 6), (12, 4)]
    assert [(point.d_model, point.head_dim) for point in growing.workloads()] == [(14, 7), (21, 7)]


def test_heads_that_do_not_divide_the_width_make_an_invalid_point_not_an_error() -> None:
    point = make_workload(num_heads=3, d_model=10)
    assert point.invalid_reason == "d_model 10 is not divisible by num_heads 3"
    assert point.head_dim is None
    assert make_workload(num_heads=5, d_model=10).invalid_reason is None


def test_open_device_and_threads_are_filled_in_and_named_ones_kept() -> None:
    point = next(Grid().workloads(device="cuda:0", threads=7))
    assert (point.device, point.threads) == ("cuda:0", 7)
    assert next(Grid(threads=3).workloads(threads=7)).threads == 3


def test_the_label_names_the_sizes_and_what_is_unusual() -> None:
    assert make_workload().label == "batch 3, seq_len 7, heads 2, d_model 10"
    unusual = make_workload(dtype="float64", mode="training", bias=True, causal=True)
    assert unusual.label == "batch 3, seq_len 7, heads 2, d_model 10, float64, training, bias, causal"


def test_swept_axes_are_those_with_several_values_sizes_first() -> None:
    grid = Grid(batch_size=(1,), seq_len=(5, 7), num_heads=(1,), dtype=("float32", "float64"), bias=(False, True))
    assert grid.swept_axes() == ("seq_len", "dtype", "bias")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"batch_size": (0,)}, "batch_size must be a whole number of at least 1, not 0"),
        ({"batch_size": ()}, "batch_size must hold at least one value"),
        ({"batch_size": 3}, "batch_size must be a list of values, not 3"),
        ({"seq_len": (True,)}, "seq_len must be a whole number of at least 1, not True"),
        ({"seq_len": (2.0,)}, "seq_len must be a whole number of at least 1, not 2.0"),
        ({"seq_len": (MAX_SIZE + 1,)}, "seq_len must be at most 2,147,483,647, not 2,147,483,648"),
        ({"num_heads": (2, 3, 2)}, "num_heads must name each value once, not 2 twice"),
        ({"d_model": 8, "head_dim": 4}, "d_model 8 and head_dim 4"),
        ({"head_dim": MAX_SIZE, "num_heads": (2,)}, "head_dim times num_heads must be at most"),
        ({"dtype": ("float8",)}, "dtype must be one of float32, bfloat16, float16, float64, not 'float8'"),
        ({"mode": ("eval",)}, "mode must be one of inference, training, not 'eval'"),
        ({"bias": (1,)}, "bias must be one of False, True, not 1"),
        ({"device": ""}, "device must be"),
        ({"threads": 0}, "threads must be a whole number of at least 1, not 0"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"seed": True}, "seed must be a whole number from 0"),
        ({"batch_size": tuple(range(1, 102)), "seq_len": tuple(range(1, 1002))}, "up to 100,000 points, not 202,202"),
    ],
)
def test_a_grid_that_breaks_a_rule_is_refused_with_argument_rule_and_value(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(GridError) as caught:
        Grid(**fields)
    assert words in str(caught.value)


def test_an_unknown_field_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(GridError, match="grid has no field 'batchsize'; it has batch_size, "):
        Grid.from_dict({"batchsize": [1]})


@given(st.text() | st.from_regex(r"[-+0-9,._ e]*"))
def test_parsing_raises_nothing_but_grid_errors(text: str) -> None:
    for parse in (parse_sizes, parse_number, parse_seconds, parse_words, parse_switches):
        with contextlib.suppress(GridError):
            parse("axis", text)


@given(st.lists(st.integers(1, 10**9), min_size=1))
def test_parsing_gives_back_the_sizes_that_were_written(sizes: list[int]) -> None:
    assert parse_sizes("axis", ", ".join(map(str, sizes))) == tuple(sizes)


def test_parsing_reads_words_and_switches() -> None:
    assert parse_words("dtype", "float32, bfloat16") == ("float32", "bfloat16")
    assert parse_switches("bias", "no,YES") == (False, True)


@pytest.mark.parametrize("text", ["", " ", "1,,2", ",1", "1.5", "one"])
def test_a_list_with_a_gap_or_a_fraction_is_refused(text: str) -> None:
    with pytest.raises(GridError, match="seq_len must"):
        parse_sizes("seq_len", text)
