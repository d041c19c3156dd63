"""Charts are checked on their data: what a person would read off them."""

import dataclasses
import itertools
import math

import pandas as pd
import plotly.graph_objects as go
import pytest
from dashboard_samples import make_run, without_numbers

from profiling.charts.axes import (
    ALL_OTHERS,
    View,
    others,
    panel_axes,
    panel_values,
    series_options,
    values_of,
    x_options,
)
from profiling.charts.claim_text import caption
from profiling.charts.headline_text import headline_caption
from profiling.charts.lines import line_chart
from profiling.charts.marks import log_ticks
from profiling.charts.metrics import ERROR, ERROR_RATIO, LATENCY, MEMORY_RATIO, SPEEDUP, with_memory_ratio
from profiling.charts.palette import FAILED, UNRELIABLE
from profiling.charts.row_columns import column_order
from profiling.charts.scales import scale_of
from profiling.charts.speedup_map import speedup_map
from profiling.charts.summary import headlines, unmeasured, warned
from profiling.settings import SweepSettings
from profiling.table import load_run
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(3, 5, 7), num_heads=(1, 11), d_model=22, device="cpu")
# Points in order: heads 1 at 3, 5, 7 (1 to 3), then heads 11 (4 to 6).
CHANGES = {
    (2, "custom"): {"max_abs_error": 0.25, "error_ratio": 9e5, "check_verdict": "fail"},
    (3, "custom"): {"max_abs_error": math.inf, "error_ratio": math.inf, "check_verdict": "fail"},
    (4, "custom"): without_numbers("oom", "out of memory: 3 GiB asked for"),
    (5, "official"): without_numbers("crashed", "killed by signal 9"),
    (5, "custom"): {"speedup": None},
    (6, "custom"): {"speedup": 4.0},
}


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "r", grid=GRID, changes=CHANGES)


@pytest.fixture
def table(run, tmp_path):
    return load_run(tmp_path / "r")


def draw(run, table, metric, **view):
    chosen = View(x="seq_len", series="contender", panels=("num_heads",), **view)
    return line_chart(table, metric, chosen, values_of(run), panel_values(run, chosen))


def lines(figure, name):
    return [trace for trace in figure.data if trace.name == name and trace.mode == "lines+markers"]


def test_a_line_holds_the_medians_in_the_axis_unit(run, table):
    figure = draw(run, table, LATENCY)
    first = lines(figure, "official-fused")[0]
    rows = table[(table["contender"] == "official-fused") & (table["num_heads"] == 1)]
    assert list(first.x) == [3, 5, 7]
    assert "µs" in figure.layout.title.text
    assert list(first.y) == pytest.approx([value * 1e3 for value in rows["latency_median_ms"]])


def test_the_band_is_the_quartiles_and_has_no_hover(run, table):
    band = next(trace for trace in draw(run, table, LATENCY).data if trace.fill == "toself")
    rows = table[(table["contender"] == "custom") & (table["num_heads"] == 1)]
    assert band.hoverinfo == "skip"
    assert list(band.y)[:3] == pytest.approx([value * 1e3 for value in rows["latency_p75_ms"]])
    assert list(band.y)[3:] == pytest.approx([value * 1e3 for value in rows["latency_p25_ms"]][::-1])


def test_zero_on_a_log_axis_is_drawn_at_a_floor_that_says_what_it_means(run, table):
    figure = draw(run, table, ERROR)
    at = figure.layout.yaxis.tickvals[0]
    assert figure.layout.yaxis.ticktext[0] == "0 (bit-identical)"
    assert lines(figure, "custom")[0].y[0] == at
    assert 0 < at < 0.25


@pytest.mark.parametrize("size", [2.42, 1e-3, 1e-7])
def test_zero_lies_below_the_bound_whatever_else_was_measured(run, table, size):
    wrong = table.assign(max_abs_error=table["max_abs_error"].where(table["max_abs_error"] == 0, size))
    figure = draw(run, wrong, ERROR)
    ticks, bound = figure.layout.yaxis.tickvals, figure.layout.shapes[0].y0
    assert figure.layout.yaxis.ticktext[0] == "0 (bit-identical)"
    assert ticks[0] < min(bound, size)
    assert list(ticks) == sorted(ticks)


