"""What the page says of the certainty of a speed-up: bars, hollow marks, noise floor, grey cells and words."""

import dataclasses
import math

import pandas as pd
import plotly.graph_objects as go
import pytest
from dashboard_samples import make_run

from profiling.charts import claim_text, headline_text, method_text
from profiling.charts.axes import View, panel_values, values_of
from profiling.charts.formatting import percent
from profiling.charts.headline_text import SPEED_RULES, claim_help, headline_caption
from profiling.charts.lines import line_chart
from profiling.charts.map_colors import NO_CLAIM_CELL
from profiling.charts.metrics import SPEEDUP
from profiling.charts.speedup_map import speedup_map
from profiling.charts.summary import SPEED_VERDICTS, headlines
from profiling.settings import SweepSettings
from profiling.table import load_run
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(3, 5, 7, 11), num_heads=(1,), d_model=13, device="cpu")
CLAIMED = ["faster", "same", "unsure", "provisional"]


@pytest.fixture
def run(tmp_path):
    settings = SweepSettings(contenders=("custom",), replicates=5)
    return make_run(tmp_path / "r", grid=GRID, settings=settings)


@pytest.fixture
def table(run, tmp_path):
    """Points 1 to 4 with a verdict each; the last has no interval."""
    found = load_run(tmp_path / "r")
    is_compared = found["reference"].notna()
    verdicts = found["point"].map(dict(enumerate(CLAIMED, start=1))).astype("string")
    has_interval = is_compared & (found["point"] < 4)
    return found.assign(
        speed_verdict=verdicts.where(is_compared),
        speedup=pd.Series(1.2, found.index, dtype="Float64").where(is_compared),
        speedup_low=pd.Series(1.1, found.index, dtype="Float64").where(has_interval),
        speedup_high=pd.Series(1.5, found.index, dtype="Float64").where(has_interval),
        noise_floor=(found["point"] / 100).astype("Float64").where(is_compared),
    )


def drawn(run, table, **view):
    chosen = View(x="seq_len", series="contender", panels=(), **view)
    return line_chart(table, SPEEDUP, chosen, values_of(run), panel_values(run, chosen))


def named(figure, name):
    return next(trace for trace in figure.data if trace.name == name)


def test_bars_reach_from_the_lower_to_the_upper_end_and_are_absent_without_an_interval(run, table):
    bars = named(drawn(run, table), "custom").error_y
    assert list(bars.array)[:3] == pytest.approx([0.3] * 3)
    assert list(bars.arrayminus)[:3] == pytest.approx([0.1] * 3)
    assert (bars.array[3], bars.arrayminus[3]) == (None, None)


def test_only_a_claimed_difference_has_a_full_mark(run, table):
    assert list(named(drawn(run, table), "custom").marker.symbol) == ["circle"] + ["circle-open"] * 3


def test_a_contender_whose_mark_is_hollow_elsewhere_is_full_where_it_claims_a_difference(tmp_path):
    settings = SweepSettings(contenders=("official-fastpath",), replicates=5)
    changes = {(1, "official-fastpath"): {"speedup": 1.5}, (2, "official-fastpath"): {"speedup": 1.0}}
    grid = Grid(batch_size=(2,), seq_len=(3, 5), num_heads=(1,), d_model=13, device="cpu")
    run = make_run(tmp_path / "r", grid=grid, settings=settings, changes=changes)
    symbols = named(drawn(run, load_run(tmp_path / "r")), "official-fastpath").marker.symbol
    assert [symbol.endswith("-open") for symbol in symbols] == [False, True]


def test_the_noise_floor_is_a_band_around_one_that_is_as_far_up_as_down(run, table):
    band = named(drawn(run, table), "noise floor")
    assert list(band.x) == [3, 5, 7, 11, 11, 7, 5, 3]
    assert list(band.y[:4]) == pytest.approx([1.01, 1.02, 1.03, 1.04])
    assert [above * below for above, below in zip(band.y[:4], band.y[:3:-1], strict=True)] == pytest.approx([1.0] * 4)
    assert band.showlegend


