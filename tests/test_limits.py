from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from dashboard_samples import make_run, without_numbers

from profiling.charts.palette import style_of
from profiling.charts.roofline_chart import limit_sentences, roofline_alt, roofline_chart
from profiling.limits import Limit, Limits, contender_limits, contender_words, limit_dict, limit_words, limits_of
from profiling.settings import SweepSettings
from profiling.table import load_run
from profiling.workload import Grid

CEILINGS = {"matmul_gflop_per_s": {"float32": 100.0, "float64": 40.0}, "copy_gb_per_s": 20.0}


def limit(**changes: Any) -> Limit:
    """At 30 operations a byte: 73 of the 100 GFLOP/s that matrix products reach, where memory would allow 600."""
    fields: dict[str, Any] = {
        **{"contender": "custom", "batch_size": 3, "seq_len": 512, "num_heads": 7, "d_model": 56},
        **{"dtype": "float32", "mode": "inference", "causal": False},
        **{"achieved_gflop_per_s": 73.0, "arithmetic_intensity": 30.0},
        **{"matmul_gflop_per_s": 100.0, "copy_gb_per_s": 20.0, "fraction": 0.73},
    }
    return Limit(**fields | changes)


def planted(folder: Path, rates: dict[tuple[int, str], Any], environment: dict[str, Any]) -> pd.DataFrame:
    grid = Grid(batch_size=(3,), seq_len=(64, 192, 512), num_heads=(7,), d_model=56, device="cpu")
    changes = {at: rate if isinstance(rate, dict) else {"achieved_gflop_per_s": rate} for at, rate in rates.items()}
    settings = SweepSettings(contenders=("custom", "official"))
    make_run(folder, grid=grid, settings=settings, changes=changes, environment=environment)
    return load_run(folder)


# -- words ------------------------------------------------------------------------------------------------------------


def test_a_limit_is_told_as_a_share_a_bound_and_what_is_left() -> None:
    assert limit_words(limit()) == (
        "73 % of what this machine can do at seq_len 512, bound by matmul; at best it could be 1.37 times as fast"
    )
    assert limit().roof_gflop_per_s == 100.0


def test_where_few_operations_are_done_on_a_byte_memory_is_the_bound() -> None:
    # 4 operations a byte at 20 GB/s: 80 GFLOP/s.
    slow = limit(arithmetic_intensity=4.0, achieved_gflop_per_s=40.0, fraction=0.5)
    assert (slow.bound, slow.roof_gflop_per_s, slow.left) == ("memory traffic", 80.0, 2.0)
    assert "bound by memory traffic; at best it could be 2.00 times as fast" in limit_words(slow)


def test_a_call_far_below_both_roofs_is_bound_by_neither() -> None:
    words = limit_words(limit(fraction=0.04))
    assert words.startswith("4 % of what this machine can do at seq_len 512: bound by neither matmul nor memory")
    assert "the nearer roof is matmul" in words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fraction": 1.12}, "112 % of what this machine can do at seq_len 512: the ceiling was measured too low"),
        (
            {"fraction": 1.7, "causal": True},
            "170 % of what this machine can do at seq_len 512: a causal call is counted",
        ),
        ({"fraction": 1.2, "arithmetic_intensity": 2.0}, "its tensors stay in the processor's caches"),
        ({"fraction": 4.0}, "it cannot have done the work that is counted"),
    ],
)
def test_a_call_above_its_roof_says_why_and_promises_nothing(changes: dict[str, Any], words: str) -> None:
    told = limit_words(limit(**changes))
    assert words in told
    assert "at best" not in told
    assert limit(**changes).left is None


def test_at_the_roof_nothing_is_left() -> None:
    for fraction in (0.997, 1.004):
        assert limit_words(limit(fraction=fraction)).endswith("bound by matmul: nothing is left")


def test_a_contender_is_told_at_its_longest_sequence_with_its_range() -> None:
    each = (limit(seq_len=64, fraction=0.31), limit(seq_len=192, fraction=0.88), limit())
    assert contender_words(each) == (
        "custom: 73 % of what this machine can do at seq_len 512, bound by matmul; at best it could be 1.37 times as "
        "fast (31 to 88 % over its 3 points)"
    )
    assert "points" not in contender_words((limit(),))


