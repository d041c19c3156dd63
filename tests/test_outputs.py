from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mha import Oracle
from profiling.measuring.contenders.known import Contender
from profiling.measuring.outputs import compare_with, stale_output


def contender(make: Callable[[Tensor], Callable[[], Tensor]]) -> Contender:
    x = torch.arange(1.0, 31.0).reshape(2, 3, 5)
    forward = make(x)
    return Contender("mine.py:Mine", nn.Identity(), forward, forward, x)


def stored(x: Tensor) -> Callable[[], Tensor]:
    kept = x.exp()
    return lambda: kept


def first_right(x: Tensor) -> Callable[[], Tensor]:
    outputs = [x.sin()]
    return lambda: outputs.pop() if outputs else x


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: lambda: x.sin(), None),
        (lambda x: lambda: torch.zeros(2, 3, 5), None),
        (stored, "the same output for another input: a stored result"),
        (first_right, "another output for the same input: what was timed is not what was checked"),
    ],
)
def test_a_layer_that_no_longer_computes_is_found_out(
    make: Callable[[Tensor], Callable[[], Tensor]], told: str | None
) -> None:
    mine = contender(make)
    first = mine.forward().clone()
    found = stale_output(mine, first)
    assert found is None if told is None else told in (found or "")


def test_the_input_is_as_it_was_afterwards() -> None:
    mine = contender(lambda x: lambda: x.sin())
    assert mine.x is not None
    before = mine.x.clone()
    stale_output(mine, mine.forward())
    assert torch.equal(mine.x, before)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.bool])
def test_an_output_that_is_not_of_real_numbers_is_an_error_not_a_pass(dtype: torch.dtype) -> None:
    right = torch.ones(2, 3, 5)
    cells, warnings = compare_with(
        "official",
        "mine",
        {"official": right, "mine": right.to(dtype)},
        Oracle(right.double(), torch.arange(3)),
        shape=right.shape,
        dtype=torch.float32,
    )
    assert cells == {"check_verdict": "error"}
    assert warnings == [f"its output is of {dtype}: real numbers were expected"]
