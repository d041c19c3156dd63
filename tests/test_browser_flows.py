"""The page in a real chromium, with the real engine measuring tiny layers."""

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
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from dashboard_samples import make_run
from playwright.sync_api import Page, expect

from profiling.runs import read_run
from profiling.table import load_run, report_csv
from profiling.workload import Grid

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium"),
]

ROOT = Path(__file__).resolve().parent.parent
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
TINY = "batch_size=2&num_heads=3&d_model=15&budget=0.02&contenders=custom"
SHORT = f"{TINY}&seq_len=5,7"
LONG = f"{TINY}&seq_len=" + ",".join(str(length) for length in range(5, 45))
PATIENCE_MS = 40_000
SAMPLE = Grid(batch_size=(2,), seq_len=(16, 32), num_heads=(4, 8), d_model=64, device="cpu")


class Server:
    """A server of its own: results, device locks and port."""

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results"
        make_run(self.results / "example", grid=SAMPLE)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.host = f"127.0.0.1:{port}"
        environment = {**os.environ, "MHA_BENCH_RESULTS": str(self.results), "TMPDIR": str(folder)}
        self._log = (folder / "server.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", f"--server.port={port}"],
            cwd=ROOT,
            env=environment,
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
            self.process.wait(20)
        self._log.close()

    def _is_healthy(self) -> bool:
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://{self.host}/_stcore/health", timeout=1).status == 200
        return False


def wait_for(is_so, what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def browser_type_launch_args():
    return {"executable_path": "/usr/bin/chromium", "args": list(FLAGS)}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.end()


@pytest.fixture
def watched(context, server) -> Iterator[Page]:
    """A page that must neither fail, nor complain, nor ask another host for anything."""
    yield from _watch(context, server)


def _watch(context, server: Server) -> Iterator[Page]:
    complaints: list[str] = []
    hosts: set[str] = set()
    context.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    context.on("request", lambda request: hosts.add(re.sub(r"^\w+://([^/]*).*$", r"\1", request.url)))
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield page
    assert page.get_by_test_id("stException").count() == 0
    assert complaints == []
    assert {host for host in hosts if not host.startswith(("data:", "blob:"))} <= {server.host}


def run_button(page: Page):
    return page.get_by_role("button", name="Run sweep")


def progress(page: Page):
    return page.get_by_test_id("stProgress")


def wait_until_free(page: Page) -> None:
    expect(run_button(page)).to_be_enabled()


def wait_for_point(page: Page) -> None:
    expect(progress(page)).to_contain_text(re.compile(r"Point \d+ of 40"))


def stop(page: Page) -> None:
    page.locator(".st-key-stop").get_by_role("button").click()
    wait_until_free(page)


def test_first_look_shows_a_run_and_the_live_check(watched, server):
    started = time.monotonic()
    watched.goto(server.url())
    expect(watched.locator(".js-plotly-plot").first).to_be_visible()
    drawn = time.monotonic() - started
    expect(watched.locator(".st-key-check_custom")).to_contain_text("pass")
    expect(watched.locator(".st-key-check_custom-fused")).to_contain_text(re.compile(r"max error \d\.\d\de[+-]\d\d"))
    checked = time.monotonic() - started
    expect(watched.locator(".stApp")).to_contain_text("2 threads" if os.cpu_count() == 2 else "thread")
    assert drawn < 12, drawn  # 4 s on a machine that does nothing else
    assert checked < 30, checked  # 8 s there


def test_a_sweep_runs_to_its_end_and_its_csv_equals_the_table(watched, server):
    watched.goto(server.url(SHORT))
    wait_until_free(watched)
    watched.locator("body").press("Control+Enter")
    expect(progress(watched)).to_be_visible()
    expect(progress(watched)).to_be_hidden()
    wait_until_free(watched)
    folder = server.newest()
    run = read_run(folder)
    assert (run.state, run.progress.done) == ("finished", 2)
    assert f"run={folder.name}" in watched.url
    expect(watched.locator(".st-key-headline_custom")).to_contain_text("mean over 2 shapes")
    with watched.expect_download() as download:
        watched.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == f"mha-bench-{folder.name}.csv"
    assert download.value.path().read_bytes() == report_csv(load_run(folder)).encode()
    assert download.value.path().read_bytes() == (folder / "report.csv").read_bytes()


def test_a_refresh_and_a_second_tab_lose_nothing_and_stop_keeps_what_is_measured(watched, server):
    watched.goto(server.url(LONG))
    wait_until_free(watched)
    run_button(watched).click()
    wait_for_point(watched)
    folder = server.newest()
    watched.reload()
    wait_for_point(watched)
    expect(run_button(watched)).to_be_disabled()
    second = watched.context.new_page()
    second.set_default_timeout(PATIENCE_MS)
    second.goto(server.url())
    wait_for_point(second)
    expect(run_button(second)).to_be_disabled()
    wait_for(lambda: read_run(folder).progress.done >= 2, "the second point")
    expect(second.locator(".js-plotly-plot").first).to_be_visible()
    expect(second.get_by_text("its rows are checked as they come")).to_be_visible()
    stop(second)
    second.close()
    run = read_run(folder)
    assert run.state == "stopped"
    assert len(load_run(folder)) >= 4
    expect(watched.get_by_text("Stopped").first).to_be_visible()
    watched.get_by_role("button", name="Resume").click()
    wait_for_point(watched)
    wait_for(lambda: read_run(folder).progress.done > run.progress.done, "a further point")
    stop(watched)


def test_a_killed_server_leaves_no_process_and_a_run_that_can_be_resumed(context, tmp_path):
    own = Server(tmp_path)
    try:
        for page in _watch(context, own):
            page.goto(own.url(LONG))
            wait_until_free(page)
            run_button(page).click()
            wait_for_point(page)
            page.close()
            break
        children = psutil.Process(own.process.pid).children(recursive=True)
        assert children
        sweep = read_run(own.newest()).pid
        assert sweep in {child.pid for child in children}
    finally:
        own.end(signal.SIGKILL)
    wait_for(lambda: not any(is_running(child) for child in children), "the end of all its processes")
    assert read_run(own.newest()).state == "stopped"


def is_running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_a_link_restores_the_page(watched, server):
    watched.goto(server.url("batch_size=3&seq_len=7,9&tab=Memory&x=heads&log_y=false&run=example"))
    expect(watched.get_by_role("textbox", name="Sequence lengths")).to_have_value("7,9")
    expect(watched.get_by_role("tab", name="Memory")).to_have_attribute("aria-selected", "true")
    expect(watched.locator(".js-plotly-plot").first).to_contain_text("peak memory")
    watched.get_by_role("textbox", name="Sequence lengths").fill("11")
    watched.get_by_role("textbox", name="Sequence lengths").press("Enter")
    expect(watched).to_have_url(re.compile(r"seq_len=11\b"))
    assert "run=example" in watched.url
    assert "x=heads" in watched.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_narrow_screen_nothing_is_cut_off(watched, server, scheme):
    watched.emulate_media(color_scheme=scheme)
    watched.set_viewport_size({"width": 390, "height": 844})
    watched.goto(server.url("run=example"))
    expect(watched.locator(".js-plotly-plot").first).to_be_visible()
    expect(run_button(watched)).to_be_visible()
    assert watched.evaluate("document.documentElement.scrollWidth") <= 390
    background = watched.locator(".stApp").evaluate("element => getComputedStyle(element).backgroundColor")
    brightness = sum(int(part) for part in re.findall(r"\d+", background)[:3]) / 3
    assert (brightness < 100) == (scheme == "dark")
