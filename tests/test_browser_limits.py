"""The searches of the tab Limits in a real chromium, with the real engine measuring tiny layers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from browser_server import MAY_SKIP, Server, wait_for, watch
from dashboard_samples import make_run
from playwright.sync_api import BrowserContext, Page, expect

from profiling.run_list import list_runs
from profiling.runs import read_run
from profiling.settings import SweepSettings
from profiling.workload import Grid

pytestmark = [
    pytest.mark.browser,
    pytest.mark.soak,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

GRID = Grid(batch_size=(2,), seq_len=(64, 96), num_heads=(3,), d_model=15, device="cpu", threads=1)
# Seconds: a loaded machine starts ten processes one after the other.
PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def limits_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    settings = SweepSettings(contenders=("custom", "official"), time_budget_s=0.02, quiet_wait_s=0.0)
    make_run(folder / "results" / "r", grid=GRID, settings=settings, num_rounds=7, threads=1)
    running = Server(folder)
    yield running
    running.end()


def record_of(server: Server) -> dict[str, object]:
    """What the newest search has recorded; nothing before there is one."""
    found = sorted(server.results.glob("*-crossover/crossover.json"))
    return dict(json.loads(found[-1].read_text())) if found else {}


def button(page: Page, name: str):
    return page.get_by_role("button", name=name, exact=True)


def opened(page: Page, server: Server) -> Page:
    page.goto(server.url("run=r&tab=Limits"))
    expect(button(page, "Find where it turns")).to_be_visible()
    for label, size in (("From", "64"), ("To", "96")):
        page.get_by_label(label, exact=True).fill(size)
        page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile(r"First 64, 96, each in 5 replicates: ≈"))).to_be_visible()
    return page


def test_a_crossover_is_searched_stopped_searched_again_and_survives_a_new_server(
    context: BrowserContext, limits_server: Server
) -> None:
    server, pages = limits_server, watch(context, limits_server)
    page = opened(next(pages), server)
    before = {run.run_id for run in list_runs(server.results).runs}
    expect(button(page, "Find where it turns")).to_be_enabled()
    button(page, "Find where it turns").click()
    expect(page.get_by_text("Searching")).to_be_visible()
    wait_for(lambda: record_of(server).get("state") == "running", "the record", PATIENCE_S)
    expect(page.get_by_text(re.compile(r"step 1, \d+ of \d+ measured"))).to_be_visible(timeout=PATIENCE_S * 1000)
    # Nothing else is begun beside it.
    expect(button(page, "Try lengths")).to_be_disabled()
    page.get_by_role("button", name="Run sweep").click()
    expect(page.get_by_text("Not started")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Searching")).to_be_visible()
    button(page, "Stop").click()
    wait_for(lambda: record_of(server).get("state") in ("stopped", None), "the stop", PATIENCE_S)
    expect(button(page, "Find where it turns")).to_be_enabled()

    button(page, "Find where it turns").click()
    wait_for(lambda: record_of(server).get("state") == "finished", "the end", PATIENCE_S)
    words = str(dict(record_of(server)["answer"])["words"][0])  # type: ignore[call-overload]  # as JSON has it
    told = page.locator(".stApp")
    expect(told).to_contain_text(words[1:30])
    expect(page.locator(".st-key-chart_crossover .js-plotly-plot")).to_be_visible()
    expect(page.get_by_text(re.compile(r"Measured \d{4}-.* each step a run"))).to_be_visible()
    assert {run.run_id for run in list_runs(server.results).runs} == before, "no step stands among the runs"
    steps = sorted(server.results.glob("*-crossover/step-*"))
    assert all(read_run(step).state in ("finished", "stopped") for step in steps)
    for _ in pages:
        pass
    page.close()  # which would complain that its server is gone

    server.end()
    later = Server(server.results.parent)
    try:
        pages = watch(context, later)
        page = opened(next(pages), later)
        expect(page.locator(".stApp")).to_contain_text(words[1:30])
        expect(page.locator(".st-key-chart_crossover .js-plotly-plot")).to_be_visible()
        for _ in pages:
            pass
    finally:
        later.end()


def test_the_longest_sequence_that_fits_is_searched_and_told(context: BrowserContext, limits_server: Server) -> None:
    server = Server(limits_server.results.parent)
    try:
        pages = watch(context, server)
        page = opened(next(pages), server)
        button(page, "Try lengths").click()
        expect(page.get_by_text("Searching")).to_be_visible()
        expect(page.get_by_text(re.compile(r"[\d,]+ ran \(its call held"))).to_be_visible(timeout=PATIENCE_S * 1000)
        button(page, "Stop").click()
        expect(page.get_by_text("fits at least up to seq_len")).to_be_visible(timeout=PATIENCE_S * 1000)
        expect(page.get_by_text(re.compile(r"Tried \d{4}-.* kept until this server ends"))).to_be_visible()
        for _ in pages:
            pass
    finally:
        server.end()