def test_the_noise_floor_of_a_point_is_that_of_the_clone_that_strayed_most_and_is_named_once(tmp_path):
    grid = Grid(batch_size=(2,), seq_len=(3, 5), num_heads=(1, 13), d_model=13, device="cpu")
    changes = {(point, "custom-fused"): {"clone_speedup": 1.25, "noise_floor": 0.25} for point in (1, 2, 3, 4)}
    run = make_run(tmp_path / "r", grid=grid, changes=changes)
    chosen = View(x="seq_len", series="contender", panels=("num_heads",))
    figure = line_chart(load_run(tmp_path / "r"), SPEEDUP, chosen, values_of(run), panel_values(run, chosen))
    bands = [trace for trace in figure.data if trace.name == "noise floor"]
    assert [list(band.y[:2]) for band in bands] == [pytest.approx([1.25, 1.25])] * 2
    assert sum(bool(band.showlegend) for band in bands) == 1


def test_a_point_alone_has_its_noise_floor_as_a_bar(run, table):
    band = named(drawn(run, table[table["point"] == 2]), "noise floor")
    assert (list(band.x), list(band.y)) == ([5, 5], pytest.approx([1.02, 1 / 1.02]))
    assert band.line.width > 8
    assert band.fill is None


def test_a_run_without_a_clone_has_no_band(run, table):
    figure = drawn(run, table.assign(noise_floor=pd.NA))
    assert "noise floor" not in {trace.name for trace in figure.data}


def test_pointing_at_a_mark_tells_interval_verdict_reason_noise_floor_and_replicates(run, table):
    told = named(drawn(run, table.assign(speed_verdict_reason="the interval lies outside")), "custom").text[0]
    assert "95 % interval [1.10×, 1.50×]" in told
    assert "faster: the interval lies outside" in told
    assert "noise floor 1.0 %, 5 replicates" in told
    assert "kernel: math" in told


def test_the_caption_names_bars_marks_and_band(table):
    told = claim_text.caption(table)
    assert told.startswith("Bars: 95 % interval")
    assert "A point with one replicate has none." in told
    assert "Hollow marks claim nothing" in told
    assert "Grey band: noise floor" in told


def test_with_one_replicate_the_caption_says_that_there_is_no_interval(tmp_path):
    run = make_run(tmp_path / "r", grid=GRID)
    table = load_run(tmp_path / "r")
    assert "One replicate: there is no interval" in claim_text.caption(table)
    assert "Bars" not in claim_text.caption(table)
    assert set(named(drawn(run, table), "custom").error_y.array) == {None}
    assert claim_text.caption(table.head(0)) == ""


def maps_of(figure):
    return [trace for trace in figure.data if isinstance(trace, go.Heatmap)]


def test_the_map_has_its_full_colours_only_where_a_difference_is_claimed(run, table):
    figure = speedup_map(table, "seq_len", values_of(run))
    claimed, provisional, grey = maps_of(figure)
    assert list(claimed.text[0]) == ["1.20×", "", "", ""]
    assert list(provisional.text[0]) == ["", "", "", "1.20×?"]
    assert list(grey.text[0]) == ["", "1.20×=", "1.20×", ""]
    for trace in (claimed, provisional, grey):
        assert [value is not None for value in trace.z[0]] == [text != "" for text in trace.text[0]]
    assert (claimed.coloraxis, provisional.coloraxis, grey.coloraxis) == ("coloraxis", "coloraxis2", None)
    assert {color for _, color in grey.colorscale} == {NO_CLAIM_CELL}


def chroma(color: str) -> int:
    """How far a colour is from grey: the difference of its strongest and weakest part."""
    parts = [int(color[at : at + 2], 16) for at in (1, 3, 5)]
    return max(parts) - min(parts)


def test_provisional_cells_have_the_claimed_colours_greyed_to_less_than_half(run, table):
    layout = speedup_map(table, "seq_len", values_of(run)).layout
    assert (layout.coloraxis2.cmin, layout.coloraxis2.cmax) == (layout.coloraxis.cmin, layout.coloraxis.cmax)
    for (at, full), (beside, greyed) in zip(layout.coloraxis.colorscale, layout.coloraxis2.colorscale, strict=True):
        assert at == beside
        assert chroma(greyed) <= 0.45 * chroma(full)


