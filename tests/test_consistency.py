"""The check: right layers pass, planted faults are caught, and the report says what happened."""

import copy
import json
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mha import (
    ConsistencyError,
    FusedMultiHeadAttention,
    MultiHeadAttention,
    Oracle,
    check_consistency,
    compare_outputs,
    official_layer,
)


class Textbook(nn.Module):
    """A right layer of another hand: four linear layers, batch first, scores scaled after the product."""

    def __init__(self, d_model, num_heads, bias=False, causal=False):
        super().__init__()
        self.num_heads, self.head_dim, self.causal = num_heads, d_model // num_heads, causal
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

    def split(self, x):
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def project(self, x):
        return self.W_Q(x), self.W_K(x), self.W_V(x)

    def scale(self):
        return self.head_dim**-0.5

    def mask(self, scores):
        if not self.causal:
            return scores
        return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)

    def weights(self, scores):
        return torch.softmax(scores, -1)

    def merge(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, x):
        q, k, v = (self.split(projected) for projected in self.project(x))
        scores = self.mask(q @ k.transpose(-2, -1) * self.scale())
        return self.W_O(self.merge(self.weights(scores) @ v))


class ScaledByDModel(Textbook):
    def scale(self):
        return (self.head_dim * self.num_heads) ** -0.5


class ScaledByNumHeads(Textbook):
    def scale(self):
        return self.num_heads**-0.5


class NotScaled(Textbook):
    def scale(self):
        return 1.0


class SoftmaxOverQueries(Textbook):
    def weights(self, scores):
        return torch.softmax(scores, -2)


class SoftmaxOverHeads(Textbook):
    def weights(self, scores):
        return torch.softmax(scores, 1)


class MergedWithoutTranspose(Textbook):
    def merge(self, context):
        return context.reshape(context.shape[0], context.shape[2], -1)


class SplitWithoutTranspose(Textbook):
    def split(self, x):
        return x.reshape(x.shape[0], self.num_heads, x.shape[1], self.head_dim)


class KeysAndValuesSwapped(Textbook):
    def project(self, x):
        return self.W_Q(x), self.W_V(x), self.W_K(x)


class BiasIgnored(Textbook):
    def project(self, x):
        return tuple(F.linear(x, projection.weight) for projection in (self.W_Q, self.W_K, self.W_V))


class WeightsUntransposed(Textbook):
    def project(self, x):
        return tuple(x @ projection.weight for projection in (self.W_Q, self.W_K, self.W_V))


class OutputProjectionMissing(Textbook):
    def forward(self, x):
        self.W_O, kept = nn.Identity(), self.W_O
        out = super().forward(x)
        self.W_O = kept
        return out


class ResidualInside(Textbook):
    def forward(self, x):
        return x + super().forward(x)


class DropoutInEval(Textbook):
    def weights(self, scores):
        return F.dropout(super().weights(scores), 0.1, training=True)


class NotANumber(Textbook):
    def forward(self, x):
        out = super().forward(x)
        out[1, 2, 3] = math.nan
        return out


class MaskInverted(Textbook):
    def mask(self, scores):
        return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).tril(-1), -math.inf)


class BatchAndSequenceSwapped(Textbook):
    def forward(self, x):
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


class OneTokenOff(Textbook):
    def forward(self, x):
        out = super().forward(x)
        out[-1, -1] = out[-1, -2]
        return out


FAULTS = [
    ScaledByDModel,
    ScaledByNumHeads,
    NotScaled,
    SoftmaxOverQueries,
    SoftmaxOverHeads,
    MergedWithoutTranspose,
    SplitWithoutTranspose,
    KeysAndValuesSwapped,
    BiasIgnored,
    OutputProjectionMissing,
    ResidualInside,
    DropoutInEval,
    NotANumber,
    BatchAndSequenceSwapped,
    OneTokenOff,
]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", [MultiHeadAttention, FusedMultiHeadAttention, Textbook])
def test_right_layers_pass(layer, dtype, bias, causal):
    report = check_consistency(layer, dtype=dtype, bias=bias, causal=causal)
    assert report.verdict == "pass", report.reason
    if layer is not Textbook:
        assert report.max_abs_error == 0
    assert len(report.mapping) == (8 if bias else 4)


@pytest.mark.parametrize("layer", [MultiHeadAttention, FusedMultiHeadAttention, Textbook])
@pytest.mark.parametrize("seed", range(5))
def test_right_layers_pass_at_a_large_width_and_every_seed(layer, seed):
    report = check_consistency(layer, d_model=512, num_heads=8, seq_len=31, seed=seed)
    assert report.verdict == "pass", report.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault, dtype):
    report = check_consistency(fault, dtype=dtype, bias=True)
    assert report.verdict == "fail", report.reason
    with pytest.raises(ConsistencyError, match=r"(?s)fail: .*\n.* against torch\.nn\.MultiheadAttention"):
        report.raise_for_verdict()


