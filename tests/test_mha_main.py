"""``python -m mha``: the two lines, the exit status, and the cause where it fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from mha import MultiHeadAttention, official_layer, randomize_
from mha import __main__ as main_module
from mha.stages import first_stray_stage

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}])
def test_the_first_two_lines_are_exact_in_any_locale(locale):
    environment = {**os.environ, **locale}
    done = subprocess.run([sys.executable, "-m", "mha"], cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode("utf-8").splitlines()
    assert lines[:2] == ["最大误差: 0.00e+00", "一致性验证通过"]
    told = "\n".join(lines[2:])
    assert "1e-05" in told
    assert f"torch {torch.__version__}" in told


def run_with(monkeypatch, capsys, layer_class=None, transplanted=None):
    if layer_class is not None:
        monkeypatch.setattr(main_module, "MultiHeadAttention", layer_class)
    if transplanted is not None:
        monkeypatch.setattr(main_module, "transplant", transplanted)
    status = main_module.main()
    return status, capsys.readouterr().out


class Parts(MultiHeadAttention):
    """The layer in steps that a fault can replace."""

    def values(self, v):
        return v

    def weights(self, scores):
        return torch.softmax(scores, -1)

    def scores(self, q, k):
        return q @ k.transpose(-2, -1) * self.scale

    def output(self, context):
        return F.linear(context, self.W_O.weight)

    def merge(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, x):
        q, k, v = (
            F.linear(x, projection.weight).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
            for projection in (self.W_Q, self.W_K, self.W_V)
        )
        return self.output(self.merge(self.weights(self.scores(q, k)) @ self.values(v)))


class ValuesOff(Parts):
    def values(self, v):
        return 1.01 * v


class MergedWithoutTranspose(Parts):
    def merge(self, context):
        return context.reshape(context.shape[0], context.shape[2], -1)


class SoftmaxOverQueries(Parts):
    def weights(self, scores):
        return torch.softmax(scores, -2)


class NotScaled(Parts):
    def scores(self, q, k):
        return q @ k.transpose(-2, -1)


class OutputUntransposed(Parts):
    def output(self, context):
        return context @ self.W_O.weight


FAULTS = [
    (ValuesOff, "values"),
    (MergedWithoutTranspose, "values"),
    (SoftmaxOverQueries, "weights"),
    (NotScaled, "scores"),
    (OutputUntransposed, "output"),
]


@pytest.mark.parametrize(("fault", "stage"), FAULTS)
def test_the_stage_of_a_planted_fault_is_found(monkeypatch, capsys, fault, stage):
    status, told = run_with(monkeypatch, capsys, fault)
    assert status == 1
    lines = told.splitlines()
    assert lines[0].startswith("最大误差: ")
    assert lines[1] == "一致性验证未通过"
    causes = [line for line in lines if line.startswith("Likely wrong")]
    assert len(causes) == 1
    assert "mha.MultiHeadAttention" in causes[0]
    assert main_module.STAGES[stage] in causes[0]


def test_a_fault_in_the_official_layer_is_laid_to_it(monkeypatch, capsys):
    def wrong(official, x):
        return official(x, x, x)[0] * 1.1

    monkeypatch.setattr(main_module, "call_official", wrong)
    status, told = run_with(monkeypatch, capsys)
    assert status == 1
    assert "torch.nn.MultiheadAttention; it strays" in told
    assert "mha.MultiHeadAttention; it strays" not in told


def test_weights_that_did_not_arrive_are_named(monkeypatch, capsys):
    status, told = run_with(monkeypatch, capsys, transplanted=lambda source, target: [])
    assert status == 1
    assert "the weights did not arrive" in told
    assert "W_Q.weight and in_proj_weight[0:8]" in told


def test_non_finite_output_fails_and_is_counted(monkeypatch, capsys):
    class NotANumber(Parts):
        def output(self, context):
            return super().output(context) * float("nan")

    status, told = run_with(monkeypatch, capsys, NotANumber)
    assert status == 1
    assert told.startswith("最大误差: nan\n一致性验证未通过\n")
    assert "80 of 80 elements from mha.MultiHeadAttention are NaN or infinite" in told


def test_a_wrong_shape_is_named(monkeypatch, capsys):
    class OneShort(Parts):
        def forward(self, x):
            return super().forward(x)[:, 1:]

    status, told = run_with(monkeypatch, capsys, OneShort)
    assert status == 1
    assert "the output has shape (2, 4, 8), not (2, 5, 8)" in told


def test_a_layer_that_is_random_is_told_of(monkeypatch, capsys):
    class WrongOnce(MultiHeadAttention):
        calls = 0

        def forward(self, x):
            type(self).calls += 1
            return super().forward(x) + (type(self).calls == 1)

    status, told = run_with(monkeypatch, capsys, WrongOnce)
    assert status == 1
    assert "the first was off by 1.00e+00 (mha)" in told


def test_right_layers_stray_nowhere():
    x = torch.randn(3, 7, 10)
    assert first_stray_stage(randomize_(MultiHeadAttention(10, 2), 1), lambda layer, x: layer(x), x) is None
    official = randomize_(official_layer(10, 2), 1)
    assert first_stray_stage(official, lambda layer, x: layer(x, x, x)[0], x) is None
