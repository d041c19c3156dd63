"""The page beside what else there is: a command line, a second server on the same device, and another site's page."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from browser_server import MAY_SKIP, PATIENCE_MS, ROOT, TINY, Server, wait_for, watch
from playwright.sync_api import Page, expect

from profiling.runs import read_run
from profiling.table import load_measurements

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

LENGTHS = ",".join(str(length) for length in range(5, 25))
# Seconds per contender: long enough that a page, which looks every five seconds, sees a sweep of twenty points.
BUDGET = "0.3"
SWEEP = (
    *("sweep", "--batch-size", "2", "--num-heads", "3", "--d-model", "15", "--seq-len", LENGTHS),
    *("--time-budget", BUDGET, "--contenders", "custom", "--quiet-wait", "0"),
)
UP_TO_40 = ",".join(str(length) for length in range(5, 41))
LONG = f"{TINY.replace('budget=0.02', f'budget={BUDGET}')}&seq_len={UP_TO_40}"


@contextlib.contextmanager
def command_line(server: Server, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command beside a server, with its results and its devices."""
    with subprocess.Popen(
        [sys.executable, "-m", "profiling", *words],
        cwd=ROOT,
        env=server.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def run_button(page: Page):
    return page.get_by_role("button", name="Run sweep")


def wait_until_free(page: Page) -> None:
    expect(page.get_by_test_id("stProgress")).to_be_hidden()
    expect(run_button(page)).to_be_enabled()


def begin(page: Page, server: Server) -> Path:
    """Has the page start its sweep, and waits for the first row; the run's folder."""
    run_button(page).click()
    expect(page.get_by_test_id("stProgress")).to_contain_text(re.compile(r"Point \d+ of 36"))
    expect(page).to_have_url(re.compile(r"run=20[\w-]+"))
    folder = server.results / re.search(r"run=(20[\w-]+)", page.url)[1]
    wait_for(lambda: read_run(folder).progress.done >= 1, "the first row")
    return folder


def stop(page: Page) -> None:
    page.locator(".st-key-stop").get_by_role("button").click()
    wait_until_free(page)


@pytest.mark.soak
def test_a_sweep_of_the_command_line_is_told_on_the_page_and_the_page_s_sweep_on_the_command_line(watched, server):
    folder = server.results / "typed"
    watched.goto(server.url(f"{LONG}&run=example"))
    wait_until_free(watched)
    with command_line(server, *SWEEP, "--out", str(folder)) as typed:
        expect(watched.get_by_text(re.compile(r"Busy since .*\d+/20: run typed"))).to_be_visible()  # nobody touched it
        expect(run_button(watched)).to_be_disabled()
        expect(watched.get_by_role("button", name="Resume")).to_be_hidden()
        _, said = typed.communicate(timeout=120)
        assert (typed.returncode, said) == (0, "")
    wait_until_free(watched)
    assert read_run(folder).state == "finished"
    assert sorted(load_measurements(folder).groupby("point").size()) == [2] * 20

    measured = begin(watched, server)
    with command_line(server, *SWEEP, "--out", str(server.results / "refused")) as refused:
        _, said = refused.communicate(timeout=60)
    pid = read_run(measured).pid
    assert re.fullmatch(
        rf"error: cpu is busy since 20\d\d-[\d:T+-]+ with sweep {measured.name} \(process {pid}\)\n", said
    )
    assert refused.returncode == 1
    assert not (server.results / "refused").exists()
    stop(watched)
    assert read_run(measured).state == "stopped"


@pytest.mark.soak
def test_a_second_server_on_the_device_is_told_who_measures_and_since_when_until_that_has_ended(
    watched, server, new_context, tmp_path
):
    watched.goto(server.url(f"{LONG}&run=example"))
    wait_until_free(watched)
    others = Server(tmp_path, locks=server.locks)
    try:
        for other in watch(new_context(), others):
            other.goto(others.url(f"{TINY}&seq_len=7"))
            wait_until_free(other)
            first = read_run(begin(watched, server))
            run_button(other).click()
            refusal = rf"Not started: cpu is busy since .*\d\d:\d\d.*, \d+/36, with sweep {first.run_id} "
            told = other.get_by_text(re.compile(refusal + rf"\(process {first.pid}\)"))
            expect(told).to_be_visible()
            assert [path.name for path in others.results.iterdir()] == ["example"]
            stop(watched)
            expect(told).to_be_hidden()  # nobody touched that page
            run_button(other).click()
            expect(told).to_be_hidden()
            wait_for(lambda: len(list(others.results.glob("20*/run.json"))) == 1, "the other's run")
            wait_for(lambda: read_run(others.newest()).state == "finished", "its end", 60)
            wait_until_free(other)
    finally:
        others.end()


# -- another machine, and another site's page in this machine's browser -----------------------------------------------


def answer(server: Server, path: str, **headers: str) -> http.client.HTTPResponse:
    """What a request with those headers is answered, its body unread; `_` stands for `-`."""
    port = int(server.host.rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_MS / 1000)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse()
    finally:
        connection.close()


def handshake(server: Server, **headers: str) -> int:
    """The status with which the page's own channel is opened, or refused."""
    return answer(
        server,
        "/_stcore/stream",
        Connection="Upgrade",
        Upgrade="websocket",
        Sec_WebSocket_Version="13",
        Sec_WebSocket_Key=base64.b64encode(os.urandom(16)).decode(),
        **headers,
    ).status


def test_a_server_listens_on_the_loopback_address_only(server):
    root = psutil.Process(server.process.pid)
    listening = [
        connection.laddr
        for process in (root, *root.children(recursive=True))
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert [f"{address.ip}:{address.port}" for address in listening] == [server.host]


NAMES = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.0.2.7", "[2001:db8::7]")


def test_the_page_s_own_address_is_let_in(server):
    assert handshake(server, Host=server.host, Origin=f"http://{server.host}") == 101
    port = server.host.rpartition(":")[2]
    assert handshake(server, Host=f"localhost:{port}", Origin=f"http://localhost:{port}") == 101


@pytest.mark.parametrize("name", NAMES)
def test_a_site_under_another_name_is_refused_also_one_that_points_its_name_here(server, name):
    port = server.host.rpartition(":")[2]
    assert handshake(server, Host=f"{name}:{port}", Origin=f"http://{name}:{port}") == 403
    assert handshake(server, Host=f"{name}:{port}") == 403
    assert handshake(server, Host=server.host, Origin=f"http://{name}:{port}") == 403
    assert handshake(server, Host=server.host, Origin=f"https://{name}") == 403
    assert handshake(server, Host=server.host, Origin="null") == 403  # a sandboxed frame, or a file


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", ["/", "/_stcore/host-config", "/_stcore/health", "/media/any.csv"])
def test_no_other_site_may_read_what_is_answered_outside_of_that_channel(server, path, name):
    allowed = answer(server, path, Host=server.host, Origin=f"http://{name}").getheader("Access-Control-Allow-Origin")
    assert allowed is None
