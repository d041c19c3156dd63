from __future__ import annotations

from typing import Any

import pytest

from profiling.check_report import error_report
from profiling.check_text import report_lines

MAPPING = [
    {"theirs": "to_qkv.weight[0:E]", "official": "in_proj_weight[0:E]", "how": "copied"},
    {"theirs": "to_qkv.weight[E:2E]", "official": "in_proj_weight[E:2E]", "how": "copied"},
    {"theirs": "out.weight", "official": "out_proj.weight", "how": "transposed"},
    {"theirs": "out.bias", "official": "out_proj.bias", "how": "copied"},
]
SHAPE = {"d_model": 10, "num_heads": 2, "batch_size": 3, "seq_len": 7}
PASSED: dict[str, Any] = {
    "verdict": "pass",
    "reason": "as near the float64 truth as the official layer at 2 of 2 shapes",
    "scope": "Mine against torch.nn.MultiheadAttention",
    "max_abs_error": 3e-7,
    "error_ratio": 0.7312,
    "tolerance": 2.0,
    "plain_tolerance": 1e-5,
    "plain_holds": True,
    "num_non_finite": 0,
    "comparisons": [
        {**SHAPE, "max_abs_error": 1e-7, "worst": [0, 0, 0]},
        {**SHAPE, "seq_len": 17, "max_abs_error": 3e-7, "worst": [2, 16, 9]},
    ],
    "mapping": MAPPING,
    "unmatched": ["rope.freqs"],
    "diagnosis": [],
    "parts": [
        {"part": "self-attention", "verdict": "pass", "max_abs_error": 3e-7, "error_ratio": 0.7, "reason": ""},
        {"part": "gradients", "verdict": "pass", "max_abs_error": 1e-6, "error_ratio": 1.5, "reason": ""},
        {"part": "mask (mask)", "verdict": "error", "reason": "no usual kind of mask was obeyed"},
    ],
    "gradients": [
        {"name": "input", "max_abs_error": 1e-6, "error_ratio": 0.5, "verdict": "pass"},
        {"name": "out.weight", "max_abs_error": 2e-6, "error_ratio": 1.25, "verdict": "pass"},
    ],
    "probes": [],
    "notes": ["The layer writes to its input."],
    "planted_caught": 21,
    "planted_total": 21,
    "max_abs_error_oracle": 2e-7,
    "official_max_abs_error_oracle": 3e-7,
}


def told(report: dict[str, Any], **options: Any) -> str:
    return "\n".join(report_lines("mine.py:Mine", report, **options))


def test_a_passing_layer_is_told_in_full_on_one_screen() -> None:
    assert (
        told(PASSED)
        == """\
PASS  mine.py:Mine
  as near the float64 truth as the official layer at 2 of 2 shapes

  compared       ERROR: mask (mask) - no usual kind of mask was obeyed
                 pass: self-attention; gradients
  error          3.00e-07 at most from the official layer; the plain bound 1e-05 holds
                 2.00e-07 from float64 at the shape asked for (the official layer 3.00e-07)
                 0.731 times what the official layer's own error explains, passes up to 2
  weights        3 of 4 weights, 1 of 1 biases matched
                 to_qkv.weight[0:E] <- in_proj_weight[0:E] (copied)
                 to_qkv.weight[E:2E] <- in_proj_weight[E:2E] (copied)
                 out.weight <- out_proj.weight (transposed)
                 out.bias <- out_proj.bias (copied)
  unmatched      rope.freqs
  gradients      2 of 2 pass; the worst is out.weight, 2.00e-06 (1.25 times)
  notes          The layer writes to its input.
  the check      21 of 21 planted faults caught
  what was run   Mine against torch.nn.MultiheadAttention"""
    )


def test_a_layer_that_is_run_at_sizes_of_its_own_says_so_first() -> None:
    lines = told(PASSED, asked=SHAPE | {"d_model": 64, "num_heads": 4}).splitlines()
    assert lines[1] == "  run at d_model 10, heads 2, batch 3, seq_len 7: not as asked (d_model 64, heads 4)"
    assert told(PASSED, asked=SHAPE) == told(PASSED)
    assert "not as asked" not in told({"verdict": "error", "reason": "x", "comparisons": []}, asked=SHAPE)


