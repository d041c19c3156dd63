"""Compare and the names of runs in a real chromium: runs chosen, one that grows, two tabs, a read-only folder."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from browser_server import MAY_SKIP, PATIENCE_MS, Server, wait_for, watch
from compared_runs import planted_run
from playwright.sync_api import Page, expect
from real_faults import small_disk

from profiling.run_names import Notes, read_notes
from profiling.run_notes import name_run
from profiling.runs import MEASUREMENTS_FILE, RUN_FILE, Progress, read_run
from profiling.safe_files import write_aside
from profiling.table import write_report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

BASE, NEW = "20260301-190811-aa01", "20260302-190811-aa02"


def plant(folder: Path, **how: Any) -> Path:
    """A run in the place of the one that an earlier test has left there."""
    shutil.rmtree(folder, ignore_errors=True)
    return planted_run(folder, **how)


@pytest.fixture
def pair(server):
    """In NEW custom takes 1.3 times as long at the first point, and is lost at the second."""
    plant(server.results / BASE, started_at="2026-03-01T19:08:11+00:00")
    plant(
        server.results / NEW,
        slowdown=1.3,
        seed=9,
        lost={("custom", 2): "oom"},
        started_at="2026-03-02T19:08:11+00:00",
    )
    return server


def compare_url(server: Server, query: str = "") -> str:
    return f"http://{server.host}/compare?{query}"


def told(page: Page):
    return page.get_by_test_id("stAlert")


def choose(page: Page, side: str, option: str) -> None:
    page.get_by_role("combobox", name=re.compile(side)).click()
    page.get_by_role("option", name=re.compile(option)).click()


@pytest.mark.soak
def test_two_runs_are_chosen_compared_and_a_mark_leads_to_the_samples(watched, pair):
    watched.set_viewport_size({"width": 1440, "height": 2000})  # so that nothing has to be scrolled
    watched.goto(compare_url(pair))
    choose(watched, "what was before", "aa01$")
    choose(watched, "what is now", "aa02$")
    expect(told(watched).first).to_contain_text("REGRESSION in 2 of 4 rows, 1 of which worked in BASE")
    expect(told(watched).first).to_contain_text(
        "Broken: custom worked in BASE at 1 shape and no longer does: lost: oom"
    )
    expect(watched).to_have_url(re.compile(rf"base={BASE}&new={NEW}"))
    mark = watched.locator(".js-plotly-plot .scatterlayer .point").first
    expect(mark).to_be_visible()
    box = mark.bounding_box()
    watched.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    link = watched.get_by_role("link", name="Its samples, operators and command in NEW")
    link.click()
    expect(watched.get_by_role("tab", name="Samples")).to_have_attribute("aria-selected", "true")
    expect(watched).to_have_url(re.compile(rf"run={NEW}.*sample_seq_len=5\b"))


def test_a_run_that_grows_is_followed_while_it_is_compared(watched, server):
    plant(server.results / BASE, started_at="2026-03-01T19:08:11+00:00")
    me = psutil.Process()
    folder = planted_run(
        server.results / "growing",
        slowdown=1.3,
        seed=9,
        state="running",
        pid=me.pid,
        process_started=me.create_time(),
        progress=Progress(done=5, total=12, replicate=3),
        started_at="2026-03-03T19:08:11+00:00",
    )
    file = folder / MEASUREMENTS_FILE
    rows = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(rows[:9]), encoding="utf-8")  # two replicates
    watched.goto(compare_url(server, f"base={BASE}&new=growing"))
    page = watched.locator(".stApp")
    expect(page).to_contain_text("NEW is still being measured: 5 of 12 points, 5 replicates together.")
    expect(page).to_contain_text("2 provisional")
    run = dataclasses.replace(read_run(folder), progress=Progress(done=10, total=12, replicate=5))
    file.write_text("".join(rows), encoding="utf-8")
    write_aside(folder / RUN_FILE, json.dumps(run.to_dict()))
    expect(page).to_contain_text("10 of 12 points")  # nobody touched it
    expect(page).to_contain_text("REGRESSION in 2 of 4 rows")
    write_aside(folder / RUN_FILE, json.dumps(dataclasses.replace(run, state="finished").to_dict()))
    expect(page).not_to_contain_text("still being measured")


@pytest.mark.soak
def test_a_baseline_file_from_elsewhere_is_compared_in_place_of_a_run(watched, pair, tmp_path):
    report = write_report(planted_run(tmp_path / "elsewhere"), tmp_path / "baseline.csv")
    watched.goto(compare_url(pair, f"base={NEW}&new={NEW}"))
    expect(watched.locator(".stApp")).to_contain_text("BASE and NEW are the same run")
    watched.get_by_role("button", name="A baseline file instead").click()
    watched.locator("input[type=file]").set_input_files(report)
    expect(told(watched).first).to_contain_text("REGRESSION in 2 of 4 rows")
    expect(watched.locator(".stApp")).to_contain_text("BASE is the file baseline.csv")


@pytest.mark.soak
def test_a_run_of_an_earlier_version_is_compared_and_one_of_a_later_is_told(watched, pair):
    file = pair.results / BASE / RUN_FILE
    stored = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(stored | {"schema_version": 1}), encoding="utf-8")
    watched.goto(compare_url(pair, f"base={BASE}&new={NEW}"))
    expect(told(watched).first).to_contain_text("REGRESSION in 2 of 4 rows")
    file.write_text(json.dumps(stored | {"schema_version": 99}), encoding="utf-8")
    watched.reload()
    expect(watched.locator(".stApp")).to_contain_text("a later version of this program")


def open_run(page: Page, server: Server, run_id: str) -> None:
    page.goto(server.url(f"run={run_id}"))
    page.get_by_test_id("stPopover").filter(has_text="This run").get_by_role("button").click()
    expect(page.get_by_role("textbox", name="Name")).to_be_visible()


@pytest.mark.soak
def test_a_run_is_named_in_one_tab_noted_in_another_and_deleted_once_its_id_is_typed(watched, pair):
    second = watched.context.new_page()
    second.set_default_timeout(PATIENCE_MS)
    for page in (watched, second):
        open_run(page, pair, NEW)
    watched.get_by_role("textbox", name="Name").fill("the rewrite")
    second.get_by_role("textbox", name="Note").fill("on a busy day")
    for page in (watched, second):
        page.get_by_role("button", name="Save").click(no_wait_after=True)
    wait_for(lambda: read_notes(pair.results / NEW) == Notes("the rewrite", "on a busy day"), "name and note")
    second.close()
    open_run(watched, pair, NEW)
    expect(watched.get_by_role("textbox", name="Name")).to_have_value("the rewrite")
    typed = watched.get_by_placeholder("its id")
    typed.fill("the rewrite")
    watched.get_by_role("button", name="Delete for good").click()
    expect(watched.locator(".stApp")).to_contain_text("is not deleted: what was typed is not its id")
    assert (pair.results / NEW).is_dir()
    open_run(watched, pair, NEW)
    watched.get_by_placeholder("its id").fill(NEW)
    watched.get_by_role("button", name="Delete for good").click()
    expect(watched.locator(".stApp")).to_contain_text(f"Run {NEW} is deleted.")
    assert not (pair.results / NEW).exists()


@pytest.mark.soak
def test_a_folder_that_cannot_be_written_can_be_looked_at_and_what_was_not_kept_is_told(context, tmp_path):
    with small_disk(tmp_path / "results", "16m") as results:
        for run_id, day in ((BASE, 1), (NEW, 2)):
            planted_run(results / run_id, started_at=f"2026-03-0{day}T19:08:11+00:00")
        name_run(results / BASE, "kept")
        server = Server(tmp_path)
        try:
            subprocess.run(["mount", "-o", "remount,ro", results], check=True)
            for page in watch(context, server):
                page.goto(compare_url(server, f"base=kept&new={NEW}"))
                expect(told(page).first).to_contain_text("OK: no regression")
                open_run(page, server, NEW)
                page.get_by_role("textbox", name="Name").fill("never kept")
                page.get_by_role("button", name="Save").click()
                expect(page.locator(".stApp")).to_contain_text(re.compile("Not saved: .*Read-only file system"))
        finally:
            server.end()