@pytest.mark.parametrize("is_log", [True, False])
def test_an_interval_beyond_all_bounds_leaves_the_chart_and_the_others_stay_readable(run, table, is_log):
    wide = table.assign(speedup_low=0.9, speedup_high=1.3)
    assert draw(run, wide, SPEEDUP, log_y=is_log).layout.yaxis.range is None
    assert "leaves the chart" not in caption(wide)
    wide.loc[wide["contender"] == "custom", ["speedup_low", "speedup_high"]] = (7e-6, 392_286.0)
    low, high = draw(run, wide, SPEEDUP, log_y=is_log).layout.yaxis.range
    shown = wide["speedup"].dropna()
    low, high = (10**low, 10**high) if is_log else (low, high)
    assert low < min(1, shown.min()) < max(1, shown.max()) < high < 10 * shown.max()
    assert "leaves the chart" in caption(wide)


def test_zero_on_a_linear_axis_is_zero(run, table):
    assert lines(draw(run, table, ERROR, log_y=False), "custom")[0].y[0] == 0


def test_failed_and_not_finite_points_are_marked_in_red_with_their_reason(run, table):
    marks = [trace for trace in draw(run, table, ERROR).data if trace.name == "no number"]
    told = [place for mark in marks for place in zip(mark.x, mark.text, strict=True)]
    assert sorted(told) == [(3, "oom"), (5, "crashed"), (7, "not finite")]
    assert {mark.marker.color for mark in marks} == {FAILED}
    assert any("out of memory: 3 GiB asked for" in text for mark in marks for text in mark.hovertext)
    assert sum(bool(mark.showlegend) for mark in marks) == 1


def test_no_point_without_a_number_lies_on_a_line(run, table):
    figure = draw(run, table, ERROR)
    drawn = [(x, y) for trace in lines(figure, "custom") for x, y in zip(trace.x, trace.y, strict=True)]
    assert len(drawn) == 4
    assert all(math.isfinite(y) for _, y in drawn)


def test_a_speedup_of_a_row_that_fails_the_check_is_grey_and_says_why(run, table):
    line = lines(draw(run, table, SPEEDUP), "custom")[0]
    assert [color == UNRELIABLE for color in line.marker.color] == [False, True, True]
    assert "does not count: its check says fail" in line.text[1]


def test_every_series_differs_in_dash_or_mark_and_not_in_colour_alone(run, table):
    looks = {(t.line.dash, t.marker.symbol) for t in draw(run, table, LATENCY).data if t.mode == "lines+markers"}
    assert len(looks) == 4


def test_panels_stay_where_they_are_while_rows_come(tmp_path):
    run = make_run(tmp_path / "r", grid=GRID, state="running", done=1)
    figure = draw(run, load_run(tmp_path / "r"), LATENCY)
    assert [each.text for each in figure.layout.annotations] == ["heads 1", "heads 11"]
    assert list(figure.layout.xaxis.tickvals) == [3, 5, 7]


def test_an_axis_can_be_the_series_and_the_contender_be_held(run, table):
    view = View(x="seq_len", series="num_heads", panels=(), held={"contender": "official-fused"})
    figure = line_chart(table, LATENCY, view, values_of(run), panel_values(run, view))
    assert [trace.name for trace in figure.data if trace.mode == "lines+markers"] == ["heads 1", "heads 11"]


def test_axes_of_a_run_are_those_that_it_sweeps(run):
    assert x_options(run) == ["seq_len", "num_heads"]
    assert series_options(run, "seq_len") == ["contender", "num_heads"]
    assert others(run, "seq_len", "contender") == ["num_heads"]
    assert panel_axes(ALL_OTHERS, ["a", "b"]) == ("a", "b")
    assert panel_axes("gone", ["a"]) == ()


def test_memory_ratio_is_empty_where_the_reference_has_none(table):
    ratios = with_memory_ratio(table).set_index(["point", "contender"])["memory_ratio"]
    assert ratios[1, "custom"] == pytest.approx(0.57)
    assert pd.isna(ratios[5, "custom"])
    assert MEMORY_RATIO.column == ratios.name


def test_the_headline_is_a_geometric_mean_over_shapes_that_both_completed_and_that_pass(table):
    custom = headlines(table)[0]
    first = float(table.query("point == 1 and contender == 'custom'")["speedup"].iloc[0])
    assert custom.num_speedups == 2  # points 1 and 6: 2 and 3 fail, 4 is lost, 5 has no reference
    assert custom.speedup == pytest.approx(math.sqrt(first * 4.0))
    assert (custom.num_failed_checks, custom.num_checked, custom.num_unmeasured) == (2, 5, 1)
    assert custom.max_abs_error == math.inf


