import html
import math
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.report_text import code
from profiling.charts import formatting as f
from profiling.charts.formatting import chart_lines, chart_text, plain, shortened, visible


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0.0123, "12.3 µs"), (1.234, "1.23 ms"), (999.4, "999 ms"), (1234.5, "1.23 s"), (None, "–"), (math.nan, "–")],
)
def test_a_time_is_told_in_the_si_unit_that_reads_best(milliseconds, text):
    assert f.latency(milliseconds) == text


@pytest.mark.parametrize(("mib", "text"), [(0.5, "512 KiB"), (1.5, "1.50 MiB"), (2048, "2.00 GiB"), (None, "–")])
def test_a_size_is_told_in_the_binary_unit_that_reads_best(mib, text):
    assert f.memory(mib) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "0.00e+00"), (1.19e-7, "1.19e-07"), (math.inf, "inf"), (None, "–")])
def test_an_error_is_told_as_the_command_line_tells_it(value, text):
    assert f.error(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.316, "1.32×"), (0.574, "0.57×"), (412345.0, "412,345×"), (None, "–")])
def test_a_ratio_has_two_decimals_and_a_sign(value, text):
    assert f.ratio(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.6, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (7200, "2 h"), (-3, "0 s"), (None, "–")],
)
def test_a_duration_has_no_more_digits_than_it_deserves(seconds, text):
    assert f.duration(seconds) == text


def test_text_from_a_file_is_no_markdown():
    assert f.plain("a *b* [c](d) $e$") == "a \\*b\\* \\[c\\]\\(d\\) \\$e\\$"


def test_a_moment_that_is_none_is_a_dash():
    assert f.clock("yesterday") == f.clock(None) == f.day_and_time("") == "–"


@given(st.text(max_size=80))
def test_a_text_in_markdown_is_one_line_whose_every_sign_is_escaped(text):
    told = plain(text)
    assert "\n" not in told
    assert not {unicodedata.category(letter) for letter in told.replace("\u2060", "")} & {"Cc", "Cf", "Cs"}
    bare = re.sub(r"\\.", "", told)
    assert not set(bare) & set("\\`*_{}[]<>()#+-.!|$~:=&@")
    assert re.sub(r"\\(.)", r"\1", told).replace("\u2060", "") == " ".join(visible(text).split())


@given(st.text(max_size=80))
def test_a_text_in_a_chart_has_no_tag_and_reads_as_it_was_written(text):
    told = chart_text(text, 200)
    assert not set(told) & set("<>\n")
    assert html.unescape(told) == " ".join(visible(text).split()) or len(visible(text)) > 200


@given(st.text(max_size=300), st.integers(3, 50))
def test_a_text_that_is_too_long_loses_its_middle(text, most):
    told = shortened(text, most)
    assert len(told) <= most or told == text
    if len(text) > most:
        before, after = told.split("…")[0], told.split("…")[-1]
        assert text.startswith(before)
        assert text.endswith(after)


def test_signs_that_turn_a_text_round_are_written_as_escapes():
    assert visible("a\u202eb\u2066\x07\n") == "a\\u202eb\\u2066\\x07\n"


def test_a_sentence_in_a_chart_is_wrapped_before_it_is_escaped():
    lines = chart_lines("<b>" * 40)
    assert "".join(html.unescape(line) for line in lines) == "<b>" * 40
    assert not any("<" in line or ">" in line for line in lines)


@given(st.text(alphabet="`a \n", max_size=20))
def test_a_name_as_code_never_ends_its_own_fence(name):
    told = code(name)
    fence = re.match("`+", told)[0]
    inside = told[len(fence) : -len(fence)]
    assert told.endswith(fence)
    assert fence not in inside
    assert "\n" not in told
