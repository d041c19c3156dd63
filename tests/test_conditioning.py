"""How far the truth moves with scores off by one rounding, and what a layer may be off by because of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import mha.consistency
from mha import check_consistency, compare_outputs
from mha.checking.conditioning import Problem, largest_moves, with_ties_allowed
from mha.checking.gradients import compare_gradients
from mha.checking.identification import identify
from mha.checking.planted import PLANTED, PlainAttention
from mha.checking.report import Shape
from mha.checking.side_by_side import NothingToCompare, compare_at
from mha.checking.surroundings import threads_for
from mha.checking.trial import How
from mha.oracle import Oracle

SHAPE = Shape(15, 3, 2, 7)
EPS = 2**-10  # of float16


def problem(*, is_causal=False):
    """One head of two channels: the first makes the scores, the second is the value; rows 0 and 1 are tied, row 2 not.

    The scores of row 0 are 10000, 9990 and -5000, divided by sqrt(2).
    """
    first, second = torch.diag(torch.tensor([1.0, 0.0])).double(), torch.diag(torch.tensor([0.0, 1.0])).double()
    x = torch.tensor([[[100.0, 7.0], [99.9, -5.0], [-50.0, 3.0]]]).double()
    weights = {"w_q": first, "w_k": first, "w_v": second, "w_o": torch.eye(2).double()}
    return Problem(x, weights, 1, torch.float16, is_causal)


def share(gap):
    return 1 / (1 + math.exp(-gap))


def moves(one):
    truths = one.truths()
    truth = next(truths)
    return truth, largest_moves(truth, truths)


def test_a_tie_moves_the_truth_by_hand():
    truth, moved = moves(problem())
    gap = 10 / math.sqrt(2)
    assert float(truth[0, 0, 1]) == pytest.approx(-5 + 12 * share(gap), abs=1e-3)
    turned = gap - EPS * (10_000 + 9_990) / math.sqrt(2)
    assert float(moved[0, 0, 1]) == pytest.approx(12 * (share(gap) - share(turned)), abs=1e-2)
    assert float(moved[0, 0, 1]) > 11


def test_the_truth_does_not_move_where_one_score_is_far_above_the_others():
    _, moved = moves(problem())
    assert float(moved[0, 2].max()) == 0


def test_a_query_that_sees_one_key_has_no_tie():
    truth, moved = moves(problem(is_causal=True))
    assert truth[0, 0].tolist() == [0, 7]
    assert float(moved[0, 0].max()) == 0
    assert float(moved[0, 1].max()) > 11


def judged(*, rows=None, **values):
    """The truth with the value of some rows replaced, compared with an official layer that is exact."""
    one = problem()
    truth = next(one.truths())
    output = truth.clone()
    for name, value in values.items():
        output[0, int(name.removeprefix("row_")), 1] = value
    rows = torch.arange(3) if rows is None else torch.tensor(rows)
    known = Oracle(truth[:, rows], rows)
    found = compare_outputs(output, truth, known, torch.float16)
    return found, with_ties_allowed(found, output, truth, known, one)


def test_a_tie_decided_the_other_way_passes_and_is_told():
    found, again = judged(row_0=-5.0)
    assert found.verdict == "fail"
    assert found.error_ratio > 1000
    assert (again.verdict, again.max_abs_error) == ("pass", found.max_abs_error)
    assert again.error_ratio == pytest.approx(1, abs=0.1)
    assert again.moved == pytest.approx(12, abs=0.1)
    assert "so nearly equal that one rounding of them moves the float64 truth itself" in again.reason


def test_a_tie_in_a_row_that_the_oracle_left_out_passes():
    found, again = judged(row_0=-5.0, rows=[1, 2])
    assert (found.verdict, again.verdict) == ("fail", "pass")


@pytest.mark.parametrize(
    "values",
    [{"row_2": 4.0}, {"row_0": -5.0, "row_2": 4.0}, {"row_0": -30.0}, {"row_0": -5.0, "row_1": 40.0}],
    ids=["no tie", "hidden behind a larger tie", "further than the tie goes", "another row"],
)
def test_what_ties_do_not_explain_still_fails(values):
    found, again = judged(**values)
    assert again.verdict == "fail"
    assert again.error_ratio > 2
    assert again.moved is None
    assert found.max_abs_error == again.max_abs_error


@pytest.mark.parametrize("place", [0.3, 0.5, 0.7])
def test_one_wrong_row_among_more_tied_ones_than_can_be_tried_at_once_fails(monkeypatch, place):
    generator = torch.Generator().manual_seed(0)
    x = 60 * torch.randn(1, 96, 8, generator=generator).double()
    weights = {f"w_{role}": torch.randn(8, 8, generator=generator).double() / math.sqrt(8) for role in "qkvo"}
    one = Problem(x, weights, 2, torch.bfloat16)
    truths = one.truths()
    truth, tied = next(truths), next(truths)
    known, official = Oracle(truth, torch.arange(96)), truth + 1e-3
    moved = (tied - truth).abs().amax((0, 2))
    ties = moved[moved > 1].sort().values
    assert len(ties) > 4
    monkeypatch.setattr("mha.checking.conditioning.MOST_SCORES", 20 * 2 * 96)  # a try or two at so many rows

    def again(output):
        found = compare_outputs(output, official, known, torch.bfloat16)
        assert found.verdict == "fail"
        return with_ties_allowed(found, output, official, known, one).verdict

    assert again(tied) == "pass"
    wrong, row = tied.clone(), int(moved.argmin())
    wrong[:, row] = truth[:, row] + ties[int(len(ties) * place)]
    assert again(wrong) == "fail"


class QueriesScaled(PlainAttention):
    def project(self, x):
        q, k, v = super().project(x)
        return q / math.sqrt(self.head_dim), k, v

    def scaled(self, scores):
        return scores


@pytest.mark.parametrize("seed", [0, 42])
def test_a_right_layer_passes_where_scores_are_large(seed):
    identity = identify(
        How(QueriesScaled, "cpu", None, False, seed, True, 100.0, []), SHAPE, torch.float32, probes=False
    )
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert compare_at(identity, SHAPE, dtype, need_weights=None)[0].verdict == "pass"


class Fused(PlainAttention):
    """Its backward knows the weights by the logarithm of their sum, which is coarse where scores are large."""

    def forward(self, x):
        q, k, v = (self.split(part) for part in self.project(x))
        return self.out(self.merge(F.scaled_dot_product_attention(q, k, v)), x)


class ValuesLearnTwice(Fused):
    def project(self, x):
        q, k, v = super().project(x)
        return q, k, 2 * v - v.detach()


def gradients_at(layer, scale):
    how = How(layer, "cpu", None, False, 0, True, scale, [])
    with threads_for(SHAPE):
        identity = identify(how, SHAPE, torch.float32, probes=False)
        return compare_gradients(identity.trial, identity.reading, identity.base)[0]


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_gradients_of_a_right_layer_pass_and_of_a_wrong_one_fail_at_large_scores(scale):
    assert {one.verdict for one in gradients_at(Fused, scale)} == {"pass"}
    wrong = {one.name for one in gradients_at(ValuesLearnTwice, scale) if one.verdict == "fail"}
    assert {"v_proj.weight", "input"} <= wrong


def test_a_scale_that_large_scores_hide_is_named():
    report = check_consistency(PLANTED["scale-d-model"], dtype="bfloat16", input_scale=100)
    assert report.verdict == "fail"
    assert [finding.fault for finding in report.diagnosis] == ["scale-d-model"]


def test_a_pass_that_ties_had_a_part_in_says_so(monkeypatch):
    def tied(*given, **options):
        found, error_map = compare_at(*given, **options)
        return replace(found, max_abs_error=5.0, moved=3.0), error_map

    monkeypatch.setattr(mha.consistency, "compare_at", tied)
    report = check_consistency(PlainAttention, d_model=10, num_heads=2, probes=False, gradients=False)
    assert report.verdict == "pass"
    assert report.reason.endswith("at 1 of them but for scores so nearly equal that one rounding decides between them")


def test_nothing_is_said_of_a_layer_where_the_official_one_overflows():
    report = check_consistency(QueriesScaled, dtype="float16", input_scale=1000)
    assert (report.verdict, report.comparisons) == ("error", ())
    assert "elements of the official layer's own output are NaN or infinite in float16" in report.reason
    assert "make the input smaller" in report.reason


def test_one_shape_at_which_the_official_layer_overflows_is_left_out_and_told(monkeypatch):
    def lost_at_one(identity, shape, dtype, **options):
        if shape.d_model == 14:
            raise NothingToCompare("error", "nothing is finite")
        return compare_at(identity, shape, dtype, **options)

    monkeypatch.setattr(mha.consistency, "compare_at", lost_at_one)
    report = check_consistency(PlainAttention, d_model=10, num_heads=2, batch_size=3, seq_len=5)
    assert (report.verdict, len(report.comparisons)) == ("pass", 2)
    assert "not compared at d_model 14, 2 heads, batch 3, seq_len 17: nothing is finite" in report.scope
