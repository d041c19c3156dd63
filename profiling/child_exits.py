"""How a measuring child ended, as the status of a row and in words."""

from __future__ import annotations

import re
import signal
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from profiling.cgroup_limits import OomKills
from profiling.wording import one_line

LAST_WORDS_LENGTH = 300
# What Python writes when a signal ends it: this line, then the calls, the innermost first.
_DUMP = "Fatal Python error:"
_CALL = re.compile(r'  File "(.+)", line (\d+) in ')
_HERE = Path(__file__).resolve().parents[1]
_NOBODYS = (*(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")), _HERE / "mha", _HERE / "profiling")


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
    """The reason, the line of a layer's file where a signal came, and the last line on standard error, if any."""
    begin = next((number for number, line in enumerate(lines) if _DUMP in line), len(lines))
    # What was written before without a line's end stands before it in the same line.
    said = [*lines[:begin], *(line.partition(_DUMP)[0] for line in lines[begin : begin + 1])]
    calls = lines[begin:]
    place = next((place for line in calls if (place := _place(line))), "")
    reason = f"{reason}, at {place}" if place else reason
    last_words = next((words for line in reversed(said) if (words := one_line(line, LAST_WORDS_LENGTH))), "")
    return f"{reason}; its last words: {last_words}" if last_words else reason


def _place(line: str) -> str:
    """`my_attention.py, line 12` for a call in a file that is neither Python's, nor a package's, nor ours."""
    call = _CALL.match(line)
    if call is None or any(Path(call[1]).is_relative_to(folder) for folder in _NOBODYS) or call[1].startswith("<"):
        return ""
    return one_line(f"{Path(call[1]).name}, line {call[2]}", LAST_WORDS_LENGTH)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
