from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from profiling.measuring.failures import failure
from profiling.wording import one_line


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 3298534883328 bytes."),
            "asked for 3.00 TiB: RuntimeError: DefaultCPUAllocator",
        ),
        (
            RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 5242880 bytes."),
            "asked for 5.00 MiB: RuntimeError: ",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has …"),
            "asked for 20.00 GiB: OutOfMemoryError: CUDA",
        ),
        (MemoryError("Unable to allocate 3.64 TiB for an array"), "asked for 3.64 TiB: MemoryError: "),
        (RuntimeError("Invalid buffer size: 128.00 GiB"), "RuntimeError: Invalid buffer size: 128.00 GiB"),
        (RuntimeError("std::bad_alloc"), "RuntimeError: std::bad_alloc"),
        (OSError(12, "Cannot allocate memory"), "OSError: [Errno 12] Cannot allocate memory"),
        (RuntimeError("Storage size calculation overflowed with sizes=[7]"), "RuntimeError: Storage size"),
        (MemoryError(), "MemoryError: no message"),
    ],
)
def test_every_want_of_memory_is_an_oom_with_the_size_where_it_is_told(error: BaseException, words: str) -> None:
    status, reason = failure(error, is_own=True)
    assert status == "oom"
    assert reason.startswith(words)


@pytest.mark.parametrize("error", [ValueError("memory"), RuntimeError("allocate"), KeyError(7)])
def test_what_is_no_want_of_memory_is_an_error(error: BaseException) -> None:
    assert failure(error, is_own=True)[0] == "error"


def test_an_error_is_told_in_bounded_words_whatever_it_is_called_and_says() -> None:
    kind = type("X" * 10_000, (Exception,), {})
    reason = failure(kind("\n\x1b[2J" * 10_000), is_own=True)[1]
    assert len(reason) < 700
    assert reason.isprintable()


@given(st.text(), st.integers(2, 50))
def test_one_line_is_short_and_printable_and_leaves_what_is_so_already(text: str, width: int) -> None:
    shown = one_line(text, width)
    assert len(shown) <= width
    assert shown.isprintable()
    if text.isprintable() and len(text) <= width and text == " ".join(text.split()):
        assert shown == text


def test_one_line_ends_in_an_ellipsis_where_something_is_missing() -> None:
    assert one_line("abcdefg", 5) == "abcd…"
    assert one_line(" " * 70 + "abc", 5) == "…"
    assert one_line("a\nb\tc", 5) == "a b c"
    assert one_line("\x00\ud800", 20) == "\\x00\\ud800"