@pytest.mark.parametrize("fault", [f for f in FAULTS if f is not BiasIgnored])
def test_a_planted_fault_is_caught_in_an_instance_without_bias(fault):
    assert check_consistency(fault(20, 2)).verdict == "fail"


def test_an_inverted_causal_mask_is_caught():
    assert check_consistency(MaskInverted, causal=True).verdict == "fail"


@pytest.mark.parametrize("layer", [MultiHeadAttention, FusedMultiHeadAttention, Textbook])
def test_a_layer_that_is_causal_by_itself_is_found_out_and_compared_with_the_causal_call(layer):
    report = check_consistency(lambda d_model, num_heads: layer(d_model, num_heads, causal=True))
    assert report.verdict == "pass"
    assert "causal (the layer is so by itself)" in report.scope


def test_weights_stored_in_by_out_are_a_layout_and_named():
    report = check_consistency(WeightsUntransposed, bias=False)
    assert report.verdict == "pass"
    assert ("W_Q.weight", "in_proj_weight[0:E]", "transposed: stored (in, out)") in report.mapping
    assert ("W_O.weight", "out_proj.weight", "copied") in report.mapping


def test_a_causal_instance_is_compared_with_a_causal_official_layer():
    report = check_consistency(FusedMultiHeadAttention(20, 2, causal=True))
    assert (report.verdict, report.max_abs_error) == ("pass", 0)
    assert "causal" in report.scope


def test_a_dtype_that_the_official_layer_cannot_run_is_an_error():
    report = check_consistency(dtype=torch.float8_e4m3fn)
    assert report.verdict == "error"
    assert "raised NotImplementedError" in report.reason


def test_probes_catch_what_the_shape_asked_for_hides():
    found = check_consistency(ScaledByNumHeads, d_model=64, num_heads=8)  # head_dim equals num_heads
    assert [entry.comparison.verdict for entry in found.comparisons] == ["pass", "fail", "fail"]
    assert found.verdict == "fail"
    assert found.reason.startswith("at d_model 15, 3 heads")
    assert [finding.fault for finding in found.diagnosis] == ["scale-num-heads"]


def test_an_instance_whose_shape_hides_a_wrong_scale_is_told_of():
    report = check_consistency(ScaledByNumHeads(64, 8))
    assert "head_dim equals num_heads (8)" in report.scope


def test_an_instance_is_not_touched():
    layer = MultiHeadAttention(20, 4, bias=True).train()
    state = copy.deepcopy(layer.state_dict())
    random_state = torch.get_rng_state()
    report = check_consistency(layer, d_model=64)
    assert report.comparisons[0].shape[:2] == (20, 4)
    assert report.verdict == "pass"
    assert layer.training
    assert all(torch.equal(state[name], value) for name, value in layer.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)


def test_the_official_layer_itself_passes_as_its_own_subclass():
    class Alone(nn.MultiheadAttention):
        def forward(self, x):
            return super().forward(x, x, x)

    report = check_consistency(lambda d, h: Alone(d, h, batch_first=True))
    assert report.verdict == "pass"
    assert report.max_abs_error < 1e-5  # not 0: it has biases and so takes its fast path


def test_a_layer_without_keys_and_values_is_not_comparable():
    class Foreign(nn.Module):
        def __init__(self, d_model, num_heads):
            super().__init__()
            self.query = nn.Linear(d_model, d_model)

    report = check_consistency(Foreign)
    assert report.verdict == "not-comparable"
    assert "query.weight" in report.reason
    assert (report.max_abs_error, report.plain_holds, report.comparisons) == (None, None, ())


def test_a_bias_that_the_layer_does_not_have_is_not_comparable():
    assert check_consistency(lambda d, h: Textbook(d, h), bias=True).verdict == "not-comparable"


def test_biases_are_set_to_zero_where_none_are_wanted_and_it_is_said():
    report = check_consistency(lambda d, h: Textbook(d, h, bias=True), bias=False)
    assert report.verdict == "pass"
    assert ("W_O.bias", "none", "set to zero") in report.mapping


class Raises(Textbook):
    def forward(self, x):
        raise RuntimeError("no such kernel")


class WrongShape(Textbook):
    def forward(self, x):
        return super().forward(x)[:, :-1]


class NotATensor(Textbook):
    def forward(self, x):
        return {"out": 3}


def broken(d_model, num_heads):
    raise KeyError("num_heads")


@pytest.mark.parametrize(
    ("layer", "verdict", "words"),
    [
        (Raises, "error", "the layer raised RuntimeError: no such kernel"),
        (NotATensor, "error", "returned a dict without a tensor"),
        (broken, "error", "building the layer raised KeyError: 'num_heads'"),
        (lambda d, h: 3, "error", "not a torch.nn.Module"),
        (
            WrongShape,
            "fail",
            "the output has shape (2, 6, 15), the official layer's (2, 7, 15)",
        ),
        (DropoutInEval, "fail", "two runs on the same input differ"),
        (NotANumber, "fail", "1 elements of the output are NaN or infinite, first at batch 1, position 2, channel 3"),
    ],
)
def test_the_reason_says_what_happened(layer, verdict, words):
    report = check_consistency(layer)
    assert report.verdict == verdict
    assert words in report.reason


