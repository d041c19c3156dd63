"""A Streamlit server of its own, and the chromium that looks at it: what the browser tests and the figures share."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dashboard_samples import make_run
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

from profiling.workload import Grid

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# Where every browser test must run, one without its browser fails instead of being skipped.
MAY_SKIP = shutil.which("chromium") is None and not os.environ.get("MHA_BENCH_REQUIRE_BROWSER")
PATIENCE_MS = 40_000
# Where a proxy is set, it cannot know this machine's own server.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
TINY = "batch_size=2&num_heads=3&d_model=15&budget=0.02&contenders=custom&quiet_wait=0"
SAMPLE = Grid(batch_size=(2,), seq_len=(16, 32), num_heads=(4, 8), d_model=64, device="cpu")


class Server:
    """A server of its own: results, device locks and port; with layers of one's own registered.

    In a folder where one has been before it finds that one's results. With `locks` it shares the devices of another.
    """

    def __init__(self, folder: Path, layers: Sequence[str] = (), *, locks: Path | None = None) -> None:
        self.results, self.locks = folder / "results", locks or folder
        if not (self.results / "example").exists():
            make_run(self.results / "example", grid=SAMPLE, num_rounds=29)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.host = f"127.0.0.1:{port}"
        self.environment = {**os.environ, "MHA_BENCH_RESULTS": str(self.results), "TMPDIR": str(self.locks)}
        self._log = (folder / "server.log").open("ab")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "streamlit", "run", "dashboard/app.py", f"--server.port={port}", "--"),
                *(word for layer in layers for word in ("--layer", layer)),
            ],
            cwd=ROOT,
            env=self.environment,
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for(self._is_healthy, "the server")

    def url(self, query: str = "") -> str:
        return f"http://{self.host}/?{query}"

    def newest(self) -> Path:
        return max(folder for folder in self.results.iterdir() if folder.name != "example")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(20)
            finally:  # nothing of a test that fails so goes on behind it
                self.process.kill()
        self._log.close()

    def _is_healthy(self) -> bool:
        with contextlib.suppress(OSError):
            return DIRECT.open(f"http://{self.host}/_stcore/health", timeout=1).status == 200
        return False


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        time.sleep(0.1)


def is_complaint(message: ConsoleMessage) -> bool:
    """Whether the page complains; opened by the address of a view, Streamlit looks for its server below it first."""
    is_looking = re.search(r"://[^/]+/\w+/_stcore/(health|host-config)$", message.location["url"])
    return message.type == "error" and not is_looking


def watch(context: BrowserContext, server: Server) -> Iterator[Page]:
    """Yields a page; afterwards it must have neither failed, nor complained, nor asked another host for anything."""
    complaints: list[str] = []
    hosts: set[str] = set()
    context.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
    context.on("request", lambda request: hosts.add(re.sub(r"^\w+://([^/]*).*$", r"\1", request.url)))
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield page
    assert page.get_by_test_id("stException").count() == 0
    assert complaints == []
    assert {host for host in hosts if not host.startswith(("data:", "blob:"))} <= {server.host}


def click_first_mark(page: Page, server: Server) -> None:
    """Opens the example and clicks the first mark of its first panel: heads 4, seq_len 16."""
    page.set_viewport_size({"width": 1440, "height": 1400})  # so that nothing has to be scrolled
    page.goto(server.url("run=example"))
    expect(page.locator(".st-key-check_custom")).to_contain_text("pass")  # and nothing moves any more
    mark = page.locator(".js-plotly-plot .scatterlayer .point").first
    expect(mark).to_be_visible()
    box = mark.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".js-plotly-plot .hoverlayer").first).to_contain_text("seq_len 16")
    page.mouse.down()
    page.mouse.up()
