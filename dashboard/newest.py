"""Keeps what was read of files that grow: of each the newest alone, however often it grows, and of a few files."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

# What tells a file from a later one of its name; None where there is none.
FileStamp = tuple[int, int, int] | None


def file_stamp(path: Path) -> FileStamp:
    """What changes when a file does, whether it grew, was replaced, or someone edited it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Newest(Generic[T]):
    """What was last made of each of up to `most` things; of more, the one that was longest not asked for goes.

    Several sessions may ask at once: what one reads, the others wait for.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[object, T]] = {}
        self._busy: dict[str, threading.Lock] = {}

    def of(self, name: str, stamp: object, make: Callable[[], T]) -> T:
        """What `make` gave for this name and stamp; it is called again once the stamp is no more equal.

        What `make` raises is raised, and nothing is kept then.
        """
        with self._lock:
            busy = self._busy.setdefault(name, threading.Lock())
        with busy:
            with self._lock:
                known = self._kept.pop(name, None)
                if known is not None and known[0] == stamp:
                    self._kept[name] = known  # behind all others
                    return known[1]
            made = make()  # without the lock: other names need not wait
            with self._lock:
                self._kept[name] = (stamp, made)
                while len(self._kept) > self._most:
                    gone = next(iter(self._kept))
                    del self._kept[gone]
                    self._busy.pop(gone, None)
            return made

    def __contains__(self, name: str) -> bool:
        """Whether something was made of it and is kept, be it of an earlier stamp."""
        with self._lock:
            return name in self._kept

    def __len__(self) -> int:
        return len(self._kept)