def test_the_caption_says_what_may_be_claimed_of_a_speedup(table):
    custom = headlines(table)[0]
    assert headline_caption(custom).startswith(
        "mean over 2 shapes · provisional (1 replicate) · noise floor 0.8 % · :red[**check not"
    )
    several = table.assign(speed_verdict=table["speed_verdict"].where(table["point"] == 1, "faster"))
    assert " · faster at 3, provisional at 1 of 4 · noise floor 0.8 % · " in headline_caption(
        headlines(several.assign(check_verdict=table["check_verdict"].where(table["point"] == 5, "pass")))[0]
    )
    few = dataclasses.replace(custom, replicates=(2, 4))
    assert "provisional (2 to 4 replicates)" in headline_caption(few)


def test_a_layer_of_another_design_has_a_speedup_that_is_marked_and_not_called_broken(run, table):
    other = table.assign(check_verdict=table["check_verdict"].where(table["check_verdict"].isna(), "not-comparable"))
    custom = headlines(other)[0]
    assert (custom.num_failed_checks, custom.num_not_comparable, custom.num_speedups) == (0, 5, 4)
    told = headline_caption(custom)
    assert "≠ not comparable at 5 of 5 (weights have no counterpart): timed with its own weights" in told
    assert "check" not in told
    assert ":red[" not in told
    maps = [trace for trace in speedup_map(other, "seq_len", values_of(run)).data if isinstance(trace, go.Heatmap)]
    assert maps[1].text[1][2] == "≠ 4.00×?"
    line = lines(draw(run, other, SPEEDUP), "custom")[0]
    assert UNRELIABLE not in line.marker.color
    assert "timed with its own weights" in line.text[0]


def test_points_without_numbers_are_counted_with_their_reason(table):
    assert unmeasured(table) == [
        ("oom", "out of memory: 3 GiB asked for", 1),
        ("crashed", "killed by signal 9", 1),
    ]


def test_the_map_is_log2_of_the_speedup_and_leaves_out_what_does_not_count(run, table):
    figure = speedup_map(table, "seq_len", values_of(run))
    cells = [trace for trace in figure.data if isinstance(trace, go.Heatmap)][1]  # all are provisional
    assert list(cells.x) == ["3", "5", "7"]
    assert list(cells.y) == ["heads 1", "heads 11"]
    assert cells.z[1][2] == pytest.approx(2.0)
    assert cells.text[1][2] == "4.00×?"
    assert cells.z[0][1] is None
    assert cells.z[1][0] is None
    words = next(trace for trace in figure.data if isinstance(trace, go.Scatter))
    assert dict(zip(zip(words.x, words.y, strict=True), words.text, strict=True)) == {
        ("5", "heads 1"): words.text[0],
        ("7", "heads 1"): words.text[1],
        ("3", "heads 11"): "OOM",
        ("5", "heads 11"): "–",
    }
    assert words.text[0].startswith("(")


def test_the_map_gives_twice_and_half_the_same_distance(run, table):
    colors = speedup_map(table, "seq_len", values_of(run)).layout.coloraxis
    assert colors.cmin == -colors.cmax == -2
    assert list(colors.colorbar.ticktext) == ["0.25×", "1.00×", "4.00×"]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([90, 400], [100, 200, 500]),
        ([0.5, 12000], [1, 10, 100, 1000, 10000]),
        ([], []),
        ([1e305, 1.7e308], [1e305, 1e306, 1e307, 1e308]),  # as far as numbers reach
    ],
)
def test_ticks_of_a_log_axis_are_round_numbers(values, ticks):
    assert log_ticks(values) == pytest.approx(ticks)


def test_a_log_axis_over_a_narrow_range_has_ticks_to_read():
    from profiling.charts.marks import log_ticks

    for values in ([0.98, 1.07], [0.73, 1.26], [1.0, 1.0]):
        ticks = log_ticks(values)
        assert 3 <= len(ticks) <= 10
        assert ticks[0] < max(values)
        assert ticks[-1] > min(values)


