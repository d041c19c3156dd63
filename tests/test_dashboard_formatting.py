import math

import pytest

from dashboard import formatting as f


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
