"""The chart of a crossover: marks by sign, intervals, the line at 1, and where one overtakes the other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from profiling.charts.crossover_chart import crossover_alt, crossover_chart, turns
from profiling.laws.crossover_record import Record, Size

SIZES = [
    {"size": 32, "sign": "slower", "replicates": 5, "ratio": 0.8, "ratio_low": 0.7, "ratio_high": 0.9},
    {"size": 96, "sign": "unsure", "replicates": 10, "ratio": 1.02, "ratio_low": 0.95, "ratio_high": 1.1},
    {"size": 160, "sign": "faster", "replicates": 5, "ratio": 1.3, "ratio_low": 1.2, "ratio_high": 1.5},
    {"size": 512, "sign": "lost", "replicates": 0, "lost": "custom: oom: asked for 9 GiB"},
]


def record(sizes: list[dict[str, Any]] = SIZES, first: str = "custom") -> Record:
    return Record(
        **{"first": first, "second": "official", "axis": "seq_len", "state": "finished", "state_reason": ""},
        **{"started_at": "", "updated_at": "", "host": "", "folder": Path()},
        asked={},
        fixed={},
        places={},
        sources={},
        pid=1,
        process_started=0.0,
        answer={"probes": sizes},
    )


def test_each_size_is_a_mark_by_its_sign_with_its_interval() -> None:
    figure = crossover_chart(record())
    marks = {trace.name: trace for trace in figure.data if trace.mode == "markers"}
    assert {name: trace.x for name, trace in marks.items()} == {
        "custom is faster": (160,),
        "official is faster": (32,),
        "not told apart": (96,),
    }
    faster = marks["custom is faster"]
    assert faster.error_y.array == pytest.approx([0.2])
    assert faster.error_y.arrayminus == pytest.approx([0.1])
    assert faster.text == ("1.30 [1.20, 1.50], 5 replicates",)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert set(figure.layout.xaxis.tickvals) == {32, 96, 160}, "what was lost is in the words alone"


def test_where_one_overtakes_the_other_is_shaded_and_1_is_a_line() -> None:
    shapes = [(shape.type, shape.x0, shape.x1, shape.y0) for shape in crossover_chart(record()).layout.shapes]
    assert ("rect", 32, 160, 0) in shapes
    assert ("line", 0, 1, 1) in shapes
    assert len(shapes) == 2
    always = [{**each, "sign": "faster"} for each in SIZES[:3]]
    assert [shape.type for shape in crossover_chart(record(always)).layout.shapes] == ["line"]


def test_every_turn_is_found_whatever_cannot_be_told_between() -> None:
    signs = ("slower", "unsure", "faster", "same", "slower", "lost")
    sizes = [Size(size=2**place, sign=sign, replicates=5) for place, sign in enumerate(signs)]
    assert turns(sizes) == [(1, 4), (4, 16)]


def test_a_single_replicate_has_no_interval_and_nothing_is_no_chart() -> None:
    alone = [{"size": 32, "sign": "unsure", "replicates": 1, "ratio": 1.25}]
    (_, mark) = crossover_chart(record(alone)).data
    assert mark.error_y.array == (0.0,)
    assert mark.text == ("1.25, 1 replicate",)
    with pytest.raises(ValueError, match="at least one size"):
        crossover_chart(record(SIZES[3:]))


def test_a_layers_name_cannot_write_into_the_chart_and_the_alternative_says_the_numbers() -> None:
    named = dataclasses.replace(record(), first="a&b/x.py:Mine")
    assert "Mine is faster" in [trace.name for trace in crossover_chart(named).data]
    assert crossover_alt(record()) == (
        "Speed-up of custom over official by sequence length: 32: 0.80 [0.70, 0.90]; 96: 1.02 [0.95, 1.10]; "
        "160: 1.30 [1.20, 1.50]."
    )
