"""A check's report in words, tables and a map: pure functions of the report's dictionary."""

import math

import plotly.graph_objects as go
import pytest
from dashboard_fakes import full_report, report

from dashboard import report_tables as tables
from dashboard import report_text as text
from dashboard.error_map import error_map, short, takeaway

NEW_KEYS = ("unmatched", "diagnosis", "parts", "gradients", "probes", "notes", "error_map", "planted_total")


def maps(figure):
    return [trace for trace in figure.data if isinstance(trace, go.Heatmap)]


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("pass", ("green", "✓ pass")),
        ("fail", ("red", "✘ fail")),
        ("not-comparable", ("orange", "≠ not comparable")),
        ("error", ("red", "! error")),
        ("not-run", ("gray", "– not run")),
    ],
)
def test_a_verdict_has_a_colour_and_an_icon_and_a_word(verdict, words):
    assert text.verdict_words(verdict) == words


def test_a_report_without_the_newer_keys_has_no_words_and_no_tables_for_them():
    old = report()
    assert not set(NEW_KEYS) & set(old)
    assert (text.diagnosis(old), text.planted(old), text.gradients(old), text.worst_place(old)) == ([], "", "", "")
    assert all(table(old).empty for table in (tables.parts, tables.gradients, tables.probes))
    assert error_map(old) is None
    assert takeaway(old) == ""


def test_a_report_whose_newer_keys_are_empty_is_the_same():
    empty = report(**dict.fromkeys(NEW_KEYS), planted_caught=None)
    assert (text.diagnosis(empty), text.planted(empty), text.gradients(empty)) == ([], "", "")
    assert tables.parts(empty).empty
    assert error_map(empty) is None


def test_planted_faults_are_counted():
    assert text.planted(full_report(planted_caught=13)) == "13 of 14 planted faults caught"


def test_gradients_are_right_where_every_one_is():
    assert text.gradients(full_report()) == "gradients ✘ (1 of 2)"
    assert text.gradients(full_report(gradients=full_report()["gradients"][:1])) == "gradients ✓"


def test_the_worst_element_is_placed_and_none_where_nothing_differs():
    assert text.worst_place(full_report()) == "batch 1, position 5, channel 11"
    same = [{**full_report()["comparisons"][0], "max_abs_error": 0.0}]
    assert text.worst_place(full_report(comparisons=same)) == ""
    assert text.worst_place(full_report(comparisons=[])) == ""


def test_what_has_no_counterpart_counts_among_the_weights():
    assert text.weights_moved(full_report()) == "1 of 2"
    assert text.weights_moved(report()) == "1 of 1"
    assert text.weights_moved(report(mapping=[])) == ""


def test_the_figures_leave_out_a_version_that_is_not_known():
    assert "torch" not in text.evidence(report(torch_version=None))


@pytest.mark.parametrize("name", ["W_Q.weight", "a`b", "line\nbreak", "*bold*"])
def test_a_name_is_code_whatever_letters_it_has(name):
    shown = text.code(name)
    assert name.replace("\n", " ") in shown
    assert shown.startswith("`")
    assert "\n" not in shown


def test_the_parts_have_a_row_each_with_what_is_missing_as_a_dash():
    found = tables.parts(full_report())
    assert list(found["verdict"]) == [":red[✘ fail]", ":gray[– not run]"]
    assert list(found["max error"]) == ["2.70e-01", "–"]
    assert list(found["error ratio"]) == ["400,000×", "–"]


def test_what_the_engine_says_is_text_and_no_markdown():
    entry = {"part": "a | b", "verdict": "fail", "max_abs_error": None, "error_ratio": None, "reason": ":red[x] $y$"}
    row = tables.parts(full_report(parts=[entry])).iloc[0]
    assert row["part"] == "a \\| b"
    assert row["why"] == "\\:red\\[x\\] \\$y\\$"


def test_the_map_lays_positions_across_and_heads_down_in_powers_of_ten():
    errors = maps(error_map(full_report()))[0]
    assert (list(errors.x), list(errors.y)) == (["0", "1", "2"], ["0", "1"])
    drawn = [[None if value is None else round(value, 3) for value in row] for row in errors.z]
    assert drawn == [[None, round(math.log10(0.27), 3), None], [-7.0, None, round(math.log10(3e-8), 3)]]


def test_zero_and_nan_have_marks_of_their_own_in_the_map():
    figure = error_map(full_report())
    zeros = maps(figure)[1]
    assert [list(row) for row in zeros.z] == [[1, None, None], [None, 1, None]]
    assert "bit-identical" in zeros.hovertemplate
    crosses = next(trace for trace in figure.data if isinstance(trace, go.Scatter))
    assert (list(crosses.x), list(crosses.y)) == (["2"], ["0"])


def test_a_map_of_zeros_alone_has_a_scale_and_says_so():
    same = full_report(error_map={"positions": [0, 1], "heads": [0], "values": [[0.0], [0.0]]})
    assert takeaway(same) == "All 2 blocks are bit-identical to the official layer's."
    assert error_map(same).layout.coloraxis.cmin < error_map(same).layout.coloraxis.cmax


def test_the_map_is_told_in_a_sentence():
    assert takeaway(full_report()) == (
        "1 of 6 blocks hold NaN or infinity; the largest error is 2.70e-01, at position 1, head 0; "
        "1 of 6 blocks are at or above 1e-05."
    )


def test_a_map_of_nothing_finite_is_told():
    lost = full_report(error_map={"positions": [0], "heads": [0, 1], "values": [[None, None]]})
    assert takeaway(lost) == "2 of 2 blocks hold NaN or infinity."
    assert error_map(lost) is not None


def test_the_colours_of_the_map_mean_the_same_in_every_map_unless_an_error_lies_beyond():
    axis = error_map(full_report()).layout.coloraxis
    assert (axis.cmin, axis.cmax) == (-8, 0)
    wide = full_report(error_map={"positions": [0], "heads": [0, 1], "values": [[1e-17, 250.0]]})
    assert (error_map(wide).layout.coloraxis.cmin, error_map(wide).layout.coloraxis.cmax) == (-17, 3)


@pytest.mark.parametrize(("num_positions", "has_numbers"), [(8, True), (9, False)])
def test_numbers_stand_in_the_cells_of_the_map_where_they_fit(num_positions, has_numbers):
    wide = {"positions": list(range(num_positions)), "heads": [0], "values": [[1.234e-3]] * num_positions}
    errors = maps(error_map(full_report(error_map=wide)))[0]
    assert (errors.texttemplate is not None) == has_numbers
    assert errors.text[0][0] == "1.2e-3"
    assert errors.customdata[0][0] == "1.23e-03"


@pytest.mark.parametrize(("value", "written"), [(1.4142, "1.4"), (0.271, "0.27"), (3e-8, "3.0e-8"), (250.0, "250")])
def test_an_error_in_a_cell_has_two_digits(value, written):
    assert short(value) == written
