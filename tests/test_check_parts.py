"""Gradients, cross-attention and masks are parts of the check, each with a verdict of its own."""

import math

import pytest
import torch
from foreign_layers import HeadsFirst, KeysAndValuesPacked, attend, split
from torch import Tensor, nn

from mha import check_consistency
from mha.checking.formula import RIGHT
from mha.checking.gradients import compare_gradients
from mha.checking.planted import PlainAttention
from mha.checking.report import Shape
from mha.checking.trial import How, Trial


def verdicts(report):
    return {part.part: part.verdict for part in report.parts}


class Crossing(PlainAttention):
    """Takes query, key and value, and a mask in a way that subclasses say."""

    def hidden(self, scores: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (self.split(p(x)) for p, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value)))
        scores = self.scaled(q @ k.transpose(-2, -1))
        scores = scores if mask is None else self.hidden(scores, mask)
        return self.out_proj(self.merge(scores.softmax(-1) @ v))


CONVENTIONS = {
    "boolean, True where a query may see a key": lambda s, m: s.masked_fill(~m, -math.inf),
    "boolean, True where a key is hidden": lambda s, m: s.masked_fill(m.bool() & (m.dtype == torch.bool), -math.inf),
    "added to the scores": lambda s, m: s + strict_float(m),
    "numbers, 1 where a query may see a key": lambda s, m: s.masked_fill(strict_float(m) == 0, -math.inf),
    "numbers, 1 where a key is hidden": lambda s, m: s.masked_fill(strict_float(m) == 1, -1e9),
}


def strict_float(mask):
    if not mask.is_floating_point():
        raise TypeError("the mask must be of numbers")
    return mask


@pytest.mark.parametrize("told", CONVENTIONS)
def test_what_a_mask_means_is_found_out_and_said(told):
    layer = type("Masked", (Crossing,), {"hidden": lambda self, s, m: CONVENTIONS[told](s, m)})
    report = check_consistency(layer)
    assert report.verdict == "pass", str(report)
    part = next(part for part in report.parts if part.part == "mask (mask)")
    assert part.verdict == "pass"
    assert told in part.reason


@pytest.mark.parametrize(
    ("hidden", "fault"),
    [
        (lambda self, s, m: s * m, "mask-multiplied"),
        (lambda self, s, m: s, "mask-ignored"),
    ],
)
def test_a_mask_that_does_not_hide_fails_named(hidden, fault):
    report = check_consistency(type("Masked", (Crossing,), {"hidden": hidden}))
    assert report.verdict == "fail"
    assert [finding.fault for finding in report.diagnosis] == [fault]


def test_a_padding_mask_that_hides_queries_fails_named():
    class OnQueries(PlainAttention):
        def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
            q, k, v = (self.split(part) for part in self.project(x))
            scores = self.scaled(q @ k.transpose(-2, -1))
            if key_padding_mask is not None:
                scores = scores.masked_fill(key_padding_mask[:, None, :, None], -1e9)
            return self.out_proj(self.merge(scores.softmax(-1) @ v))

    report = check_consistency(OnQueries)
    assert (report.verdict, [finding.fault for finding in report.diagnosis]) == ("fail", ["mask-on-queries"])


def test_a_mask_of_no_usual_kind_limits_the_verdict_and_says_so():
    class Odd(PlainAttention):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(x) if mask is None else super().forward(x) * mask.double().mean().to(x)

    report = check_consistency(Odd)
    assert report.verdict == "pass"
    assert "not checked: mask (mask) (none of the usual kinds and shapes hides what it should)" in report.scope


def test_a_mask_over_keys_alone_is_found_out():
    class Padded(PlainAttention):
        def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
            q, k, v = (self.split(part) for part in self.project(x))
            scores = self.scaled(q @ k.transpose(-2, -1))
            if key_padding_mask is not None:
                scores = scores.masked_fill(key_padding_mask[:, None, None, :], -math.inf)
            return self.out_proj(self.merge(scores.softmax(-1) @ v))

    part = next(part for part in check_consistency(Padded).parts if part.part.startswith("key padding"))
    assert (part.verdict, part.reason) == ("pass", "key_padding_mask (B, S): boolean, True where a key is hidden")