def test_charts_call_a_layer_of_ones_own_by_its_class_and_in_full_where_two_share_it() -> None:
    mine, other = "some/folder/a.py:Mine", "some/folder/b.py:Mine"
    one = Limits(limits=(limit(contender=mine), limit()), left_out={})
    assert [words.split(":")[0] for words in limit_sentences(one)] == ["Mine", "custom"]
    both = Limits(limits=(limit(contender=mine), limit(contender=other)), left_out={})
    assert [words.rpartition(": ")[0] for words in limit_sentences(both)] == [mine, other]


# -- of a run ---------------------------------------------------------------------------------------------------------


def test_the_limits_of_a_run_are_those_of_its_table(tmp_path: Path) -> None:
    rates = {(1, "custom"): 50.0, (2, "custom"): 60.0, (3, "custom"): 73.0}
    table = planted(tmp_path / "run", rates, {"ceilings": CEILINGS})
    limits = limits_of(table)
    (longest,) = [each for each in limits.limits if each.contender == "custom" and each.seq_len == 512]
    row = table[(table["contender"] == "custom") & (table["seq_len"] == 512)].iloc[0]
    assert longest.fraction == row["roofline_fraction"]
    assert longest.fraction == pytest.approx(73.0 / longest.roof_gflop_per_s)
    assert list(contender_limits(limits)) == ["custom", "official"]
    assert [each.seq_len for each in contender_limits(limits)["custom"]] == [64, 192, 512]
    assert limit_dict(longest)["words"] == limit_words(longest)
    assert type(longest.seq_len) is int


def test_rows_without_a_number_a_right_result_or_a_ceiling_are_left_out_and_counted(tmp_path: Path) -> None:
    rates = {
        (1, "custom"): without_numbers("oom", "too large"),
        (2, "custom"): {"check_verdict": "fail"},
    }
    found = limits_of(planted(tmp_path / "run", rates, {"ceilings": CEILINGS}))
    assert (len(found.limits), dict(found.left_out)) == (4, {"oom": 1, "check not passed": 1})
    bare = limits_of(planted(tmp_path / "bare", {}, {}))
    assert (bare.limits, dict(bare.left_out)) == ((), {"no ceiling measured": 6})


# -- chart ------------------------------------------------------------------------------------------------------------


def test_the_chart_has_a_roof_for_each_element_type_and_a_line_for_each_contender() -> None:
    limits = Limits(
        (
            *(limit(seq_len=size, arithmetic_intensity=size / 20) for size in (64, 192)),
            limit(contender="official"),
            limit(contender="official", dtype="float64", matmul_gflop_per_s=40.0),
        ),
        {},
    )
    figure = roofline_chart(limits)
    names = [trace.name for trace in figure.data]
    assert names == [
        *("what the machine can do, float32", "what the machine can do, float64"),
        *("custom", "official", "official"),
    ]
    roof, custom = figure.data[0], figure.data[2]
    # Up to the ridge at 100 / 20 = 5 operations a byte the roof rises with 20 GB/s, then it is level.
    assert (roof.x[1], roof.y[1], roof.y[2]) == (5.0, 100.0, 100.0)
    assert roof.y[0] == pytest.approx(20 * roof.x[0])
    assert list(custom.x) == [3.2, 9.6]
    assert custom.line.color == style_of("custom", 0).color
    assert "73 % of what this machine can do" in custom.text[0].replace("<br>", " ")
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert [trace.showlegend for trace in figure.data] == [True, True, True, True, False]


def test_who_does_not_see_the_chart_is_told_what_it_shows() -> None:
    told = roofline_alt(Limits((limit(),), {}))
    assert told.startswith("Roofline chart. Measured ceilings: float32: 100 GFLOP/s, 20 GB/s copied. custom: 73 % of")
    assert "without points" in roofline_alt(Limits((), {}))
    assert roofline_chart(Limits((), {})).data == ()


def test_a_file_name_in_a_chart_is_text() -> None:
    figure = roofline_chart(Limits((limit(contender="x/<b>.py:Mine"), limit(contender="y/<b>.py:Mine")), {}))
    assert all("<b>.py" not in trace.text[0] for trace in figure.data[1:])
