from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.units import format_duration, format_error, format_mib, format_ratio, format_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (2.5, "2.50 s"),
        (0.0123, "12.3 ms"),
        (0.000_456, "456 µs"),
        (7.89e-9, "7.89 ns"),
        (3e-10, "0.3 ns"),
        # Rounding must not add a digit, nor leave a thousand of the smaller unit.
        (0.009_996, "10.0 ms"),
        (0.099_96, "100 ms"),
        (0.999_9, "1.00 s"),
    ],
)
def test_a_time_has_three_digits_and_its_own_unit(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


@given(st.floats(1e-9, 999))
def test_a_time_keeps_its_value_within_half_a_percent(seconds: float) -> None:
    number, unit = format_time(seconds).split()
    size = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    assert float(number) * size == pytest.approx(seconds, rel=0.0051)
    assert len(number.replace(".", "")) == 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (8, "8 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (2699, "44 min"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
        (86_400, "24 h"),
        (172_799, "47 h 59 min"),
        (172_800, "2 days"),
        (700_000, "8 days"),
        (63_072_000, "2 years"),
        (1.4e11, "4,436 years"),
    ],
)
def test_a_wait_is_told_in_two_units_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0.0, "0 MiB"),
        (0.0234375, "24.0 KiB"),
        (1.0, "1.00 MiB"),
        (128.0, "128 MiB"),
        (1536.0, "1.50 GiB"),
        (22_937.6, "22.4 GiB"),
        (1023.9, "1.00 GiB"),
        (3_814_697.3, "3.64 TiB"),
        (1_048_300.0, "1.00 TiB"),
        (5e15, "4,768,371,582 TiB"),
    ],
)
def test_memory_has_binary_units(mib: float, text: str) -> None:
    assert format_mib(mib) == text


def test_ratios_and_errors_are_short() -> None:
    assert format_ratio(1.3249) == "1.32×"
    assert format_ratio(0.0123) == "0.0123×"
    assert format_ratio(412_345.0) == "412,345×"
    assert format_error(0.0) == "0.00e+00"
    assert format_error(1.19e-7) == "1.19e-07"
    assert format_error(math.inf) == "inf"
    assert format_error(math.nan) == "nan"
