"""Other people's things in a few words: a dtype, an exception."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

OURS = Path(__file__).resolve().parents[1]

MAX_WORDS = 300  # of a message from someone else's code


def words(error: BaseException) -> str:
    """What someone else's exception says, in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own __str__ raises
        text = ""
    text = text if len(text) <= MAX_WORDS else text[:MAX_WORDS] + " ..."
    place = _place(error)
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__) + (f" ({place})" if place else "")


def _place(error: BaseException) -> str:
    """The last line of someone's own file, neither torch's nor ours, that the exception came through."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if OURS not in path.parents and "site-packages" not in path.parts and path.suffix == ".py" and path.exists():
            found = f"{path.name}, line {frame.lineno}"
    return found


def short(dtype: torch.dtype) -> str:
    """The dtype's name without ``torch.``."""
    return str(dtype).replace("torch.", "")
