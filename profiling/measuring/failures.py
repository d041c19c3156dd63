"""What a layer raised, as the status of its row and in words."""

from __future__ import annotations

import torch

from profiling.measuring.contenders.loading import message_of, words_of

_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
_NOT_SUPPORTED = ("not implemented for", "not supported")


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
        return "oom", text[:500]
    is_lacking = isinstance(error, NotImplementedError) or any(sign in text for sign in _NOT_SUPPORTED)
    is_unavailable = is_lacking and not is_own
    return "unavailable" if is_unavailable else "error", words_of(error)
