"""The check names the fault: alone, with another, wherever it can show; and names none where none is known."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mha import check_consistency
from mha.checking.faults import FAULTS, heads_ignored
from mha.checking.formula import CAUSAL, RIGHT, attend
from mha.checking.planted import PLANTED, PlainAttention, is_caught, planted_faults_caught


def names(report):
    return sorted({finding.fault for finding in report.diagnosis})


def with_steps(**steps):
    return type("Faulty", (PlainAttention,), steps)


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_named(fault):
    assert is_caught(fault, PLANTED[fault])


def test_the_count_of_planted_faults_is_of_all_of_them():
    assert planted_faults_caught() == (len(PLANTED), len(PLANTED))


def test_a_check_that_names_nothing_catches_nothing(monkeypatch):
    monkeypatch.setattr("mha.checking.identification.explain", lambda *_, **__: None)
    monkeypatch.setattr("mha.checking.causes.explain", lambda *_, **__: None)
    assert not is_caught("scale-d-model", PLANTED["scale-d-model"])


def test_the_right_layer_in_which_faults_are_planted_passes():
    report = check_consistency(PlainAttention)
    assert (report.verdict, report.diagnosis) == ("pass", ())


class Computed(nn.Module):
    """A layer that computes a formula from its own weights."""

    formula = RIGHT

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def roles(self):
        linears = {"q": self.q_proj, "k": self.k_proj, "v": self.v_proj, "o": self.out_proj}
        return {f"{kind}_{role}": getattr(m, name) for role, m in linears.items() for kind, name in KINDS}

    def forward(self, query, key, value):
        return attend(self.formula, self.roles(), self.num_heads, query, key, value)


KINDS = (("w", "weight"), ("b", "bias"))


BASES = {"plain": RIGHT, "causal": CAUSAL}
# A causal layer's mask is part of its formula, and it is checked for self-attention alone. Every third fault will do.
KNOWN = [("plain", fault) for fault in (*FAULTS, *heads_ignored(15, 3)) if fault.name != "mask-missing"]
KNOWN += [("causal", fault) for fault in FAULTS if not {"pattern", "sources"} & fault.fields][::3]


@pytest.mark.parametrize(("base", "fault"), KNOWN, ids=[f"{base}-{f.name}-{f.changes}" for base, f in KNOWN])
def test_every_known_fault_is_found_in_a_layer_that_has_it(base, fault):
    layer = type("Faulty", (Computed,), {"formula": fault.put_into(BASES[base])})
    report = check_consistency(layer, d_model=15, num_heads=3, seq_len=7, probes=False)
    assert report.verdict == "fail"
    expected = {fault.name} | ({"non-finite"} if report.num_non_finite else set())
    assert set(names(report)) == expected, str(report)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            {"scaled": lambda self, s: s, "out": lambda self, c, x: c},
            ["no-output-projection", "scale-missing"],
        ),
        (
            {
                "scaled": lambda self, s: s / math.sqrt(self.num_heads),
                "merge": lambda self, c: c.reshape(c.shape[0], c.shape[2], -1),
            },
            ["merge-without-transpose", "scale-num-heads"],
        ),
        (
            {
                "project": lambda self, x: (self.q_proj(x), self.v_proj(x), self.k_proj(x)),
                "out": lambda self, c, x: x + self.out_proj(c),
            },
            ["keys-values-swapped", "residual-inside"],
        ),
        (
            {
                "project": lambda self, x: tuple(x @ p.weight.t() for p in (self.q_proj, self.k_proj, self.v_proj)),
                "attn_weights": lambda self, s: s.softmax(-2),
            },
            ["bias-ignored", "softmax-axis"],
        ),
        (
            {
                "scaled": lambda self, s: s / math.sqrt(self.num_heads * self.head_dim),
                "out": lambda self, c, x: F.layer_norm(x + self.out_proj(c), x.shape[-1:]),
            },
            ["norm-inside", "residual-inside", "scale-d-model"],
        ),
        (
            {"out": lambda self, c, x: F.layer_norm(x + self.out_proj(c), x.shape[-1:])},
            ["norm-inside", "residual-inside"],
        ),
    ],
)
@pytest.mark.parametrize("shape", [(64, 8, 3, 11), (60, 5, 2, 13)])
def test_faults_together_are_all_named_at_any_shape(steps, expected, shape):
    d_model, num_heads, batch_size, seq_len = shape
    report = check_consistency(
        with_steps(**steps), d_model=d_model, num_heads=num_heads, batch_size=batch_size, seq_len=seq_len
    )
    assert (report.verdict, names(report)) == ("fail", expected)


def test_a_sentence_speaks_of_the_shape_asked_for():
    report = check_consistency(PLANTED["scale-d-model"], d_model=44, num_heads=4)
    assert "by d_model (44), not by head_dim (11)" in report.diagnosis[0].sentence


@pytest.mark.parametrize(
    "steps",
    [
        {"scaled": lambda self, s: s / math.sqrt(self.head_dim) / 1.1},
        {"attn_weights": lambda self, s: s.softmax(-1).roll(1, -1)},
        {"out": lambda self, c, x: self.out_proj(c).relu()},
        {"masked": lambda self, s: s.clamp(-1, 1)},
    ],
)
def test_an_unknown_fault_is_not_given_a_known_name(steps):
    report = check_consistency(with_steps(**steps))
    assert (report.verdict, report.diagnosis) == ("fail", ())
    assert "no known fault" in report.reason
    assert {probe.probe for probe in report.probes} >= {"batch", "future", "order", "length", "values"}


def test_probes_tell_what_the_output_depends_on():
    def found(layer):
        return {probe.probe: probe.finding for probe in check_consistency(layer).probes}

    leaks = found(with_steps(out=lambda self, c, x: self.out_proj(c) + 0.1 * x.mean(0)))
    assert "leaks" in leaks["batch"]
    ordered = found(with_steps(out=lambda self, c, x: self.out_proj(c) + 0.1 * torch.arange(x.shape[1])[:, None]))
    assert "order matters" in ordered["order"]
    clipped = found(with_steps(out=lambda self, c, x: self.out_proj(c.clamp(-0.1, 0.1))))
    assert "not linear" in clipped["values"]
    by_length = found(with_steps(out=lambda self, c, x: self.out_proj(c) * (1 + 0.1 * x.shape[1])))
    assert "depend on seq_len" in by_length["length"]
    causal = found(with_steps(masked=lambda self, s: s.masked_fill(torch.ones(s.shape[-2:]).triu(1) > 0, -2.0)))
    assert "depends on later positions" in causal["future"]


class HardCoded(PlainAttention):
    """Eight heads, whatever it is given."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, 8)