def test_the_official_layer_passes_in_all_its_parts():
    def make(d_model, num_heads):
        return nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    assert verdicts(check_consistency(make)) == {
        "self-attention, float32, inference": "pass",
        "called again": "pass",
        "other numbers of heads": "pass",
        "cross-attention with fewer keys than queries": "pass",
        "cross-attention with one tensor for keys and values": "pass",
        "switch (is_causal=True)": "error",  # it asks for the mask besides
        "gradients": "pass",
        "cross-attention": "pass",
        "cross-attention with more keys than queries": "pass",
        "mask (attn_mask)": "pass",
        "key padding mask (key_padding_mask)": "pass",
        "beside the verdict: bfloat16": "pass",
        "beside the verdict: float16": "pass",
    }


@pytest.mark.parametrize("layer", [HeadsFirst, KeysAndValuesPacked])
def test_cross_attention_is_checked_where_the_layer_takes_it(layer):
    found = verdicts(check_consistency(layer))
    assert found["cross-attention"] == found["cross-attention with more keys than queries"] == "pass"


def test_a_context_that_may_be_left_out_is_left_out_of_self_attention():
    class Refuses(PlainAttention):
        def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
            if memory is not None:
                raise ValueError("no memory here")
            return super().forward(x)

    report = check_consistency(Refuses)
    assert report.verdict == "pass"
    assert "not checked: cross-attention (the layer raised ValueError: no memory here" in report.scope


def test_a_context_that_joins_the_layers_own_keys_is_not_called_wrong():
    class Joins(PlainAttention):
        def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
            both = x if context is None else torch.cat([context, x], 1)
            q, k, v = (self.split(p(part)) for p, part in ((self.q_proj, x), (self.k_proj, both), (self.v_proj, both)))
            return self.out_proj(self.merge(self.scaled(q @ k.transpose(-2, -1)).softmax(-1) @ v))

    report = check_consistency(Joins)
    assert report.verdict == "pass"
    assert "context is not taken as keys and values alone" in report.scope


def test_values_made_from_the_keys_input_are_named():
    class FromKey(Crossing):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return super().forward(query, key, key)

    assert [finding.fault for finding in check_consistency(FromKey).diagnosis] == ["values-from-key"]


def test_a_backward_that_raises_fails():
    class Clobbers(PlainAttention):
        def attn_weights(self, scores: Tensor) -> Tensor:
            weights = scores.softmax(-1)
            return weights.mul_(1.0)

    report = check_consistency(Clobbers)
    assert report.verdict == "fail"
    assert "cannot be trained" in report.reason


def test_a_frozen_layer_is_compared_as_if_it_were_not_and_stays_so():
    layer = PlainAttention(48, 6).requires_grad_(False)
    report = check_consistency(layer)
    assert report.verdict == "pass"
    assert not any(parameter.requires_grad for parameter in layer.parameters())
    assert any("requires_grad=False" in note for note in report.notes)


def test_other_key_lengths_that_a_layer_refuses_limit_the_verdict_and_do_not_fail_it():
    class SameLength(Crossing):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            if key.shape != query.shape:
                raise ValueError("key and query must be of one length")
            return super().forward(query, key, value)

    report = check_consistency(SameLength)
    assert report.verdict == "pass"
    assert "not checked: cross-attention with more keys than queries (the layer raised ValueError" in report.scope


@pytest.mark.parametrize("layer", [HeadsFirst, nn.MultiheadAttention])
def test_a_layer_with_a_mask_is_asked_to_be_causal_by_it(layer):
    report = check_consistency(layer, causal=True, batch_first=layer is not nn.MultiheadAttention)
    assert report.verdict == "pass", str(report)
    assert "self-attention, causal, float32, inference" in verdicts(report)


def test_a_layer_with_a_switch_is_asked_to_be_causal_by_it():
    class Switched(PlainAttention):
        def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
            q, k, v = (self.split(part) for part in self.project(x))
            return self.out_proj(self.merge(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)))

    assert check_consistency(Switched, causal=True).verdict == "pass"
    assert check_consistency(PlainAttention, causal=True).verdict == "fail"


def test_gradients_of_input_and_every_weight_are_compared():
    report = check_consistency(PlainAttention)
    assert [found.name for found in report.gradients] == [
        "input",
        "q_proj.weight",
        "k_proj.weight",
        "v_proj.weight",
        "out_proj.weight",
        "q_proj.bias",
        "k_proj.bias",
        "v_proj.bias",
        "out_proj.bias",
    ]
    assert {found.verdict for found in report.gradients} == {"pass"}


