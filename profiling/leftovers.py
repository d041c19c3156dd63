"""What a measuring child has started, threads apart: found, and ended with it, also where nobody else is left to do so.

A child leads a process group, and its environment holds a mark of its own, which whatever it starts inherits: so a
process that has fled into a group or a session of its own is found as well. On Linux only, and only as long as it keeps
its environment; elsewhere the group is all that can be ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# Its value is the child's temporary folder, which no other child has.
MARK = "MHA_BENCH_CHILD"
FOLDER_PREFIX = "mha-bench-child-"
PROCESSES = Path("/proc")
# A process that is told to end is gone within milliseconds, unless it waits for a disk.
PATIENCE_S = 2.0
_ROOT = Path(__file__).resolve().parents[1]
_WATCH = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from profiling.leftovers import main; main()"


def started_by(mark: str, group: int) -> list[int]:
    """The processes of a child's group, and those with its mark, that have not ended; none where Linux is not there."""
    return [pid for pid in _process_ids() if _is_of(pid, mark, group)]


def end_started(mark: str, group: int) -> None:
    """Ends a child's group and all that carries its mark, but for the caller, and waits until they are gone.

    Args:
        mark: the child's mark.
        group: the child's process id.
    """
    if os.name != "posix":
        return
    if os.getpgid(0) != group:
        _kill_group(group)  # all at once: none can start another meanwhile
    give_up = time.monotonic() + PATIENCE_S
    while found := [pid for pid in started_by(mark, group) if pid != os.getpid()]:
        for pid in found:
            with contextlib.suppress(OSError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > give_up:
            return
        time.sleep(0.005)


def remove_folder(folder: Path) -> None:
    """Removes a child's temporary folder with all that was put there; no other folder."""
    if folder.name.startswith(FOLDER_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def start_watcher(folder: str, child: int) -> subprocess.Popen[bytes] | None:
    """A small process that does so for a child whose asker is gone; it is to be killed where it is not needed any more.

    None where there are no process groups.
    """
    if os.name != "posix":
        return None
    return subprocess.Popen(
        # Without what is installed: it starts in milliseconds and stays small.
        [sys.executable, "-I", "-S", "-c", _WATCH, folder, str(child)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends the asker's group is not to end it too
        cwd="/",
    )


def watch_over(folder: str, child: int) -> None:
    """Waits until standard input ends, as it does however the asker dies; then ends the child and tidies up.

    The child notices that its asker is gone, and ends, by itself; but not while a layer keeps it in a loop that never
    comes back to Python, and it cannot tidy up after a death of its own.
    """
    while os.read(0, 4096):
        pass
    end_started(folder, child)
    remove_folder(Path(folder))


def _process_ids() -> Iterator[int]:
    try:
        names = os.listdir(PROCESSES)
    except OSError:
        return
    yield from (int(name) for name in names if name.isdecimal())


def _is_of(pid: int, mark: str, group: int) -> bool:
    try:
        # After the name, which is in brackets and may hold anything: state, parent, group.
        state, _, its_group = (PROCESSES / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        if state in (b"Z", b"X"):
            return False
        return int(its_group) == group or _has_mark(pid, mark)
    except (OSError, ValueError):  # it has ended meanwhile
        return False


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in (PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # another person's
        return False


def _kill_group(group: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    """Watches over the child that the arguments name: its folder and its process id."""
    watch_over(sys.argv[1], int(sys.argv[2]))