def test_a_number_of_heads_that_is_built_in_passes_where_it_is_right_and_is_named_elsewhere():
    right = check_consistency(HardCoded, d_model=64, num_heads=8)
    assert right.verdict == "pass"
    assert "alone" in right.scope
    wrong = check_consistency(HardCoded, d_model=64, num_heads=4)
    assert (wrong.verdict, names(wrong)) == ("fail", ["heads-ignored"])
    assert "has 8 heads" in wrong.diagnosis[0].sentence


def test_a_missing_causal_mask_is_named_where_one_was_asked_for():
    assert names(check_consistency(PlainAttention, causal=True)) == ["mask-missing"]


@pytest.mark.parametrize("layer", [PlainAttention, HardCoded])
def test_a_ready_made_layer_tells_its_number_of_heads_by_what_it_computes(layer):
    built = layer(48, 8)
    del built.num_heads
    built.split = lambda x: x.unflatten(-1, (8, -1)).transpose(1, 2)
    report = check_consistency(built)
    assert report.verdict == "pass", str(report)
    assert "the number of heads, 8, was read off its output" in report.scope


def test_attributes_that_do_not_fit_the_weights_are_not_believed():
    layer = PlainAttention(48, 6)
    layer.d, layer.dim = 8, 16
    report = check_consistency(layer)
    assert report.verdict == "pass"
    assert report.comparisons[0].shape[:2] == (48, 6)


def test_a_layer_without_attention_is_not_comparable():
    assert check_consistency(nn.Linear(12, 12), num_heads=3).verdict == "not-comparable"


def test_weights_that_are_computed_from_others_are_checked_as_plain_ones_and_noted():
    class Normed(PlainAttention):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__(d_model, num_heads)
            nn.utils.parametrizations.weight_norm(self.k_proj)

    report = check_consistency(Normed)
    assert report.verdict == "pass"
    assert any("k_proj.weight is computed from other parameters" in note for note in report.notes)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated", "ignore:The .grad attribute of a Tensor")
def test_a_scripted_layer_is_checked_like_any_other():
    class Simple(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.num_heads = num_heads
            self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            b, s, e = x.shape
            q = self.wq(x).view(b, s, self.num_heads, -1).transpose(1, 2)
            k = self.wk(x).view(b, s, self.num_heads, -1).transpose(1, 2)
            v = self.wv(x).view(b, s, self.num_heads, -1).transpose(1, 2)
            return self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, e))

    assert check_consistency(torch.jit.script(Simple(24, 3)), num_heads=3).verdict == "pass"