@pytest.mark.parametrize("metric", [ERROR, ERROR_RATIO, MEMORY_RATIO, SPEEDUP], ids=lambda metric: metric.column)
@pytest.mark.parametrize("away", [0.004, 0.03, 0.5, 1.0, 3.0, 40.0])
def test_the_ticks_of_a_log_axis_are_told_apart_also_where_a_line_lies_far_from_the_values(table, metric, away):
    line = metric.line[0]
    values = [line * away * step for step in (1.0, 1.7, 2.4)]
    rows = table.head(3).assign(**{metric.column: values}, speedup_low=values, speedup_high=values)
    ticks = [math.log10(tick) for tick in scale_of(rows, metric, is_log=True).ticks]
    seen = [math.log10(each) for each in (*values, line)]
    assert len(ticks) >= 3
    assert min(after - before for before, after in itertools.pairwise(ticks)) > (max(seen) - min(seen)) / 20
    assert ticks[-1] - ticks[0] > (max(seen) - min(seen)) / 2, "over all of the axis, not the values alone"


def test_maps_of_many_layers_keep_room_for_the_titles_between_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("")
    own = tuple(f"a.py:Layer{number}" for number in range(6))
    grid = Grid(batch_size=(2,), seq_len=(3, 5), num_heads=(1, 7), d_model=14, device="cpu")
    settings = SweepSettings(contenders=own, reference="official-fused")
    run = make_run(tmp_path / "r", grid=grid, settings=settings)
    figure = speedup_map(load_run(tmp_path / "r"), "seq_len", values_of(run))
    legend = [trace.name for trace in draw(run, load_run(tmp_path / "r"), LATENCY).data if trace.showlegend]
    assert legend == [*(f"Layer{number}" for number in range(6)), "official-fused"]
    titles = [note.text for note in figure.layout.annotations]
    assert titles == [f"Layer{number} over official-fused" for number in range(6)]
    tops = [figure.layout[f"yaxis{number or ''}"].domain for number in (0, 2, 3, 4, 5, 6)]
    between = [above[0] - below[1] for above, below in itertools.pairwise(tops)]
    assert min(between) * (figure.layout.height - 50) >= 80  # of pixels: ticks, the next map's title
    assert [figure.layout[f"xaxis{number or ''}"].title.text for number in (0, 5, 6)] == [None, None, "sequence length"]


def test_a_map_of_one_row_names_what_is_fixed(tmp_path):
    grid = Grid(batch_size=(2,), seq_len=(3, 5), num_heads=(7,), d_model=14, device="cpu")
    run = make_run(tmp_path / "r", grid=grid)
    cells = next(trace for trace in speedup_map(load_run(tmp_path / "r"), "seq_len", values_of(run)).data)
    assert list(cells.y) == ["batch size 2<br>heads 7"]


def test_the_table_has_the_compact_columns_first(table):
    columns = column_order(table)
    assert columns[:6] == ["contender", "batch_size", "seq_len", "num_heads", "d_model", "latency_median_ms"]
    assert columns.index("speedup") < columns.index("speed_verdict") < columns.index("check_verdict")
    assert columns.index("peak_memory_mib") < columns.index("reference")


def test_warnings_of_one_kind_are_told_once_with_the_number_of_their_rows() -> None:
    table = pd.DataFrame(
        {
            "warnings": [
                "other processes took 0.7 of 2 cores: close them; 5 rounds only: go on",
                "other processes took 1.2 of 2 cores: close them",
                None,
                "a clone strayed by 12%",
            ]
        }
    )
    assert warned(table) == [
        ("other processes took 0.7 of 2 cores: close them", 2),
        ("5 rounds only: go on", 1),
        ("a clone strayed by 12%", 1),
    ]


def test_one_size_alone_is_labelled_and_has_no_other_tick(tmp_path):
    grid = Grid(batch_size=(3,), seq_len=(64,), num_heads=(2,), d_model=10, device="cpu")
    run = make_run(tmp_path / "one", grid=grid)
    view = View(x="seq_len", series="contender", panels=())
    figure = line_chart(load_run(tmp_path / "one"), LATENCY, view, values_of(run), [{}])
    axis = figure.layout.xaxis
    assert (list(axis.tickvals), list(axis.ticktext)) == ([64], ["64"])
    assert axis.range[0] < math.log10(64) < axis.range[1]
