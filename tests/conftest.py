"""What all tests share: temporary files and device locks of their own, so that no run outside disturbs or waits.

And what the browser tests share: a server, and a page that must not complain.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

import pytest
from browser_server import CHROMIUM, FLAGS, Server, watch
from hypothesis import settings
from made_up_runs import FakeChild
from playwright.sync_api import BrowserContext, Page

# A background job of a shell inherits an interrupt that is ignored, and so would every process started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A busy machine is no failure.
settings.register_profile("shared machine", deadline=None, max_examples=50)
settings.load_profile("shared machine")


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tmp_path_factory.getbasetemp()  # made in the usual place, before that changes
    # Short: chromium puts a socket there, and a socket's path may hold 108 bytes.
    folder = tempfile.mkdtemp(prefix="mb-")
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"], tempfile.tempdir = folder, folder
    yield folder
    tempfile.tempdir = before[1]
    if before[0] is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before[0]
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeChild]:
    """Sweeps of this test ask a child that measures nothing."""
    FakeChild.reset()
    monkeypatch.setattr("profiling.measurer.MeasuringChild", FakeChild)
    # Without git: quick.
    monkeypatch.setattr("profiling.opening.host_environment", lambda: {"python_version": "3.11.7"})
    return FakeChild


@pytest.fixture
def own_signals() -> Iterator[None]:
    """A sweep in this process takes the signals over; they are given back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the disk: no power is cut in this process, and hundreds of sweeps are gone on with."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, object]:
    return {"executable_path": CHROMIUM, "args": list(FLAGS)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.end()


@pytest.fixture
def watched(context: BrowserContext, server: Server) -> Iterator[Page]:
    """A page that must neither fail, nor complain, nor ask another host for anything."""
    yield from watch(context, server)


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """Keeps what is loaded by now out of every later look at what is alive, as a measuring process does."""
    gc.collect()
    gc.freeze()
