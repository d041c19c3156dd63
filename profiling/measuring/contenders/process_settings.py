"""What a layer can change of the process that it runs in, for all that runs there after it: seen, and put back.

Working folder, limits, signals and timers, processors and priority. A layer that leaves threads or processes running
changes it as well: those are told, since nothing but the end of the process stops them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from profiling.leftovers import MARK, started_by
from profiling.wording import one_line

if sys.platform != "win32":
    import resource

Settings = dict[str, Any]

_TOLD_LENGTH = 500


class ProcessSpoiled(BaseException):
    """A layer did to its process what cannot be undone: the others are measured in another one."""


def process_settings() -> Settings:
    """The settings now, by name; those that this system has."""
    return {name: value for name, (tell, _) in _settings().items() if (value := tell()) is not None}


def put_back(before: Mapping[str, Any]) -> str:
    """Restores what has changed since; what it was, in words, or nothing.

    Raises:
        ProcessSpoiled: something cannot be restored, such as a limit that only the superuser can raise.
    """
    now, settings = process_settings(), _settings()
    changed = [name for name in before if now.get(name) != before[name]]
    told = one_line(
        ", ".join(f"{name} {_shown(before[name])} -> {_shown(now.get(name))}" for name in changed), _TOLD_LENGTH
    )
    for name in changed:
        # What cannot be set raises, or is still wrong afterwards.
        with contextlib.suppress(OSError, ValueError, TypeError):
            settings[name][1](before[name])
    if any(settings[name][0]() != before[name] for name in changed):
        raise ProcessSpoiled(f"changed its process so that it cannot be put back ({told})")
    return told


def processes_left() -> int:
    """How many processes run that layers have started from this measuring child; 0 outside of one."""
    mark = os.environ.get(MARK)
    return len([pid for pid in started_by(mark, os.getpid()) if pid != os.getpid()]) if mark else 0


def threads_now() -> set[threading.Thread]:
    """Python's threads that run now."""
    return set(threading.enumerate())


def _shown(value: Any) -> str:
    return getattr(value, "__qualname__", None) or str(value)


@functools.cache
def _settings() -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Name → what tells the setting, and what puts it back."""
    found: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {"working folder": (_folder, os.chdir)}
    for number in sorted(signal.valid_signals()):
        found[getattr(number, "name", f"signal {int(number)}")] = (
            partial(signal.getsignal, number),
            partial(signal.signal, number),
        )
    if sys.platform == "win32":
        return found
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"]  # as NOFILE
    for name in limits:
        kind = getattr(resource, name)
        found[name] = (partial(resource.getrlimit, kind), partial(resource.setrlimit, kind))
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):
        kind = getattr(signal, name)
        found[name] = (partial(_is_running, kind), partial(_stop_timer, kind))
    found["blocked signals"] = (_blocked, partial(signal.pthread_sigmask, signal.SIG_SETMASK))
    found["priority"] = (partial(os.getpriority, os.PRIO_PROCESS, 0), partial(os.setpriority, os.PRIO_PROCESS, 0))
    if hasattr(os, "sched_getaffinity"):
        found["processors"] = (partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0))
    return found


def _is_running(timer: int) -> bool:
    return signal.getitimer(timer)[0] > 0


def _stop_timer(timer: int, _: object) -> None:
    signal.setitimer(timer, 0)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _blocked() -> set[int]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])
