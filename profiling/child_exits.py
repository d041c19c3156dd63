"""How a measuring child ended, as the status of a row and in words."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from profiling.cgroup_limits import OomKills
from profiling.wording import one_line

LAST_WORDS_LENGTH = 300


def explain_exit(code: int, *, before: OomKills, after: OomKills) -> tuple[str, str]:
    """The row status and the words for a child that ended with this exit status before it answered.

    Args:
        code: its exit status; below 0 for a signal.
        before: whom the kernel had ended for want of memory when the child was asked.
        after: the same when the child had ended.
    """
    if code == -signal.SIGKILL and after.count > before.count:
        # The machine's count may have risen for another process, in the same moment as a kill from outside.
        surely = "" if after.is_of_group else "probably "
        return "oom", f"{surely}ended by the kernel's out-of-memory killer"
    if code < 0:
        return "crashed", f"ended by signal {-code} ({_signal_name(-code)})"
    if code == 0:
        return "crashed", "ended without an answer, though with exit status 0"
    return "crashed", f"ended with exit status {code}"


def with_last_words(reason: str, lines: Sequence[str]) -> str:
    """The reason, and the last line that the child wrote to standard error, if any."""
    last_words = next((words for line in reversed(lines) if (words := one_line(line, LAST_WORDS_LENGTH))), "")
    return f"{reason}; its last words: {last_words}" if last_words else reason


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
