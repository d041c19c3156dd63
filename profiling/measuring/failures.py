"""What a layer raised, as the status of its row and in words."""

from __future__ import annotations

import re

import torch

from profiling.costs import MIB
from profiling.measuring.contenders.loading import message_of, words_of
from profiling.units import format_mib

# Torch's own words on the CPU and on accelerators, those of the C++ and of the C library, and Python's where the file
# of a layer could not be loaded.
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Cannot allocate memory",
    "Invalid buffer size",
    "Storage size calculation overflowed",
    "std::bad_alloc",
    "MemoryError:",
)
# `you tried to allocate 4398046511104 bytes`; accelerators say `Tried to allocate 20.00 GiB`, numpy `Unable to …`.
_BYTES_ASKED_FOR = re.compile(r"tried to allocate (\d+) bytes", re.IGNORECASE)
_SIZE_ASKED_FOR = re.compile(r"(?:tried|unable) to allocate ([\d.]+ [KMGTPE]iB)", re.IGNORECASE)
_NOT_SUPPORTED = ("not implemented for", "not supported", "doesn't support")


class Unavailable(Exception):
    """What torch or this machine does not offer; the message is a sentence for the row."""


def failure(error: BaseException, *, is_own: bool = False) -> tuple[str, str]:
    """The row status and the words for what a layer raised.

    Args:
        error: what was raised.
        is_own: whether a layer of one's own raised it: what that one does not support is a fault of its code, not
            something that torch or the device lacks.
    """
    if isinstance(error, Unavailable):
        return "unavailable", str(error)
    text = message_of(error) or "no message"
    # On the CPU, being out of memory is a plain RuntimeError.
    is_oom = isinstance(error, MemoryError | torch.OutOfMemoryError) or any(sign in text for sign in _OUT_OF_MEMORY)
    if is_oom:
        return "oom", _with_size(words_of(error), text)
    is_lacking = isinstance(error, NotImplementedError) or any(sign in text for sign in _NOT_SUPPORTED)
    is_unavailable = is_lacking and not is_own
    return "unavailable" if is_unavailable else "error", words_of(error)


def asked_mib(error: BaseException) -> float | None:
    """What an allocation that was refused asked for; None where the error does not tell."""
    text = message_of(error) or ""
    if found := _BYTES_ASKED_FOR.search(text):
        return int(found[1]) / MIB
    if found := _SIZE_ASKED_FOR.search(text):
        size, unit = found[1].split()
        return float(size) * 1024.0 ** ("KMGTPE".index(unit[0].upper()) - 1)
    return None


def _with_size(words: str, text: str) -> str:
    """What was raised, after the size that was asked for, where it is told, as a person reads it."""
    if found := _BYTES_ASKED_FOR.search(text):
        return f"asked for {format_mib(int(found[1]) / MIB)}: {words}"
    if found := _SIZE_ASKED_FOR.search(text):
        return f"asked for {found[1]}: {words}"
    return words
