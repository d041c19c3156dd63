"""How a big run is drawn: less of it, never wrong, and what is left out is told."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from dashboard_samples import make_run
from hypothesis import given
from hypothesis import strategies as st
from made_up_history import grid_of

from dashboard.result_table import AS_MEASURED, sorted_by
from profiling.charts import dense_map
from profiling.charts.axes import View, values_of
from profiling.charts.dense_lines import UNCOUNTED
from profiling.charts.density import MAX_PANELS, MOST_LINES, MOST_POINTS, fitting, plan
from profiling.charts.lines import line_chart
from profiling.charts.map_colors import NO_CLAIM_CELL, UNCOUNTED_CELL
from profiling.charts.metrics import LATENCY, SPEEDUP
from profiling.charts.speedup_map import speedup_map
from profiling.table import load_run

# 61 lengths: one more than have a mark each. Points in order: batch 1, then 2, each with heads 1 and 2 at every length.
LENGTHS = 61
GRID = grid_of(LENGTHS * 4, lengths=LENGTHS)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "r"
    changes = {
        (3, "custom"): {"speedup": 4.0},
        (5, "custom"): {"check_verdict": "fail", "speedup": 3.0},
        (7, "custom"): {"status": "oom", "status_reason": "out of memory"},
    }
    run = make_run(folder, grid=GRID, changes=changes)
    return run, load_run(folder)


def chart(drawn, metric) -> go.Figure:
    run, table = drawn
    view = View(x="seq_len", series="contender", panels=(), held={"batch_size": 1, "num_heads": 1})
    return line_chart(table, metric, view, values_of(run), [{}])


def at(table: pd.DataFrame, contender: str) -> pd.DataFrame:
    return table.query(f"contender == '{contender}' and batch_size == 1 and num_heads == 1").sort_values("seq_len")


def test_a_long_line_has_every_value_and_no_marks(drawn):
    line = next(trace for trace in chart(drawn, LATENCY).data if trace.name == "official" and trace.hoverinfo != "skip")
    rows = at(drawn[1], "official")
    assert line.mode == "lines+markers"
    assert line.marker.opacity == 0, "a click chooses marks alone, and nobody sees them"
    assert list(line.x) == rows["seq_len"].tolist() == [16 * step for step in range(1, LENGTHS + 1)]
    factor = line.y[0] / rows["latency_median_ms"].iloc[0]
    assert factor == pytest.approx(1.0) or factor == pytest.approx(1e3)
    assert list(line.y) == pytest.approx((rows["latency_median_ms"] * factor).tolist(), rel=1e-6)
    assert list(line.customdata) == rows["point"].tolist()


def test_what_does_not_count_is_no_part_of_a_long_line_and_what_has_no_number_is_marked(drawn):
    figure = chart(drawn, SPEEDUP)
    rows = at(drawn[1], "custom")
    failing, lost, fast = (int(rows[rows["point"] == point]["seq_len"].iloc[0]) for point in points(drawn, 5, 7, 3))
    line = next(trace for trace in figure.data if trace.name == "custom")
    assert failing not in line.x
    assert lost not in line.x
    assert max(line.y) == pytest.approx(4.0)
    assert line.x[int(np.argmax(line.y))] == fast
    dots = next(trace for trace in figure.data if trace.name == UNCOUNTED)
    assert (list(dots.x), list(dots.y)) == ([failing], [3.0])
    marks = next(trace for trace in figure.data if trace.name == "no number")
    assert (list(marks.x), list(marks.text), list(marks.hovertext)) == ([lost], ["oom"], ["custom: out of memory"])


def points(drawn, *wanted: int) -> list[int]:
    """Those of these points that lie at batch 1 and heads 1, which all of them must."""
    table = drawn[1]
    here = set(at(table, "custom")["point"])
    assert here.issuperset(wanted)
    return list(wanted)


@given(
    x=st.integers(1, 30_000),
    series=st.integers(1, 300),
    panels=st.integers(1, 300),
)
def test_a_chart_never_draws_more_than_fits_and_tells_what_it_leaves_out(x, series, panels):
    view = View(x="x", series="s", panels=("p",))
    axes = {"x": range(x), "s": range(series), "p": range(panels)}
    found = plan(view, axes, [{"p": value} for value in range(panels)])
    assert 1 <= len(found.panels) <= MAX_PANELS
    assert len(found.panels) * len(found.series) <= MOST_LINES
    assert len(found.x) * len(found.panels) * len(found.series) <= max(MOST_POINTS, 2 * MOST_LINES)
    is_whole = (len(found.x), len(found.series), len(found.panels)) == (x, series, panels)
    assert is_whole == (not found.left_out)


def test_what_is_left_out_is_told_in_words():
    view = View(x="seq_len", series="contender", panels=())
    axes = {"seq_len": range(25_000), "contender": ("a", "b")}
    assert plan(view, axes, [{}]).left_out == ("Every 5th sequence length is drawn.",)


def test_panels_are_made_of_the_axes_that_fit_and_of_no_others():
    axes = {"seq_len": range(7), "contender": range(4), "batch_size": range(4), "num_heads": range(6), "bias": range(2)}
    assert fitting(axes, "seq_len", "contender", ["batch_size", "num_heads", "bias"]) == ("batch_size", "bias")
    assert fitting(axes | {"batch_size": range(5)}, "seq_len", "contender", ["batch_size", "bias"]) == ("batch_size",)
    assert fitting(axes | {"seq_len": range(2_000)}, "seq_len", "contender", ["batch_size"]) == ()


def dense(drawn, verdicts=None) -> go.Figure:
    run, table = drawn
    compared = table[table["reference"].notna()]
    if verdicts:
        compared = compared.assign(speed_verdict=compared["point"].map(verdicts).fillna("provisional"))
    axes, titles = values_of(run), {"custom": "custom over official"}
    return dense_map.draw(compared, "seq_len", axes, ["batch_size", "num_heads"], titles)


def test_a_map_of_many_points_is_an_image_with_every_speedup_in_its_place(drawn):
    table = drawn[1]
    assert dense_map.is_needed({**values_of(drawn[0]), "batch_size": range(3)}, "seq_len", 2)
    figure = dense(drawn)
    claimed, provisional, uncounted = (trace for trace in figure.data if isinstance(trace, go.Heatmap))
    assert list(provisional.y) == [
        "batch size 1 · heads 1",
        "batch size 1 · heads 2",
        "batch size 2 · heads 1",
        "batch size 2 · heads 2",
    ]
    by_place = table[table["contender"] == "custom"].set_index(["batch_size", "num_heads", "seq_len"])["speedup"]
    for place, speedup in by_place.dropna().items():
        batch_size, num_heads, seq_len = place
        cell = provisional.z[(batch_size - 1) * 2 + (num_heads - 1)][seq_len // 16 - 1]
        if speedup == pytest.approx(3.0, rel=1e-9):  # it fails the check
            assert math.isnan(cell)
        else:
            assert cell == pytest.approx(math.log2(speedup), abs=1e-6)
    assert np.isnan(np.array(claimed.z)).all()
    assert figure.layout.xaxis.range == (-0.5, LENGTHS - 0.5), "no room is left around the cells"
    assert figure.layout.yaxis.range == (3.5, -0.5)
    assert int(np.sum(~np.isnan(np.array(uncounted.z)))) == 2


def test_a_map_of_many_points_has_its_full_colours_only_where_a_difference_is_claimed(drawn):
    figure = dense(drawn, {1: "faster", 2: "same", 4: "unsure"})
    maps = {trace.coloraxis or trace.colorscale[0][1]: trace for trace in figure.data if isinstance(trace, go.Heatmap)}
    number = {kind: int(np.sum(~np.isnan(np.array(trace.z)))) for kind, trace in maps.items()}
    assert number == {"coloraxis": 1, "coloraxis2": LENGTHS * 4 - 5, NO_CLAIM_CELL: 2, UNCOUNTED_CELL: 2}
    cells = next(trace for trace in figure.data if trace.name == "cells")
    assert cells.hovertext[1].endswith("×, same or unsure")
    assert cells.hovertext[2] == "4.00×, provisional"
    assert cells.hovertext[4] == "no number that counts: the table says why"
    assert "," not in cells.hovertext[0]


def test_a_click_on_a_cell_of_many_leads_to_its_point_as_long_as_each_can_have_a_mark(drawn, monkeypatch):
    table = drawn[1]
    cells = next(trace for trace in dense(drawn).data if trace.name == "cells")
    at = table[table["contender"] == "custom"].set_index("point")
    for x, y, point in list(zip(cells.x, cells.y, cells.customdata, strict=True))[:: LENGTHS - 1]:
        row = at.loc[point]
        assert (x, y) == (str(row["seq_len"]), f"batch size {row['batch_size']} · heads {row['num_heads']}")
    axes = values_of(drawn[0])
    assert dense_map.is_clickable(axes, "seq_len", 1)
    monkeypatch.setattr(dense_map, "MOST_TARGETS", LENGTHS * 4 - 1)
    assert not dense_map.is_clickable(axes, "seq_len", 1)
    alone = dense(drawn).data
    assert not [trace for trace in alone if trace.name == "cells"]
    uncounted = [trace for trace in alone if isinstance(trace, go.Heatmap)][-1]
    assert uncounted.hovertemplate.startswith("%{y}<br>%{x}<br>no number that counts")


def test_the_map_of_a_big_run_says_which_rows_it_leaves_out(drawn):
    axes = {"seq_len": range(250), "batch_size": range(1_000), "contender": ("custom",)}
    assert dense_map.left_out(axes, "seq_len", 2) == "The first 200 of 1,000 rows are drawn."
    assert dense_map.left_out(values_of(drawn[0]), "seq_len", 2) == ""


def test_a_map_that_can_be_read_keeps_its_numbers(drawn, tmp_path):
    run = make_run(tmp_path / "small", grid=grid_of(20, lengths=5))
    figure = speedup_map(load_run(tmp_path / "small"), "seq_len", values_of(run))
    assert figure.data[0].texttemplate == "%{text}"


def test_all_rows_are_sorted_before_a_page_of_them_is_drawn():
    table = pd.DataFrame({"speedup": pd.array([1.5, None, 3.5, 0.5], dtype="Float64")})
    assert sorted_by(table, "speedup", descends=True).index.tolist() == [2, 0, 3, 1]
    assert sorted_by(table, "speedup", descends=False).index.tolist() == [3, 0, 2, 1]
    assert sorted_by(table, AS_MEASURED, descends=False) is table