def test_a_parameter_without_counterpart_that_matters_is_noted_though_the_layer_passes():
    class Tempered(PlainAttention):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__(d_model, num_heads)
            self.temperature = nn.Parameter(torch.ones(1))

        def scaled(self, scores: Tensor) -> Tensor:
            return super().scaled(scores) * self.temperature

    report = check_consistency(Tempered)
    assert report.verdict == "pass"
    assert any(note.startswith("temperature: no counterpart") for note in report.notes)


def test_a_sequence_first_layer_fails_named_unless_it_is_declared():
    assert names(check_consistency(nn.MultiheadAttention)) == ["batch-sequence-swapped"]
    assert check_consistency(nn.MultiheadAttention, batch_first=False).verdict == "pass"


class ScaledAfterwards(PlainAttention):
    """Right in float32; in float16 the scores overflow before they are scaled."""


def test_overflow_before_scaling_is_told_apart_from_a_wrong_formula():
    assert check_consistency(ScaledAfterwards, input_scale=120.0).verdict == "pass"
    report = check_consistency(ScaledAfterwards, dtype=torch.float16, input_scale=120.0)
    assert (report.verdict, names(report)) == ("fail", ["non-finite"])
    assert "overflow before they are scaled" in report.diagnosis[0].sentence


def test_less_precise_arithmetic_is_told_as_that():
    report = check_consistency(with_steps(attn_weights=lambda self, s: s.softmax(-1) * (1 + 2e-5)))
    assert report.verdict == "fail"
    assert [probe.probe for probe in report.probes] == ["precision"]


def test_dropout_that_a_reseeding_layer_hides_is_found():
    class Reseeds(PlainAttention):
        def attn_weights(self, scores: Tensor) -> Tensor:
            torch.manual_seed(7)
            return F.dropout(scores.softmax(-1), 0.1)

    report = check_consistency(Reseeds)
    assert (report.verdict, names(report)) == ("fail", ["dropout-in-eval"])
    assert any("reseeds" in note for note in report.notes)


def test_a_fault_beside_dropout_in_eval_is_named_as_well():
    faulty = with_steps(
        scaled=lambda self, s: s / math.sqrt(self.num_heads),
        attn_weights=lambda self, s: F.dropout(s.softmax(-1), 0.1),
    )
    assert names(check_consistency(faulty)) == ["dropout-in-eval", "scale-num-heads"]


def test_a_fault_beside_dropout_inside_of_the_fused_kernel_is_named_as_well():
    class Faulty(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (self.split(part) for part in self.project(x))
            return x + self.out_proj(self.merge(F.scaled_dot_product_attention(q, k, v, None, 0.2)))

    assert names(check_consistency(Faulty)) == ["dropout-in-eval", "residual-inside"]


def test_a_fault_that_shows_in_cross_attention_only_is_named_beside_another():
    class Faulty(PlainAttention):
        def scaled(self, scores: Tensor) -> Tensor:
            return scores

        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return super().forward(query)

    assert names(check_consistency(Faulty)) == ["keys-values-from-query", "scale-missing"]


def test_the_number_of_threads_that_a_layer_sets_is_noted_and_put_back():
    class Sets(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            torch.set_num_threads(torch.get_num_threads() + 1)
            return super().forward(x)

    before = torch.get_num_threads()
    report = check_consistency(Sets)
    assert torch.get_num_threads() == before
    assert any("number of threads" in note for note in report.notes)


def test_a_layer_that_calls_the_fused_kernel_is_told_whom_to_race():
    class Fused(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (self.split(part) for part in self.project(x))
            return self.out_proj(self.merge(F.scaled_dot_product_attention(q, k, v)))

    assert any("need_weights=False" in note for note in check_consistency(Fused).notes)
    assert not check_consistency(PlainAttention).notes


def test_other_dtypes_are_told_beside_the_verdict_and_do_not_decide_it():
    class Overflows(PlainAttention):
        def scaled(self, scores: Tensor) -> Tensor:
            return (scores * 1e4) / (1e4 * math.sqrt(self.head_dim))

    report = check_consistency(Overflows)
    beside = {part.part: part.verdict for part in report.parts if part.part.startswith("beside")}
    assert report.verdict == "pass"
    assert beside["beside the verdict: float16"] == "fail"
    assert beside["beside the verdict: bfloat16"] == "pass"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "bflat16"}, "dtype must be a floating type"),
        ({"dtype": torch.int32}, "dtype must be a floating type"),
        ({"device": "gpu"}, "device must be one of torch's"),
        ({"device": "meta"}, "device must be one that holds values"),
        ({"d_model": "64"}, "d_model must be a whole number"),
    ],
)
def test_what_a_layer_cannot_be_checked_with_is_refused_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        check_consistency(**options)


