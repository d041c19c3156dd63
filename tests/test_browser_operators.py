"""The view Operators in a real chromium: from a point of a run to it and back, and a real profile with its trace."""

from __future__ import annotations

import json
import re

import pytest
from browser_server import MAY_SKIP, PATIENCE_MS, Server, click_first_mark
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

TINY = "op_one=custom-fused&op_other=official-fused&op_batch_size=3&op_seq_len=7&op_num_heads=2&op_d_model=10"
# Streamlit's own page looks for its server below the address that it was opened at, before it looks at its root.
PROBED = ("/operators/_stcore/health", "/operators/_stcore/host-config")


def size(page: Page, label: str):
    return page.get_by_role("spinbutton", name=label)


def profile_button(page: Page):
    return page.locator(".st-key-profile").get_by_role("button")


@pytest.mark.soak
def test_a_point_of_a_chart_leads_to_its_operators_and_back(watched, server):
    click_first_mark(watched, server)
    link = watched.get_by_role("link", name="Where the time of this point goes: its operators")
    expect(link).to_be_visible()
    link.click()
    expect(watched.get_by_role("heading", name="Operators")).to_be_visible()
    expect(size(watched, "Sequence length")).to_have_value("16")
    expect(size(watched, "Heads")).to_have_value("4")
    expect(size(watched, "d_model")).to_have_value("64")
    expect(profile_button(watched)).to_be_enabled()
    watched.get_by_role("link", name="The samples of this point").click()
    expect(watched.get_by_role("tab", name="Samples")).to_have_attribute("aria-selected", "true")
    expect(watched.get_by_test_id("stCode").last).to_contain_text("--seq-len 16 --num-heads 4")


@pytest.mark.soak
def test_two_contenders_are_profiled_drawn_and_traced_in_every_tab(context: BrowserContext, server: Server) -> None:
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.location["url"].endswith(PROBED):
            complaints.append(message.text)

    context.on("console", hear)
    page, other = context.new_page(), context.new_page()
    for tab in (page, other):
        tab.set_default_timeout(3 * PATIENCE_MS)
    expect.set_options(timeout=3 * PATIENCE_MS)
    address = f"{server.url()[:-2]}/operators?{TINY}"
    page.goto(address)
    other.goto(address)
    for tab in (page, other):
        expect(profile_button(tab)).to_be_enabled()
        expect(size(tab, "Sequence length")).to_have_value("7")
    page.bring_to_front()
    profile_button(page).click()
    for tab in (page, other):  # one profile, and both see it
        expect(tab.locator(".js-plotly-plot .barlayer .point").first).to_be_attached()
        expect(tab.get_by_text("The roles add up to the profiled total")).to_be_visible()
        expect(tab.locator(".stApp")).to_contain_text("in one kernel")
        expect(tab.get_by_test_id("stDataFrame").first).to_be_visible()
    trace = page.locator(".st-key-make_trace")
    expect(page.get_by_text(re.compile(r"3 calls of each on a line of time: about \d+ KiB"))).to_be_visible()
    trace.get_by_role("button").click()
    for tab in (page, other):
        offered = tab.locator(".st-key-download_trace").get_by_role("button")
        expect(offered).to_contain_text(re.compile(r"Download trace \(\d+ KiB\)"))
    with page.expect_download() as download:
        page.locator(".st-key-download_trace").get_by_role("button").click()
    written = json.loads(download.value.path().read_bytes())
    assert {"custom-fused", "official-fused"} <= {event["name"] for event in written["traceEvents"]}
    assert "host_name" not in written
    assert page.get_by_test_id("stException").count() == 0
    assert complaints == []