def test_a_gradient_that_is_cut_off_fails_named():
    class Detached(PlainAttention):
        def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            q, k, v = super().project(x)
            return q, k.detach(), v

    report = check_consistency(Detached)
    assert report.verdict == "fail"
    assert [finding.fault for finding in report.diagnosis] == ["gradient-missing"]
    assert "k_proj.weight" in report.diagnosis[0].sentence


def test_a_gradient_that_is_wrong_fails_though_the_output_is_right():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    class Wrong(PlainAttention):
        def merge(self, context: Tensor) -> Tensor:
            return Doubled.apply(super().merge(context))

    report = check_consistency(Wrong)
    assert report.verdict == "fail"
    wrong = {found.name for found in report.gradients if found.verdict == "fail"}
    assert wrong == {"input", "q_proj.weight", "k_proj.weight", "v_proj.weight", "q_proj.bias", "v_proj.bias"}


def test_a_layer_without_gradients_fails():
    class Frozen(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                return super().forward(x)

    report = check_consistency(Frozen)
    assert report.verdict == "fail"
    assert "takes no gradient" in report.reason
    assert check_consistency(Frozen, gradients=False).verdict == "pass"


def test_dropout_modules_are_at_rest_while_gradients_are_compared_and_are_noted():
    class Dropped(PlainAttention):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__(d_model, num_heads)
            self.drop = nn.Dropout(0.3)

        def attn_weights(self, scores: Tensor) -> Tensor:
            return self.drop(scores.softmax(-1))

    report = check_consistency(Dropped)
    assert report.verdict == "pass"
    assert any("Dropout 0.3" in note for note in report.notes)


def test_dropout_that_no_module_holds_leaves_gradients_to_eval_mode():
    class Functional(PlainAttention):
        def attn_weights(self, scores: Tensor) -> Tensor:
            return nn.functional.dropout(scores.softmax(-1), 0.2, training=self.training)

    assert check_consistency(Functional).verdict == "pass"


def test_another_output_in_train_mode_fails():
    class Slips(PlainAttention):
        def scaled(self, scores: Tensor) -> Tensor:
            return scores if self.training else super().scaled(scores)

    report = check_consistency(Slips)
    assert report.verdict == "fail"
    assert "in train mode the output is another" in report.reason


def test_a_keys_bias_that_is_not_applied_changes_nothing_and_passes():
    class WithoutKeyBias(PlainAttention):
        def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return self.q_proj(x), x @ self.k_proj.weight.t(), self.v_proj(x)

    assert check_consistency(WithoutKeyBias).verdict == "pass"


def test_grouped_queries_are_not_comparable_and_pass_the_other_way_round():
    class Grouped(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads=None):
            super().__init__()
            self.n_heads, self.n_kv_heads = n_heads, n_kv_heads or max(1, n_heads // 2)
            kv_dim = dim // n_heads * self.n_kv_heads
            self.wq, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(2))
            self.wk, self.wv = (nn.Linear(dim, kv_dim, bias=False) for _ in range(2))

        def forward(self, x):
            q, k, v = split(self.wq(x), self.n_heads), self.wk(x), self.wv(x)
            k, v = (
                split(part, self.n_kv_heads).repeat_interleave(self.n_heads // self.n_kv_heads, 1) for part in (k, v)
            )
            return self.wo(attend(q, k, v))

    report = check_consistency(lambda d_model, num_heads: Grouped(d_model, num_heads))
    assert report.verdict == "not-comparable"
    assert [finding.fault for finding in report.diagnosis] == ["grouped-query"]
    assert "wk.weight is (32, 64)" in report.reason
    assert "copied into the official one and repeated where they are shared, it passes" in report.scope


def faults(report):
    return [finding.fault for finding in report.diagnosis]


def test_a_mask_kept_from_the_first_length_fails():
    class Stale(PlainAttention):
        def masked(self, scores: Tensor) -> Tensor:
            size = scores.shape[-1]
            if getattr(self, "kept", None) is None or self.kept.shape[-1] < size:
                self.kept = torch.ones(size, size, dtype=torch.bool).triu(1)
            return scores.masked_fill(self.kept[-size:, -size:].roll(self.kept.shape[-1] - size, 1), -math.inf)

    report = check_consistency(Stale)
    assert (report.verdict, faults(report)) == ("fail", ["state-between-calls"])


def test_a_mask_of_the_first_length_that_breaks_at_others_fails():
    class Breaks(PlainAttention):
        def masked(self, scores: Tensor) -> Tensor:
            if not hasattr(self, "kept"):
                self.kept = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            return scores.masked_fill(self.kept, -math.inf)

    report = check_consistency(Breaks)
    assert (report.verdict, faults(report)) == ("fail", ["state-between-calls"])
    assert "raises after a call at another size" in report.reason


def test_an_output_kept_for_its_shape_fails():
    class Remembers(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            kept = self.__dict__.setdefault("kept", {})
            if torch.is_grad_enabled():
                return super().forward(x)
            return kept.setdefault(x.shape, super().forward(x)).clone()

    report = check_consistency(Remembers)
    assert (report.verdict, faults(report)) == ("fail", ["state-between-calls"])


def test_a_buffer_that_is_returned_again_fails():
    class Reuses(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            if torch.is_grad_enabled():
                return out
            buffers = self.__dict__.setdefault("buffers", {})
            return buffers.setdefault(x.shape, torch.empty_like(out)).copy_(out)

    report = check_consistency(Reuses)
    assert (report.verdict, faults(report)) == ("fail", ["output-overwritten"])


def test_another_output_with_gradients_enabled_fails():
    class Slips(PlainAttention):
        def scaled(self, scores: Tensor) -> Tensor:
            return scores if torch.is_grad_enabled() else super().scaled(scores)

    report = check_consistency(Slips)
    assert report.verdict == "fail"
    assert "with gradients enabled the output is another" in report.reason


def test_a_fault_in_train_mode_behind_dropout_is_seen():
    class Hidden(PlainAttention):
        def attn_weights(self, scores: Tensor) -> Tensor:
            scores = scores * 2 if self.training else scores
            return nn.functional.dropout(scores.softmax(-1), 0.1, training=self.training)

    assert check_consistency(Hidden).verdict == "fail"


def test_tied_weights_are_not_comparable_by_copying_in():
    class Tied(PlainAttention):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__(d_model, num_heads)
            self.k_proj = self.q_proj

    report = check_consistency(Tied)
    assert (report.verdict, faults(report)) == ("not-comparable", ["shared-projection"])
    assert "it passes" in report.scope


@pytest.mark.parametrize(
    ("is_hit", "told"),
    [
        (lambda x: x.shape[0] == 1, "batch 1, seq_len 7"),
        (lambda x: x.shape[1] == 1, "batch 2, seq_len 1"),
        (lambda x: x.shape[1] > 31, "batch 4, seq_len 40"),
        (lambda x: x.abs().max() > 12, "eight times as large"),
        (lambda x: not x.is_contiguous(), "not contiguous"),
    ],
)
def test_what_is_wrong_for_some_inputs_only_fails(is_hit, told):
    class Sometimes(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (1.01 if is_hit(x) else 1.0)

    report = check_consistency(Sometimes)
    assert report.verdict == "fail"
    assert told in report.reason


def test_what_is_wrong_for_some_numbers_of_heads_only_fails():
    class Sometimes(PlainAttention):
        def scaled(self, scores: Tensor) -> Tensor:
            return scores if self.num_heads == 8 else super().scaled(scores)

    report = check_consistency(Sometimes)
    assert report.verdict == "fail"
    assert "wrong at d_model 24, 8 heads" in report.reason


def test_a_layer_that_returns_a_wider_dtype_passes_and_is_noted():
    class Wider(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).double()

    report = check_consistency(Wider)
    assert report.verdict == "pass", str(report)
    assert any("returns float64 for float32" in note for note in report.notes)


def test_a_way_of_its_own_for_one_tensor_as_keys_and_values_is_tried():
    class Unpacks(Crossing):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            if key is value and key is not query:
                self.k_proj, self.v_proj = self.v_proj, self.k_proj
                out = super().forward(query, key, value)
                self.k_proj, self.v_proj = self.v_proj, self.k_proj
                return out
            return super().forward(query, key, value)

    assert check_consistency(Unpacks).verdict == "fail"


def test_dropout_that_a_constructor_takes_is_tried_in_eval_mode():
    class Always(PlainAttention):
        def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
            super().__init__(d_model, num_heads)
            self.dropout = dropout

        def attn_weights(self, scores: Tensor) -> Tensor:
            return nn.functional.dropout(scores.softmax(-1), self.dropout)

    report = check_consistency(Always)
    assert (report.verdict, faults(report)) == ("fail", ["dropout-in-eval"])


def test_a_switch_that_does_not_make_the_layer_causal_fails():
    class Ignores(PlainAttention):
        def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
            return super().forward(x)

    report = check_consistency(Ignores)
    assert report.verdict == "fail"
    assert "it is ignored" in report.reason


def test_arguments_of_which_nothing_is_known_limit_the_verdict():
    class Lengths(PlainAttention):
        def forward(self, x: Tensor, valid_lens: Tensor | None = None) -> Tensor:
            return super().forward(x)

    assert "not checked: what valid_lens of its forward does" in check_consistency(Lengths).scope


def test_a_mask_of_which_the_first_sequences_is_taken_for_all_fails_to_be_obeyed_by_sequence():
    class First(Crossing):
        def hidden(self, scores: Tensor, mask: Tensor) -> Tensor:
            if mask.dim() != 3:
                raise ValueError("the mask must be (batch, seq_len, seq_len)")
            return scores.masked_fill(~mask[0], -math.inf)

    report = check_consistency(First)
    assert "not checked: mask (mask)" in report.reason


def test_blocks_of_two_under_unknown_names_are_read():
    class Regard(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.num_heads = num_heads
            self.ask_and_offer, self.content = nn.Linear(d_model, 2 * d_model), nn.Linear(d_model, d_model)
            self.blend = nn.Linear(d_model, d_model)

        def forward(self, x: Tensor) -> Tensor:
            k, q = self.ask_and_offer(x).chunk(2, -1)
            return self.blend(attend(*(split(part, self.num_heads) for part in (q, k, self.content(x)))))

    report = check_consistency(Regard)
    assert report.verdict == "pass", str(report)
    assert not report.unmatched


def test_the_figure_of_a_gradient_is_that_of_finite_differences():
    class HalfMore(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return 1.5 * gradient

    class Wrong(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            return HalfMore.apply(super().forward(x))

    how = How(Wrong, "cpu", None, False, 42, True, 1.0, [])
    trial = Trial.of(how, Shape(6, 2, 2, 3), torch.float64)
    (found, mode) = compare_gradients(trial, trial.candidates[0], RIGHT)
    assert mode == "in train mode with dropout at rest"
    upstream = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(44))
    step = 1e-6
    slopes = []
    for index in range(trial.x.numel()):
        nudge = torch.zeros_like(trial.x).view(-1)
        nudge[index] = step
        up, down = (trial.run(trial.x + sign * nudge.view_as(trial.x)) for sign in (1, -1))
        slopes.append(float(((up - down) * upstream.double()).sum() / (2 * step)))
    # Half as much again as it should be: off by half of the largest slope.
    by_name = {one.name: one for one in found}
    assert by_name["input"].max_abs_error == pytest.approx(0.5 * max(map(abs, slopes)), rel=1e-5)
    assert by_name["input"].verdict == "fail"


def test_the_error_map_and_the_worst_head_are_where_the_error_was_put():
    class Off(PlainAttention):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x).clone()
            out[1, 2, 7] += 0.25
            return out

    report = check_consistency(Off, d_model=15, num_heads=3, batch_size=2, seq_len=7, probes=False)
    values = torch.tensor(report.error_map.values)
    assert values.shape == (7, 3)
    assert values[2, 1] == pytest.approx(0.25, abs=1e-5)
    values[2, 1] = 0
    assert values.max() < 1e-5
    told = report.to_dict()["comparisons"][0]
    assert (told["worst"], told["worst_head"]) == ([1, 2, 7], 1)
    assert told["share_off"] == pytest.approx(1 / (2 * 7 * 15))


def test_dropout_that_cannot_be_put_at_rest_is_said():
    class Own(PlainAttention):
        def attn_weights(self, scores: Tensor) -> Tensor:
            weights = scores.softmax(-1)
            return weights * (torch.rand_like(weights) > 0.2) if self.training else weights

    report = check_consistency(Own)
    assert report.verdict == "pass"
    part = next(part for part in report.parts if part.part == "gradients")
    assert "in eval mode, since chance rules" in part.reason
