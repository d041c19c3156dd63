"""The page in a real chromium, with the real engine measuring tiny layers."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile

import psutil
import pytest
from browser_server import MAY_SKIP, PATIENCE_MS, TINY, Server, click_first_mark, wait_for, watch
from playwright.sync_api import Page, expect

from profiling.device_lock import owner
from profiling.runs import read_run
from profiling.table import load_measurements, load_run, report_csv

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

SHORT = f"{TINY}&seq_len=5,7"
# Each point lasts: a server that is asked to end closes its connections first, and must find the run unfinished.
TWELVE = f"{TINY.replace('budget=0.02', 'budget=0.1')}&seq_len=" + ",".join(str(length) for length in range(5, 17))
LONG = f"{TINY}&seq_len=" + ",".join(str(length) for length in range(5, 45))


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
    watched.goto(server.url())
    expect(watched.locator(".js-plotly-plot").first).to_be_visible()
    expect(watched.locator(".st-key-check_custom")).to_contain_text("pass")
    expect(watched.locator(".st-key-check_custom-fused")).to_contain_text(re.compile(r"max error \d\.\d\de[+-]\d\d"))
    expect(watched.locator(".stApp")).to_contain_text("2 threads" if os.cpu_count() == 2 else "thread")


@pytest.mark.soak
def test_a_check_asked_for_again_is_answered(watched, server):
    watched.goto(server.url("batch_size=2&num_heads=8&d_model=512&seq_len=512"))  # long enough to be seen waiting
    checked = watched.locator(".st-key-check_custom")
    expect(checked).to_contain_text("pass")
    again = watched.locator(".st-key-check_again").get_by_role("button")
    expect(again).to_be_enabled()
    again.click()
    expect(checked).to_contain_text("Checking")
    expect(checked).to_contain_text("pass")
    expect(again).to_be_enabled()


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


@pytest.mark.soak
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


@pytest.mark.soak
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_a_server_that_is_ended_leaves_no_process_and_a_run_that_the_next_one_resumes(
    context, tmp_path, monkeypatch, how
):
    first = Server(tmp_path)
    try:
        for page in watch(context, first):
            page.goto(first.url(TWELVE))
            wait_until_free(page)
            run_button(page).click()
            expect(progress(page)).to_contain_text(re.compile(r"Point \d+ of 12"))
            page.close()  # it would complain that the server is gone
            break
        folder = first.newest()
        wait_for(lambda: read_run(folder).progress.done >= 2, "the second point")
        began = psutil.Process(first.process.pid).children(recursive=True)
        assert read_run(folder).pid in {process.pid for process in began}
        assert held_by(tmp_path, monkeypatch) == folder.name
    finally:
        first.end(how)
    wait_for(lambda: not any(is_running(process) for process in began), "the end of all its processes")
    assert held_by(tmp_path, monkeypatch) is None
    assert list(tmp_path.rglob("mha-bench-child-*")) == []
    run = read_run(folder)
    assert run.state == "stopped"
    kept = steps(folder)
    assert len(kept) == 2 * run.progress.done < 24

    second = Server(tmp_path)
    try:
        for page in watch(context, second):
            page.goto(second.url())
            expect(page.get_by_text(f"Stopped after {run.progress.done} of 12 points")).to_be_visible()
            page.get_by_role("button", name="Resume").click()
            wait_for(lambda: read_run(folder).state == "finished", "the end of the run", 90)
            expect(progress(page)).to_be_hidden()
            wait_until_free(page)
            expect(page.get_by_text("Stopped after")).to_be_hidden()
    finally:
        second.end()
    assert steps(folder)[: len(kept)] == kept
    assert sorted(steps(folder)) == [(1, point, name) for point in range(1, 13) for name in ("custom", "official")]


def steps(folder):
    """What is measured, in its order: replicate, point, contender."""
    return list(load_measurements(folder)[["replicate", "point", "contender"]].itertuples(index=False, name=None))


def held_by(locks, monkeypatch):
    """The run for which the CPU is measured, where the locks lie in that folder; None where it is free."""
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(locks))
        holder = owner("cpu")
    return holder and holder.run_id


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


@pytest.mark.soak
def test_the_samples_of_a_chosen_point_are_drawn_and_the_choice_is_in_the_link(watched, server):
    watched.goto(server.url("run=example"))
    watched.get_by_role("tab", name="Samples").click()
    charts = watched.locator(".js-plotly-plot")
    expect(charts).to_have_count(3)
    expect(charts.first).to_contain_text("sample by sample")
    expect(charts.first).to_contain_text("clone of official")
    expect(charts.last).to_contain_text("rep 1")
    expect(watched.get_by_test_id("stCode").last).to_contain_text("--seq-len 32")
    watched.get_by_role("combobox", name="sequence length").click()
    watched.get_by_role("option", name="16").click()
    expect(watched.get_by_test_id("stCode").last).to_contain_text("--seq-len 16")
    expect(watched).to_have_url(re.compile(r"sample_seq_len=16\b"))
    watched.reload()
    expect(watched.get_by_role("tab", name="Samples")).to_have_attribute("aria-selected", "true")
    expect(watched.get_by_test_id("stCode").last).to_contain_text("--seq-len 16")


def test_a_click_on_a_mark_opens_the_samples_of_its_point(watched, server):
    click_first_mark(watched, server)
    expect(watched.get_by_role("tab", name="Samples")).to_have_attribute("aria-selected", "true")
    expect(watched).to_have_url(re.compile(r"sample_seq_len=16\b"))
    expect(watched.get_by_test_id("stCode").last).to_contain_text("--seq-len 16 --num-heads 4")


def test_on_a_phone_the_result_comes_before_the_controls(watched, server):
    watched.set_viewport_size({"width": 390, "height": 844})
    watched.goto(server.url("run=example"))
    headline = watched.locator(".st-key-headline_custom")
    expect(headline).to_be_visible()
    assert headline.bounding_box()["y"] < run_button(watched).bounding_box()["y"]


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


@pytest.mark.soak
def test_an_idle_tab_follows_a_sweep_that_was_started_in_another(watched, server):
    watched.goto(server.url())
    wait_until_free(watched)
    second = watched.context.new_page()
    second.set_default_timeout(PATIENCE_MS)
    second.goto(server.url(LONG))
    wait_until_free(second)
    run_button(second).click()
    wait_for_point(watched)  # nobody touched this one
    expect(run_button(watched)).to_be_disabled()
    stop(second)
    second.close()
    wait_until_free(watched)
