from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_up_runs import make_workload
from torch import Tensor, nn

from mha.reading.calling import calling_of
from profiling.measuring.contenders.known import make_contender, make_input, make_weights
from profiling.measuring.contenders.masks import causal_arguments
from profiling.measuring.contenders.own import make_user_contender


class Attention(nn.Module):
    """A right layer; each below takes its mask in another way."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def attend(self, x: Tensor, masked: Callable[[Tensor], Tensor]) -> Tensor:
        q, k, v = (
            project(x).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
            for project in (self.W_Q, self.W_K, self.W_V)
        )
        scores = masked(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
        output: Tensor = self.W_O((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape))
        return output


def hidden(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)


class Always(Attention):
    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x, lambda scores: scores.masked_fill(hidden(scores), -math.inf))


class Switch(Attention):
    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        return self.attend(x, lambda s: s.masked_fill(hidden(s), -math.inf) if is_causal else s)


class Sees(Attention):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attend(x, lambda s: s if mask is None else s.masked_fill(mask == 0, -math.inf))


class Hides(Attention):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attend(x, lambda s: s if mask is None else s.masked_fill(mask, -math.inf))


class Adds(Attention):
    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return self.attend(x, lambda s: s if attn_mask is None else s + attn_mask)


class TakesABatchOfMasks(Attention):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attend(x, lambda s: s if mask is None else s.masked_fill(mask[:, None, :, :] == 0, -math.inf))


class Multiplies(Attention):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attend(x, lambda s: s if mask is None else s * mask)


class Never(Attention):
    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x, lambda s: s)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spec names a class of this file."""
    monkeypatch.setattr("profiling.measuring.contenders.own.load_layer", lambda spec: globals()[spec])


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", ["Always", "Switch", "Sees", "Hides", "Adds", "TakesABatchOfMasks"])
def test_a_layer_is_made_causal_in_whatever_way_it_takes(named: None, name: str, mode: str) -> None:
    point = make_workload(causal=True, mode=mode)
    x, weights = make_input(point), make_weights(point)
    mine = make_user_contender("mine", name, point, weights, x)
    theirs = make_contender("official", point, weights, x)
    torch.testing.assert_close(mine.forward(), theirs.forward(), rtol=1e-5, atol=1e-6)
    assert mine.incomparable == ""
    assert mine.layer.training == (mode == "training")


@pytest.mark.parametrize("name", ["Never", "Multiplies"])
def test_a_layer_that_nothing_makes_causal_is_not_comparable(named: None, name: str) -> None:
    point = make_workload(causal=True)
    mine = make_user_contender("mine", name, point, make_weights(point), make_input(point))
    assert mine.incomparable.startswith("measured without a mask")
    assert mine.forward().shape == (3, 7, 10)


def test_without_a_causal_workload_nothing_is_passed(named: None) -> None:
    point = make_workload()
    x, weights = make_input(point), make_weights(point)
    mine = make_user_contender("mine", "Switch", point, weights, x)
    torch.testing.assert_close(mine.forward(), make_contender("official", point, weights, x).forward())


@pytest.mark.parametrize(
    ("kind", "found"),
    [(Always, {}), (Switch, {"is_causal": True}), (Never, None)],
)
def test_what_is_found_is_the_simplest(kind: type[Attention], found: dict[str, Any] | None) -> None:
    layer = kind(10, 2)
    assert causal_arguments(layer, calling_of(layer), make_workload(), make_input(make_workload())) == found
