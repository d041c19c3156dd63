"""What a profile says: it adds up or tells so, two contenders side by side, words for the difference, bars."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from made_up_operators import made_up, made_up_profile, timed

from profiling.charts.operator_bars import operator_bars, operator_bars_alt
from profiling.operators.comparison import align, difference_words
from profiling.operators.report_text import report_dict, report_lines
from profiling.operators.result import ContenderProfile

COPIES, OUTSIDE = "copies and layout", "framework overhead"
CUSTOM = made_up(
    "custom",
    timed("mm", "projections", 410),
    timed("bmm", "scores", 130),
    timed("_softmax", "softmax", 70),
    timed("bmm", "weighted sum", 110),
    timed("mm", "output projection", 170),
    timed("clone", COPIES, 310, 4),
    timed("view", COPIES, 20, 7),
    timed("outside", OUTSIDE, 50),
    check_verdict="pass",
    kernel="explicit",
)
OFFICIAL = made_up(
    "official",
    timed("mm", "projections", 411),
    timed("bmm", "scores", 130),
    timed("_softmax", "softmax", 71),
    timed("bmm", "weighted sum", 110),
    timed("mm", "output projection", 169),
    timed("view", COPIES, 23, 9),
    timed("mean", "other", 37),
    timed("outside", OUTSIDE, 53),
    kernel="explicit",
)
FUSED = made_up(
    "official-fused",
    timed("mm", "projections", 411),
    timed("_scaled_dot_product_flash_attention_for_cpu", "fused attention", 190),
    timed("mm", "output projection", 169),
    timed("view", COPIES, 330, 9),
    timed("outside", OUTSIDE, 53),
    kernel="sdpa flash (cpu)",
)
LOST = ContenderProfile(
    contender="mine.py:Dies", status="crashed", status_reason="was ended by signal 11, in operators"
)


def dropped(profile: ContenderProfile, name: str) -> ContenderProfile:
    """The planted fault: an operator that the profile forgets, and does not tell anybody."""
    kept = tuple(each for each in profile.operators if each.name != f"aten::{name}")
    assert len(kept) < len(profile.operators)
    return dataclasses.replace(profile, operators=kept)


def test_roles_that_add_up_say_nothing() -> None:
    assert (CUSTOM.total_ms, CUSTOM.accounted_ms, CUSTOM.mismatch) == (1.27, 1.27, None)
    assert sum(role.share for role in CUSTOM.roles()) == pytest.approx(1.0)


def test_an_operator_that_is_dropped_is_noticed_and_told() -> None:
    fault = dropped(CUSTOM, "_softmax").mismatch
    assert fault == "the operators of custom do not add up: 70.0 µs less than the profiled 1.27 ms of a call"
    lines = report_lines(made_up_profile(dropped(CUSTOM, "_softmax"), OFFICIAL))
    assert f"warning: {fault}" in lines
    assert "The roles add up to the profiled call." not in lines


def test_an_operator_that_is_counted_twice_is_noticed() -> None:
    twice = dataclasses.replace(CUSTOM, operators=(*CUSTOM.operators, timed("mm", "projections", 13)))
    assert "13.0 µs more than" in (twice.mismatch or "")


def test_only_the_rounding_of_a_microsecond_is_let_through() -> None:
    def off_by(nanoseconds: int) -> str | None:
        return dataclasses.replace(CUSTOM, total_ns=CUSTOM.total_ns + nanoseconds).mismatch

    assert off_by(1000) is None
    assert off_by(-1000) is None
    assert off_by(1001) is not None


def test_kernels_that_no_operator_launched_are_told() -> None:
    on_device = tuple(dataclasses.replace(each, device_ns=7000) for each in CUSTOM.operators)
    whole = dataclasses.replace(CUSTOM, operators=on_device, device_total_ns=7000 * len(on_device))
    assert whole.mismatch is None
    lost = dataclasses.replace(whole, device_total_ns=whole.device_total_ns + 5000)
    assert lost.mismatch == "kernels of 5.00 µs a call belong to no operator of custom"


def test_a_number_that_was_not_measured_is_empty() -> None:
    assert (LOST.total_ms, LOST.accounted_ms, LOST.mismatch, LOST.roles()) == (None, None, None, [])
    assert CUSTOM.roles()[0].device_ms is None


def test_numbers_are_per_call() -> None:
    five = made_up("custom", timed("mm", "projections", 35, 15), timed("clone", COPIES, 5, 20), num_calls=5)
    first, second = five.roles()
    assert (five.total_ms, first.self_ms, first.num_calls, second.num_calls) == (0.008, 0.007, 3.0, 4.0)


def test_roles_are_aligned_also_where_one_lacks_them() -> None:
    pairs = align(CUSTOM, OFFICIAL)
    assert [pair.label for pair in pairs][-3:] == [COPIES, "other", OUTSIDE]
    other = pairs[-2]
    assert (other.one, other.difference_ms) == (None, pytest.approx(-0.037))
    assert pairs[-3].difference_ms == pytest.approx(0.307)


def test_the_words_name_the_calls_that_make_the_difference() -> None:
    assert difference_words(CUSTOM, OFFICIAL) == [
        "custom spends 307 µs more in copies and layout: 4 clone calls that official does not make",
        "official spends 37.0 µs more in other: 1 mean call that custom does not make",
    ]


def test_the_words_are_the_same_from_the_other_side() -> None:
    assert difference_words(OFFICIAL, CUSTOM) == difference_words(CUSTOM, OFFICIAL)


def test_more_of_the_same_calls_are_counted() -> None:
    more = made_up("custom", timed("mm", "projections", 500), timed("clone", COPIES, 90, 6))
    less = made_up("official", timed("mm", "projections", 500), timed("clone", COPIES, 30, 2))
    assert difference_words(more, less) == [
        "custom spends 60.0 µs more in copies and layout: 6 clone calls instead of 2"
    ]


def test_a_kernel_that_does_all_is_compared_with_the_three_together() -> None:
    words = difference_words(CUSTOM, FUSED)
    assert words[0] == (
        "custom spends 120 µs more in scores, softmax and weighted sum, which official-fused does in one kernel"
    )
    assert not any("spends" in each and "in softmax" in each for each in words)


def test_a_dearer_kernel_that_does_all_is_said_to_be_one() -> None:
    dear = dataclasses.replace(
        FUSED, operators=tuple(dataclasses.replace(each, self_ns=3 * each.self_ns) for each in FUSED.operators)
    )
    dear = dataclasses.replace(dear, total_ns=3 * FUSED.total_ns)
    assert "official-fused spends 260 µs more in scores, softmax and weighted sum, all in one kernel" in (
        difference_words(CUSTOM, dear)
    )


def test_generated_kernels_are_counted_not_named() -> None:
    kernels = [timed(f"cpp_fused_{name}", "compiled kernel", 30) for name in ("clone_0", "_softmax_1")]
    one = made_up("compiled:custom", timed("mm", "projections", 100), *kernels)
    other = made_up("official", timed("mm", "projections", 100))
    assert difference_words(one, other) == [
        "compiled:custom spends 60.0 µs more in compiled kernel: 2 compiled kernel calls that official does not make"
    ]


def test_products_of_which_it_is_open_which_they_are_are_told_so_and_compared_as_one() -> None:
    known = made_up(
        "custom",
        timed("bmm", "scores", 200, 2, is_backward=True),
        timed("bmm", "weighted sum", 210, 2, is_backward=True),
        timed("mm", "projections", 300, 6, is_backward=True),
        timed("mm", "output projection", 110, 2, is_backward=True),
    )
    compiled = made_up(
        "compiled:custom",
        timed("bmm", "weighted sum", 100, 1, is_backward=True),
        timed("bmm", "scores or weighted sum", 400, 3, is_backward=True),
        timed("mm", "some projection", 330, 7, is_backward=True),
        timed("mm", "output projection", 50, 1, is_backward=True),
    )
    lines = report_lines(made_up_profile(known, compiled))
    assert sum("neither order nor sizes settle" in line for line in lines) == 1
    assert not any("neither order nor sizes settle" in line for line in report_lines(made_up_profile(known)))
    assert difference_words(known, compiled) == [
        "compiled:custom spends 90.0 µs more in scores and weighted sum, backward, in the same calls",
        "custom spends 30.0 µs more in projections and output projection, backward, in the same calls",
    ]
    (longest,) = (line for line in lines if line.startswith("scores or weighted sum, backward"))
    assert longest.split() == ["scores", "or", "weighted", "sum,", "backward", "–", "0.400", "45.5%", "3", "-0.400"]


def test_layers_alike_are_said_to_be() -> None:
    assert difference_words(CUSTOM, dataclasses.replace(CUSTOM, contender="official")) == [
        "custom and official spend their time alike: no role differs by more than 2 % of a call"
    ]


@pytest.mark.parametrize(
    ("theirs", "is_certain"),
    [([400_000, 410_000, 420_000, 430_000], False), ([310_000, 320_000, 330_000, 340_000], True)],
)
def test_a_difference_within_the_spread_of_calls_is_not_certain(theirs: list[int], is_certain: bool) -> None:
    one = made_up(
        "custom", timed("mm", "projections", 500), role_ns={"projections": [380_000, 405_000, 600_000, 615_000]}
    )
    other = made_up("official", timed("mm", "projections", 400), role_ns={"projections": theirs})
    (words,) = difference_words(one, other)
    assert words.startswith("custom spends 100 µs more in projections, in the same calls")
    assert words.endswith("not certain") is not is_certain


INTERRUPTED = [100_000] * 9 + [30_100_000]


@pytest.mark.parametrize("theirs", [None, [9_000] * 10], ids=["no such role", "less in each call"])
def test_an_interrupted_call_is_told_and_no_operator_is_blamed_for_it(theirs: list[int] | None) -> None:
    one = made_up(
        "custom", timed("reshape", COPIES, 31_000, 20), num_calls=10, total_ns=40_000_000, role_ns={COPIES: INTERRUPTED}
    )
    other = dataclasses.replace(one, contender="official", operators=(), role_ns={})
    if theirs is not None:
        copies = (timed("copy_", COPIES, 90, 10),)
        other = dataclasses.replace(one, contender="official", operators=copies, role_ns={COPIES: theirs})
    (words,) = difference_words(one, other)
    number = 0 if theirs is None else 1
    assert words.startswith("custom spends 3.")
    assert words.endswith(
        f"in 2 calls, {number} in official, most of it in a few calls that took far longer: not certain"
    )


def test_roles_compared_as_one_are_doubted_by_what_they_took_together_in_each_call() -> None:
    parts = ("scores", "softmax", "weighted sum")
    calm = {part: [100_000 + step for step in range(10)] for part in parts}
    fused = made_up(
        "official-fused",
        timed("sdpa", "fused attention", 1_000),
        num_calls=10,
        total_ns=3_000_000,
        role_ns={"fused attention": [100_000] * 10},
    )

    def plain(role_ns: dict[str, list[int]]) -> str:
        operators = tuple(timed("bmm", part, sum(role_ns[part]) // 1000, 10) for part in parts)
        one = made_up("custom", *operators, num_calls=10, total_ns=3_000_000, role_ns=role_ns)
        (words,) = difference_words(one, fused)
        return words

    assert plain(calm).endswith("more in scores, softmax and weighted sum, which official-fused does in one kernel")
    assert plain(calm | {"softmax": INTERRUPTED}).endswith("a few calls that took far longer: not certain")
    wild = {part: [1_000] * 6 + [250_000] * 4 for part in parts}
    assert plain(wild).endswith("no more than single calls vary: not certain")


def test_calls_are_the_same_only_where_they_are_as_many() -> None:
    many = made_up("custom", timed("bmm", "scores", 160, 16))
    few = made_up("official", timed("bmm", "scores", 300, 2))
    assert difference_words(many, few) == ["official spends 140 µs more in scores, in 2 calls, 16 in custom"]
    cheap = made_up("custom", timed("bmm", "scores", 600, 2), timed("div", "scores", 1))
    (words,) = difference_words(cheap, few)
    assert words == "custom spends 301 µs more in scores, in 3 calls, 2 in official"


def test_a_call_in_place_is_no_other_call() -> None:
    one = made_up("custom", timed("bmm", "scores", 100), timed("mul_", "scores", 50))
    other = made_up("official", timed("bmm", "scores", 100), timed("mul", "scores", 20))
    assert difference_words(one, other) == ["custom spends 30.0 µs more in scores, in the same calls"]


def test_views_explain_a_difference_only_where_nothing_else_does_and_it_is_certain() -> None:
    def layer(name: str, views: int, self_us: int, *times: int, clones: int = 0) -> ContenderProfile:
        copies = [timed("clone", COPIES, 40, clones)] * bool(clones)
        return made_up(name, timed("view", COPIES, self_us, views), *copies, role_ns={COPIES: times})

    few = layer("official", 3, 100, 99_000, 100_000, 101_000)
    (certain,) = difference_words(layer("custom", 9, 200, 198_000, 200_000, 202_000), few)
    assert certain == "custom spends 100 µs more in copies and layout: 9 view calls instead of 3"
    (doubtful,) = difference_words(layer("custom", 9, 200, 90_000, 100_000, 410_000), few)
    assert doubtful.startswith("custom spends 100 µs more in copies and layout, in 9 calls, 3 in official")
    (copied,) = difference_words(layer("custom", 9, 200, 238_000, 240_000, 242_000, clones=2), few)
    assert copied.endswith(": 2 clone calls that official does not make")


def test_overhead_is_told_with_the_number_of_operators() -> None:
    slow = made_up("custom", timed("mm", "projections", 400, 30), timed("outside", OUTSIDE, 200))
    quick = made_up("official", timed("mm", "projections", 400, 11), timed("outside", OUTSIDE, 100))
    (words,) = difference_words(slow, quick)
    assert words.startswith("custom spends 100 µs more in framework overhead: ")
    assert words.endswith("around 30 operators a call, 11 in official")


def test_a_role_sums_up_its_operators() -> None:
    roles = {each.role: each for each in CUSTOM.roles()}
    assert len(roles) == 7
    copies = roles[COPIES]
    assert (copies.num_calls, copies.self_ms, copies.share) == (11.0, 0.33, pytest.approx(330 / 1270))
    assert [each.name for each in copies.operators] == ["aten::clone", "aten::view"]
    assert sum(each.share for each in roles.values()) == pytest.approx(1.0)


def test_the_report_tells_all_for_people() -> None:
    lines = report_lines(made_up_profile(CUSTOM, FUSED, LOST))
    text = "\n".join(lines)
    assert lines[0] == "batch 3, seq_len 7, heads 2, d_model 10, 1 thread; Made-up Processor, torch 2.13.0"
    assert (
        "official-fused does scores, softmax and weighted sum in one kernel (sdpa flash (cpu)): it cannot be split"
        in lines
    )
    assert lines[-1] == "mine.py:Dies: crashed, was ended by signal 11, in operators"
    softmax = next(line for line in lines if line.startswith("softmax"))
    assert softmax.split() == ["softmax", "0.070", "5.5%", "1", "–", "+0.070"]
    assert "-> custom spends 120 µs more in" in text
    assert max(map(len, lines[2:11])) <= 100


def test_other_is_listed_by_name() -> None:
    assert "other in official: 1 aten::mean (37.0 µs)" in report_lines(made_up_profile(CUSTOM, OFFICIAL))


def test_a_layer_that_does_other_work_is_marked() -> None:
    wrong = dataclasses.replace(CUSTOM, check_verdict="fail")
    assert "warning: custom is fail: it does not do the same work" in report_lines(made_up_profile(wrong))


def test_the_object_holds_the_same_for_machines() -> None:
    told: dict[str, Any] = json.loads(json.dumps(report_dict(made_up_profile(CUSTOM, OFFICIAL, LOST))))
    assert [each["adds_up"] for each in told["contenders"]] == [True, True, None]
    assert sum(role["self_ms"] for role in told["contenders"][0]["roles"]) == pytest.approx(1.27)
    assert told["contenders"][2]["total_ms"] is None
    (difference,) = told["differences"]
    assert (difference["one"], difference["other"]) == ("custom", "official")
    assert "4 clone calls" in difference["words"][0]
    assert sum(role["difference_ms"] for role in difference["roles"]) == pytest.approx(1.27 - 1.004)


def test_backward_roles_stand_behind_the_forward_ones() -> None:
    training = made_up("custom", timed("mm", "projections", 30, is_backward=True), timed("mm", "output projection", 10))
    assert [role.label for role in training.roles()] == ["output projection", "projections, backward"]


def test_bars_stand_side_by_side_by_role() -> None:
    figure = operator_bars(made_up_profile(CUSTOM, FUSED, LOST))
    custom, fused = figure.data
    assert (custom.name, fused.name, custom.orientation) == ("custom", "official-fused", "h")
    assert dict(zip(custom.y, custom.x, strict=True))[COPIES] == 0.33
    assert "fused attention" in fused.y
    assert "scores" not in fused.y
    assert custom.marker.pattern.shape != fused.marker.pattern.shape
    assert list(figure.layout.yaxis.categoryarray)[:5] == [
        *("projections", "scores", "softmax", "weighted sum", "fused attention"),
    ]
    assert figure.layout.yaxis.autorange == "reversed"
    assert "4 clone, 310 µs" in custom.hovertext[list(custom.y).index(COPIES)]


def test_a_name_is_no_markup_in_the_chart() -> None:
    figure = operator_bars(made_up_profile(dataclasses.replace(CUSTOM, contender="a<b>.py:X<i>")))
    assert "<i>" not in figure.data[0].name
    assert "<i>" not in figure.data[0].hovertext[0]


def test_the_chart_is_told_in_words_too() -> None:
    assert operator_bars_alt(made_up_profile(LOST)) == "Bar chart without bars: no contender was profiled."
    told = operator_bars_alt(made_up_profile(CUSTOM, OFFICIAL))
    assert "custom: 1.27 ms a call, most of it in projections (32 %)" in told
    assert "4 clone calls" in told
    assert operator_bars(made_up_profile(LOST)).layout.height > 0