def test_where_a_failing_layer_is_worst_is_told() -> None:
    assert (
        "  worst element  batch 2, position 16, channel 9 at d_model 10, heads 2, batch 3, seq_len 17"
        in told(PASSED | {"verdict": "fail"}).splitlines()
    )


def test_what_a_mask_means_and_other_dtypes_are_told_on_lines_of_their_own() -> None:
    parts = [
        {"part": "self-attention", "verdict": "pass"},
        {"part": "mask (m)", "verdict": "pass", "reason": "m (S, S): boolean, True where a key is hidden"},
        {"part": "beside the verdict: bfloat16", "verdict": "pass"},
        {"part": "beside the verdict: float16", "verdict": "fail", "reason": "NaN"},
    ]
    assert told({**PASSED, "parts": parts}).splitlines()[3:6] == [
        "  compared       pass: self-attention; mask (m)",
        "                 m (S, S): boolean, True where a key is hidden",
        "                 beside the verdict: bfloat16 pass, float16 fail",
    ]


def test_what_is_wrong_comes_right_after_the_verdict() -> None:
    sentences = ["The scores are not scaled: divide them by sqrt(head_dim).", "Keys and values are swapped."]
    report = PASSED | {
        "verdict": "fail",
        "reason": "differs by up to 0.4",
        "diagnosis": [{"fault": "x", "sentence": sentence} for sentence in sentences],
    }
    assert told(report).splitlines()[:5] == [
        "FAIL  mine.py:Mine",
        f"  -> {sentences[0]}",
        f"  -> {sentences[1]}",
        "  differs by up to 0.4",
        "",
    ]


def test_failing_gradients_are_told_one_by_one() -> None:
    bad = {"name": "W_Q.weight", "max_abs_error": 0.5, "error_ratio": 1e5, "verdict": "fail"}
    endless = {"name": "W_K.weight", "max_abs_error": None, "error_ratio": None, "verdict": "fail"}
    lines = told(PASSED | {"gradients": [PASSED["gradients"][0], bad, endless]}).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  gradients"))
    assert [line.strip() for line in lines[first : first + 3]] == [
        "gradients      1 of 3 pass",
        "FAIL: W_Q.weight, 5.00e-01 (1e+05 times)",
        "FAIL: W_K.weight, not finite",
    ]


def test_what_is_not_finite_is_counted_and_is_the_worst() -> None:
    endless = {**SHAPE, "max_abs_error": None, "worst": [1, 2, 3]}
    report = PASSED | {
        "verdict": "fail",
        "num_non_finite": 42,
        "max_abs_error": None,
        "error_ratio": None,
        "comparisons": [PASSED["comparisons"][0], endless],
    }
    assert "  error          42 elements are NaN or infinite, all shapes together" in told(report)
    assert "  worst element  batch 1, position 2, channel 3 at " in told(report)


def test_an_error_of_zero_has_no_worst_element() -> None:
    same = [{**entry, "max_abs_error": 0.0} for entry in PASSED["comparisons"]]
    text = told(PASSED | {"comparisons": same, "max_abs_error": 0.0})
    assert "0.00e+00 at most" in text
    assert "worst element" not in text


def test_probes_are_told_where_there_are_any() -> None:
    report = PASSED | {"probes": [{"probe": "with W_Q = 0", "finding": "the attention is not uniform"}]}
    assert "  probes         with W_Q = 0: the attention is not uniform" in told(report)


@pytest.mark.parametrize("missing", [key for key in PASSED if key not in ("verdict", "reason")])
def test_a_key_that_is_missing_or_empty_tells_nothing(missing: str) -> None:
    told({name: value for name, value in PASSED.items() if name != missing})
    told(PASSED | {missing: None})


def test_a_report_of_nothing_is_short() -> None:
    report = error_report("the layer did not answer within 60 s", "mine.py:Mine at batch 2")
    assert told(report).splitlines() == [
        "ERROR  mine.py:Mine",
        "  the layer did not answer within 60 s",
        "",
        "  what was run   mine.py:Mine at batch 2",
    ]
    assert told({"verdict": "not-comparable", "reason": "another design"}).startswith("NOT COMPARABLE  mine.py:Mine\n")


def test_long_sentences_are_broken_at_the_width_under_their_label() -> None:
    lines = told(PASSED | {"notes": ["word " * 60], "reason": "word " * 60}, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.startswith(" " * 17 + "word") for line in lines) >= 5