@pytest.mark.parametrize("layer", [Textbook, NotANumber, Raises])
def test_a_report_is_plain_json(layer):
    told = json.loads(json.dumps(check_consistency(layer).to_dict(), allow_nan=False))
    assert told["verdict"] in {"pass", "fail", "error"}
    if layer is NotANumber:
        assert told["max_abs_error"] is None
        assert told["num_non_finite"] == 3  # one at each shape
        assert told["plain_holds"] is False
        assert told["comparisons"][0]["worst"] == [1, 2, 3]
    if layer is Textbook:
        assert told["plain_holds"] is True
        assert told["comparisons"][0]["seq_len"] == 8
        assert told["mapping"][0] == {"theirs": "W_Q.weight", "official": "in_proj_weight[0:E]", "how": "copied"}
        assert told["tolerance"] == 2


@pytest.mark.parametrize("sizes", [{"batch_size": 0}, {"num_heads": 5}, {"seq_len": -1}])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="must"):
        check_consistency(**sizes)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float32).view(1, -1, 1)


def truth(*values):
    return Oracle(torch.tensor(values, dtype=torch.float64).view(1, -1, 1), torch.arange(len(values)))


def test_error_ratio_by_hand():
    eps = torch.finfo(torch.float32).eps
    found = compare_outputs(tensor(1.0, 2.5, -4.0), tensor(1.0, 2.25, -4.0), truth(1, 2, -4), torch.float32)
    assert found.max_abs_error == 0.25
    assert (found.max_abs_error_oracle, found.official_max_abs_error_oracle) == (0.5, 0.25)
    assert found.error_ratio == pytest.approx(0.5 / (0.25 + 4 * eps), abs=1e-12)
    assert found.error_ratio < 2
    assert (found.worst, found.verdict) == ((0, 1, 0), "pass")


def test_just_above_twice_the_official_error_fails():
    found = compare_outputs(tensor(1.0, 2.501, -4.0), tensor(1.0, 2.25, -4.0), truth(1, 2, -4), torch.float32)
    assert found.verdict == "fail"


def test_an_exact_official_layer_leaves_room_for_rounding():
    eps = torch.finfo(torch.float32).eps
    near = compare_outputs(tensor(1.0 + eps), tensor(1.0), truth(1.0), torch.float32)
    assert (near.error_ratio, near.verdict) == (1.0, "pass")
    assert compare_outputs(tensor(1.0 + 3 * eps), tensor(1.0), truth(1.0), torch.float32).verdict == "fail"


def test_zero_against_zero_passes():
    found = compare_outputs(tensor(0.0), tensor(0.0), truth(0.0), torch.float32)
    assert (found.error_ratio, found.verdict) == (0.0, "pass")
    assert compare_outputs(tensor(1e-30), tensor(0.0), truth(0.0), torch.float32).verdict == "fail"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_output_fails_and_is_counted(bad):
    found = compare_outputs(tensor(1.0, bad, bad), tensor(1.0, 2.0, 3.0), truth(1, 2, 3), torch.float32)
    assert (found.verdict, found.num_non_finite, found.worst) == ("fail", 2, (0, 1, 0))
    assert math.isnan(found.max_abs_error)


def test_a_non_finite_official_output_fails():
    found = compare_outputs(tensor(1.0, 2.0), tensor(1.0, math.nan), truth(1, 2), torch.float32)
    assert found.verdict == "fail"
    assert "the official layer's output is NaN or infinite" in found.reason


def test_a_fault_outside_the_oracles_rows_is_seen():
    sampled = Oracle(torch.tensor([[[1.0], [3.0]]], dtype=torch.float64), torch.tensor([0, 2]))
    found = compare_outputs(tensor(1.0, 9.0, 3.0), tensor(1.0, 2.0, 3.0), sampled, torch.float32)
    assert found.max_abs_error == 7
    assert found.verdict == "fail"


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"\(1, 2, 1\).*\(1, 3, 1\)"):
        compare_outputs(tensor(1, 2), tensor(1, 2, 3), truth(1, 2, 3), torch.float32)


def test_empty_outputs_compare_equal():
    empty = torch.zeros(0, 3, 2)
    found = compare_outputs(empty, empty, Oracle(empty.double(), torch.arange(3)), torch.float32)
    assert (found.verdict, found.worst) == ("pass", None)


def test_the_official_call_follows_the_layer():
    official = official_layer(64, 4)
    assert official.batch_first
    assert check_consistency(FusedMultiHeadAttention, need_weights=False).max_abs_error == 0
    other = check_consistency(FusedMultiHeadAttention, need_weights=True)
    assert other.verdict == "pass"
    assert 0 < other.max_abs_error < 1e-5
