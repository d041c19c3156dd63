from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.protocol import MARKER_BYTES, Marker, Running, decode, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_a_message_is_one_line_and_comes_back_as_it_was(message: dict[str, Any]) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == message


def test_an_infinite_error_stays_infinite() -> None:
    assert decode(encode({"error": math.inf}))["error"] == math.inf


@pytest.mark.parametrize("line", [b"", b"\n", b"[1]\n", b"3\n", b"{\n", b"hello\n", b"\xff\n"])
def test_a_line_that_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own words
        decode(line)


def test_what_one_side_says_the_other_reads(tmp_path: Path) -> None:
    writer, reader = Marker(tmp_path / "running"), Marker(tmp_path / "running")
    assert reader.read() == Running("", "")
    writer.write("latency", "custom-fused")
    assert reader.read() == Running("latency", "custom-fused")
    writer.write("check", "x")
    assert reader.read() == Running("check", "x"), "a longer text before must leave nothing"
    writer.close()
    assert reader.read() == Running("check", "x"), "it can be read when the writer is gone"
    reader.close()


def test_a_name_that_is_too_long_is_cut_not_refused(tmp_path: Path) -> None:
    marker = Marker(tmp_path / "running")
    marker.write("latency", "é" * MARKER_BYTES)
    assert marker.read().phase == "latency"
    assert marker.read().contender.startswith("éé")
    marker.close()


def test_how_long_was_waited_is_kept_beside_what_runs_until_it_begins_anew(tmp_path: Path) -> None:
    marker, reader = Marker(tmp_path / "running"), Marker(tmp_path / "running")
    marker.write("warm-up", "custom")
    marker.write_waited(1.25)
    assert reader.read() == Running("warm-up", "custom", 1.25)
    marker.write("latency", "a\tb")
    assert reader.read() == Running("latency", "a\tb", 1.25)
    marker.begin()
    assert reader.read() == Running("request", "", 0.0)
    marker.write("build", "")
    assert reader.read() == Running("build", "", 0.0)


def test_a_marker_read_while_it_is_written_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "running"
    path.write_bytes(b"latency\t1.2latency\t".ljust(MARKER_BYTES))
    assert Marker(path).read() == Running("latency", "", 0.0)