def test_the_map_has_a_legend_of_the_kinds_of_cells_that_are_there(run, table):
    legend = [trace.name for trace in speedup_map(table, "seq_len", values_of(run)).data if trace.showlegend]
    assert legend == ["faster", "slower", "provisional: faster?", "provisional: slower?", "same or unsure"]
    unclear = table.assign(speed_verdict=table["speed_verdict"].where(table["speed_verdict"].isna(), "unsure"))
    drawn = speedup_map(unclear, "seq_len", values_of(run)).data
    assert [trace.name for trace in drawn if trace.showlegend] == ["same or unsure"]


def test_a_row_without_a_verdict_is_not_drawn_as_a_claim(run, table):
    figure = speedup_map(
        table.assign(speed_verdict=table["speed_verdict"].mask(table["point"] == 1)), "seq_len", values_of(run)
    )
    claimed, provisional, _ = maps_of(figure)
    assert [value is not None for value in claimed.z[0]] == [False] * 4
    assert list(provisional.text[0]) == ["1.20×?", "", "", "1.20×?"]


def test_every_cell_tells_what_it_rests_on_and_leads_to_its_point(run, table):
    cells = next(trace for trace in speedup_map(table, "seq_len", values_of(run)).data if trace.name == "cells")
    assert list(cells.x) == ["3", "5", "7", "11"]
    assert list(cells.customdata) == [1, 2, 3, 4]
    assert cells.hovertext[0].startswith("1.20× over official<br>95 % interval [1.10×, 1.50×]<br>faster: ")
    assert "provisional" in cells.hovertext[3]
    unmeasured = speedup_map(table[table["point"] != 2], "seq_len", values_of(run)).data
    cells = next(trace for trace in unmeasured if trace.name == "cells")
    assert (cells.hovertext[1], list(cells.customdata)) == ("not measured yet", [1, None, 3, 4])


def test_three_per_cent_look_pale(run, table):
    colors = speedup_map(table.assign(speedup=1.03), "seq_len", values_of(run)).layout.coloraxis
    assert (colors.cmin, colors.cmax) == pytest.approx((-math.log2(1.5), math.log2(1.5)))


def test_a_headline_tells_the_median_noise_floor_of_its_shapes_and_no_interval_of_several(table):
    headline = headlines(table)[0]
    assert headline.noise_floor == pytest.approx(0.025)
    assert headline.interval is None
    assert "faster at 1, same at 1, unsure at 1, provisional at 1 of 4 · noise floor 2.5 %" in headline_caption(
        headline
    )


def test_a_headline_of_one_shape_tells_its_interval_and_its_reason(table):
    only = table[table["point"] == 3].assign(speed_verdict_reason="more replicates make it narrower")
    headline = headlines(only)[0]
    assert headline.interval == (1.1, 1.5)
    assert "interval 1.10× to 1.50× · unsure at 1 of 1" in headline_caption(headline)
    assert claim_help(headline).startswith("**unsure** at 1: more replicates make it narrower")


def test_the_help_of_a_headline_gives_the_rule_of_each_verdict_that_occurs(table):
    told = claim_help(headlines(table)[0])
    assert all(f"**{verdict}** at 1" in told for verdict in CLAIMED)
    assert "slower" not in told
    assert "clone of the reference" in told


def test_a_headline_without_a_clone_tells_no_noise_floor(table):
    headline = headlines(table.assign(noise_floor=pd.NA))[0]
    assert headline.noise_floor is None
    assert "noise floor" not in headline_caption(headline)
    assert claim_help(dataclasses.replace(headline, verdicts=())) == ""


def test_every_verdict_has_its_rule():
    assert set(headline_text.SPEED_RULES) == set(SPEED_VERDICTS)
    assert set(method_text.SPEED_VERDICTS) == set(SPEED_VERDICTS)
    assert "1 ± 2 %" in SPEED_RULES["same"]


@pytest.mark.parametrize(("share", "text"), [(0.012, "1.2 %"), (0.123, "12 %"), (0.0, "0.0 %"), (None, "–")])
def test_a_share_has_two_digits(share, text):
    assert percent(share) == text
