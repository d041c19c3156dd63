import dataclasses

import pytest

from dashboard.snippets import check_arguments, command, pytest_source
from profiling.cli import main
from profiling.workload import Grid

POINT = next(Grid(batch_size=(2,), seq_len=(8,), num_heads=(4,), d_model=64, device="cpu").workloads())
ODD = dataclasses.replace(POINT, batch_size=3, seq_len=7, dtype="float64", causal=True)

WRONG_SCALE = """
import torch


class MyAttention(torch.nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (torch.nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (W(x).view(b, s, self.num_heads, -1).transpose(1, 2) for W in (self.W_Q, self.W_K, self.W_V))
        attn_weights = torch.softmax(q @ k.transpose(-2, -1) / d**0.5, dim=-1)
        return self.W_O((attn_weights @ v).transpose(1, 2).reshape(b, s, d))
"""


def test_the_test_to_copy_is_the_one_that_the_page_promises():
    assert pytest_source("my_attention.py:MyAttention", POINT) == (
        "from mha import check_consistency\n"
        "from my_attention import MyAttention\n"
        "\n"
        "\n"
        "def test_my_attention_is_right():\n"
        "    check_consistency(MyAttention, d_model=64, num_heads=4).raise_for_verdict()"
    )


def test_the_command_to_copy_is_the_one_that_the_page_promises():
    words = check_arguments("my_attention.py:MyAttention", POINT)
    assert command(words) == "python -m profiling check my_attention.py:MyAttention --d-model 64 --num-heads 4"


def test_what_differs_from_the_defaults_is_in_the_test():
    source = pytest_source("my_attention.py:MyAttention", ODD, batch_first=False)
    assert source.startswith("import torch\n")
    for argument in ("batch_size=3", "seq_len=7", "dtype=torch.float64", "causal=True", "batch_first=False"):
        assert f"\n        {argument},\n" in source
    assert max(len(line) for line in source.splitlines()) <= 100


@pytest.mark.parametrize("contender", ["custom", "custom-fused"])
def test_a_built_in_layer_is_imported_from_where_it_is(contender):
    names = {"custom": "MultiHeadAttention", "custom-fused": "FusedMultiHeadAttention"}
    source = pytest_source(contender, POINT)
    assert f"from mha import {names[contender]}, check_consistency" in source
    namespace = {}
    exec(source, namespace)
    next(value for name, value in namespace.items() if name.startswith("test_"))()


@pytest.mark.parametrize("file", ["my_attention.py", "01-attention.py"])
def test_the_test_to_copy_fails_for_a_wrong_layer_whatever_its_file_is_called(tmp_path, monkeypatch, file):
    (tmp_path / file).write_text(WRONG_SCALE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace = {}
    exec(pytest_source(f"{file}:MyAttention", ODD), namespace)
    with pytest.raises(AssertionError, match="fail"):
        namespace["test_my_attention_is_right"]()


def test_a_layer_that_lies_deeper_is_imported_by_what_it_lies_in():
    source = pytest_source("parts/blocks.py:HTTPBlock.Attention", POINT)
    assert "from blocks import HTTPBlock\n" in source
    assert "def test_http_block_attention_is_right():" in source
    assert "check_consistency(HTTPBlock.Attention, " in source


def test_the_command_line_takes_every_option_of_the_command_to_copy():
    point = dataclasses.replace(ODD, device="cuda:0")
    words = check_arguments("my layers/a.py:A", point, batch_first=False)
    assert command(words).startswith("python -m profiling check 'my layers/a.py:A' ")
    taken = main.commands["check"].make_context("check", words[1:]).params
    wanted = {"contender": "my layers/a.py:A", "d_model": "64", "num_heads": "4", "batch_size": "3", "seq_len": "7"}
    wanted |= {"dtype": "float64", "causal": True, "device": "cuda:0", "batch_first": False}
    assert {name: taken[name] for name in wanted} == wanted


def test_what_the_snippets_leave_out_is_what_check_and_command_line_assume():
    import inspect

    from dashboard.snippets import _DEFAULTS
    from mha import check_consistency

    of_library = inspect.signature(check_consistency).parameters
    of_command = main.commands["check"].make_context("check", []).params
    for name, value in _DEFAULTS.items():
        assert str(of_library[name].default).removeprefix("torch.") == str(value)
        assert of_command[name] == str(value)
