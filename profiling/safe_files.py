"""Writes files so that a power cut, a full disk or a kill leaves each of them whole: as it was, or as it should be."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import psutil

from profiling.runs import RunError

_LEFT_OVER = re.compile(r"\.(?:(?:run|notes)\.json|(?:measurements|samples|report)\.csv)\.(\d{1,9})(?:-\d{1,19})?\.tmp")


def write_aside(path: Path, text: str) -> None:
    """Replaces a file in one step: a reader sees the old or the new one, never half.

    Raises:
        RunError: the file cannot be written, or what stands there is none; the old one stands.
    """
    if not path.name:
        raise RunError(f"{path} cannot be written: it is a folder")
    # Two threads, as two tabs of a page are, write beside each other and not into one another.
    aside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.tmp")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a folder is refused by the system
            raise RunError(f"{path} cannot be written: it is a pipe or a device, and would be gone")
        with aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # a file system that takes no writing takes no tidying up either
            aside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RunError(f"{path} cannot be written: {reason_of(error)}") from error
        raise


def append_whole(path: Path, text_for: Callable[[int], str]) -> int:
    """Appends text and waits until it is on the disk; where it cannot all be kept, what came of it is cut off again.

    Args:
        path: the file; made where it is missing.
        text_for: gives the text, told how many bytes the file holds.

    Returns:
        How many bytes the file holds then.

    Raises:
        OSError: the file cannot be written; it ends as it ended before.
    """
    with path.open("ab", buffering=0) as stream:  # a buffer would try what was lost once more, at the close
        before = os.fstat(stream.fileno()).st_size
        if before == 0:
            sync_folder(path.parent)  # the file's name as well outlasts a power cut
        # What a layer says when it raises may hold what is no text; it must not cost the sweep.
        data = text_for(before).encode("utf-8", errors="backslashreplace")
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(stream.fileno(), left) :]
            os.fsync(stream.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                stream.truncate(before)
            raise
    return before + len(data)


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk, where the file system can be asked to."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_left_over(folder: Path) -> None:
    """Removes what processes that were ended in the middle of `write_aside` have left in a run's folder."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            found = _LEFT_OVER.fullmatch(path.name)
            # One of a process that lives may be an export in this moment; ours is none, for we only begin.
            if found and (int(found[1]) == os.getpid() or not psutil.pid_exists(int(found[1]))):
                path.unlink(missing_ok=True)


def reason_of(error: OSError) -> str:
    """What the system says of an error, without the path, which is told already."""
    return error.strerror or str(error)
