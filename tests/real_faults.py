"""Faults that take root or a kernel feature: small disks, control groups with little memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest
from made_up_runs import FakeChild

# Where each fault must be had, a test that cannot have its own fails instead of being skipped. Only root on Linux can
# be asked for that.
MUST_HAVE = sys.platform == "linux" and os.geteuid() == 0 and bool(os.environ.get("MHA_BENCH_REQUIRE_FAULTS"))


def do_without(reason: str) -> NoReturn:
    """Skips the test, or fails it where each fault must be had."""
    if MUST_HAVE:
        pytest.fail(f"MHA_BENCH_REQUIRE_FAULTS is set, and {reason}")
    pytest.skip(reason)


def wait_until(is_so: Callable[[], object], limit_s: float = 30.0) -> bool:
    give_up = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def grandchildren() -> list[psutil.Process]:
    """What layers of these tests have started: found by what it runs, without what the package keeps of it."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if "mha-bench grandchild" in (process.info["cmdline"] or []):
            with contextlib.suppress(psutil.Error):
                if process.environ().get("TMPDIR", "").startswith(os.environ["TMPDIR"]):
                    found.append(process)
    return found


class Talkative(FakeChild):
    """Answers with thousands of raw times, which fill a small disk."""

    def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
        answer = super().ask(request, limit_s=limit_s)
        if "samples_s" in answer:
            answer["samples_s"] = {name: [0.002] * 2000 for name in answer["samples_s"]}
        return answer


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, with that much room."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False)
    if mounted.returncode != 0:
        do_without("no file system can be mounted here: the twins of this test run without")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def make_memory_group(limit_mib: int) -> Iterator[Path]:
    """A control group with a limit, in whichever version is here; skips where none can be made."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root) / f"mha-bench-test-{os.getpid()}"
        try:
            if not (Path(root) / "cgroup.procs").exists():
                continue
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(limit_mib * 2**20))
            with contextlib.suppress(OSError):  # without swap there is nothing to limit
                (group / "memory.swap.max").write_text("0")
        except OSError:
            group.rmdir()
            continue
        yield group
        wait_until(lambda group=group: not (group / "cgroup.procs").read_text(), 10)
        group.rmdir()
        return
    do_without("no memory control group can be made here; the twin of this test runs everywhere")


def join_group(group: Path) -> Callable[[], None]:
    """What a process runs before its program, to be one of a control group."""
    return lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None