def test_a_dtype_may_be_given_by_name():
    assert "bfloat16" in check_consistency(PlainAttention, dtype="bfloat16").scope


def test_memory_between_calls_is_told_apart_from_dropout():
    class Remembers(PlainAttention):
        def attn_weights(self, scores: Tensor) -> Tensor:
            self.calls = getattr(self, "calls", 0) + 1
            return scores.softmax(-1) * (1 + self.calls / 100)

    assert names(check_consistency(Remembers)) == ["state-between-calls"]


def test_layers_whose_parameters_get_their_shapes_by_a_first_call_are_run_once_before():
    class Lazy(PlainAttention):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__(d_model, num_heads)
            self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.LazyLinear(d_model) for _ in range(4))

    assert check_consistency(Lazy).verdict == "pass"


def test_nameless_weights_are_found_whatever_their_order():
    class Numbered(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.num_heads = num_heads
            self.fc1, self.fc2, self.fc3, self.fc4 = (nn.Linear(d_model, d_model) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (
                fc(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for fc in (self.fc3, self.fc4, self.fc1)
            )
            return self.fc2(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    report = check_consistency(Numbered)
    assert report.verdict == "pass"
    assert ("fc3.weight", "in_proj_weight[0:E]", "copied (found by trying)") in report.mapping


def test_parameters_without_counterpart_are_named_where_nothing_known_explains_a_difference():
    class Gated(PlainAttention):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__(d_model, num_heads)
            self.gate = nn.Parameter(torch.full((1,), 0.7))

        def out(self, context: Tensor, x: Tensor) -> Tensor:
            return self.gate * self.out_proj(context)

    report = check_consistency(Gated)
    assert report.unmatched == ("gate",)
    assert "without counterpart there: gate" in report.reason


def test_a_layer_that_writes_to_its_input_is_noted_and_judged_by_its_output():
    class Writes(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            if not torch.is_grad_enabled():
                x.zero_()
            return out

    report = check_consistency(Writes)
    assert report.verdict == "pass"
    assert any("writes to its input" in note for note in report.notes)


def test_a_layer_that_exits_is_an_error():
    class Exits(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            raise SystemExit(3)

    report = check_consistency(Exits)
    assert report.verdict == "error"
    assert "called exit(3)" in report.reason


def test_a_layer_may_load_the_official_weights_itself():
    class Odd(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.num_heads, self.blob = num_heads, nn.Parameter(torch.zeros(4 * d_model * d_model))

        def load_from_official(self, official: nn.MultiheadAttention) -> None:
            self.blob.copy_(torch.cat([official.in_proj_weight.flatten(), official.out_proj.weight.flatten()]).flip(0))

        def forward(self, x: Tensor) -> Tensor:
            w_q, w_k, w_v, w_o = self.blob.flip(0).view(4, x.shape[-1], -1)
            weights = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
            return attend(RIGHT, weights, self.num_heads, x)

    report = check_consistency(Odd, bias=False)
    assert report.verdict == "pass", str(report)
    assert report.mapping[0].theirs == "load_from_official"


class Unprintable(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ({"merge": lambda self, c: (_ for _ in ()).throw(Unprintable())}, "the layer raised Unprintable"),
        ({"load_from_official": property(lambda self: 1 / 0)}, "to look at the layer raised ZeroDivisionError"),
        ({"named_parameters": lambda self, **_: 1 / 0}, "ZeroDivisionError"),
    ],
)
def test_a_layer_that_raises_in_odd_places_is_an_error_in_words(steps, words):
    report = check_consistency(with_steps(**steps))
    assert report.verdict == "error"
    assert words in report.reason


def test_odd_parameters_beside_the_weights_do_no_harm():
    class Odd(PlainAttention):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__(d_model, num_heads)
            self.steps = nn.Parameter(torch.zeros(3, dtype=torch.int64), requires_grad=False)
            self.few = nn.Parameter(torch.eye(3).to_sparse())
            self.none = nn.Parameter(torch.zeros(0))

    assert check_consistency(Odd).verdict == "pass"


@pytest.mark.parametrize("count", [12, 20])
def test_many_nameless_matrices_take_no_long_search(count):
    class Many(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(count))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    assert check_consistency(Many).verdict in ("fail", "not-comparable")


def test_what_a_layer_sets_for_the_whole_process_is_put_back():
    class Sets(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            torch.set_default_dtype(torch.float64)
            return super().forward(x)

    check_consistency(Sets)
    assert torch.get_default_dtype() == torch.float32
