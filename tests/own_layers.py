"""Files with layers of one's own, as a person might write them, right and misbehaving."""

from __future__ import annotations

from pathlib import Path

RIGHT = """
import math
import torch
from torch import nn


class Right(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def split(self, t):
        return t.view(t.shape[0], t.shape[1], self.num_heads, -1).transpose(1, 2)

    def scale(self, head_dim):
        return 1 / math.sqrt(head_dim)

    def forward(self, x):
        q, k, v = (self.split(project(x)) for project in (self.W_Q, self.W_K, self.W_V))
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.scale(q.shape[-1]), -1)
        return self.W_O((weights @ v).transpose(1, 2).reshape(x.shape))
"""

MISBEHAVING = (
    RIGHT
    + '''

import os, sys, time


class Raises(Right):
    def forward(self, x):
        raise ValueError("my own fault")


class RaisesWhenBuilt(Right):
    def __init__(self, d_model, num_heads):
        raise KeyError(d_model)


class Hangs(Right):
    def forward(self, x):
        time.sleep(600)


class Prints(Right):
    def forward(self, x):
        print("x" * 2**20)
        os.write(1, b'{"answer": "forged"}' + bytes(10) * 10_000)
        return super().forward(x)


class Exits(Right):
    def forward(self, x):
        sys.exit(3)


class ExitsWhenBuilt(Right):
    def __init__(self, d_model, num_heads):
        exit("enough")


class Dies(Right):
    def forward(self, x):
        os._exit(0)


class Interrupts(Right):
    def forward(self, x):
        raise GeneratorExit


class WritesToItsInput(Right):
    def forward(self, x):
        out = super().forward(x)
        x += 1
        return out


class GivesATuple(Right):
    def forward(self, x):
        return super().forward(x), None


class GivesAnotherShape(Right):
    def forward(self, x):
        return super().forward(x)[:, :-1]


class GivesNothing(Right):
    def forward(self, x):
        return None


class Wrong(Right):
    def scale(self, head_dim):
        return 1.0


class HasUnusedParameters(Right):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.frozen = nn.Parameter(torch.zeros(3), requires_grad=False)
        self.unused = nn.Parameter(torch.zeros(3))


class AnotherDesign(nn.Module):
    """No four projections: it cannot take the official weights."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.mix = nn.Linear(d_model, 3)
        self.back = nn.Linear(3, d_model)

    def forward(self, x):
        return self.back(self.mix(x))


class MixesUp:
    class Inner(Right):
        pass


def make(d_model, num_heads):
    return Right(d_model, num_heads)


instance = Right(10, 2)
number = 5
'''
)


def write_layer(folder: Path, name: str = "mine.py", text: str = RIGHT) -> Path:
    """Writes a file with a layer and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
