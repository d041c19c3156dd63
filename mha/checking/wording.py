"""Other people's things in a few words: a dtype, an exception."""

from __future__ import annotations

import torch

MAX_WORDS = 300  # of a message from someone else's code


def words(error: BaseException) -> str:
    """What someone else's exception says, in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own __str__ raises
        text = ""
    text = text if len(text) <= MAX_WORDS else text[:MAX_WORDS] + " ..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def short(dtype: torch.dtype) -> str:
    """The dtype's name without ``torch.``."""
    return str(dtype).replace("torch.", "")
