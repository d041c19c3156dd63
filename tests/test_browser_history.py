"""The page in a real chromium, with more than one sees at a time, and with texts that try to be more than text.

How long it takes is measured by `tests/benchmarks/big_history.py`.
"""

from __future__ import annotations

import re

import pytest
from browser_server import MAY_SKIP
from hostile_runs import ELSEWHERE, HOSTILE, hostile_run
from made_up_history import wide_run
from playwright.sync_api import Page, expect

from dashboard.result_table import PAGE_ROWS

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

LENGTHS, POINTS = 130, 130 * 4
# What text becomes where something takes it for more: links are those that its addresses spell out themselves.
MARKUP = (
    "img[src*=elsewhere], [href^=javascript], .katex, .stApp del, [data-testid=stMarkdown] h1, svg image[href*=http]"
)


@pytest.fixture(scope="module")
def big(server):
    wide_run(server.results / "big", POINTS, lengths=LENGTHS)
    return server


@pytest.fixture(scope="module")
def hostile(server):
    hostile_run(server.results / "hostile")
    return server


@pytest.mark.soak
def test_a_big_run_opens_is_drawn_and_answers(watched, big):
    watched.goto(big.url("run=big"))
    chart = watched.locator(".js-plotly-plot").first
    expect(chart.locator(".scatterlayer .js-line").first).to_be_attached()
    # Lines without a mark a point: one unseen for each line, by which all of its points can be clicked.
    assert chart.locator(".scatterlayer .point").count() <= chart.locator(".scatterlayer .js-line").count()
    watched.get_by_role("tab", name="Speed-up map").click()
    expect(watched.get_by_text("Point at a cell for its number.")).to_be_visible()
    expect(watched.locator(".js-plotly-plot .heatmaplayer image").first).to_be_attached()
    assert watched.locator(".js-plotly-plot .heatmap-label").count() == 0
    watched.get_by_role("tab", name="Table").click()
    expect(watched.get_by_test_id("stTabs").get_by_test_id("stDataFrame")).to_be_visible()
    pages = -(-POINTS * 4 // PAGE_ROWS)
    page = watched.get_by_role("spinbutton", name=re.compile(f"Page, of {pages}"))
    page.fill(str(pages))
    page.press("Enter")
    watched.get_by_role("tab", name="Latency").click()
    expect(chart.locator(".scatterlayer .js-line").first).to_be_attached()


@pytest.mark.soak
def test_hostile_texts_are_shown_as_texts_and_nothing_of_them_runs(watched, hostile):
    watched.set_viewport_size({"width": 390, "height": 844})
    watched.goto(hostile.url("run=hostile&latency_as=speed-up"))
    chart = watched.locator(".js-plotly-plot").first
    expect(chart).to_contain_text("<img src=")  # in the legend
    for box in watched.get_by_test_id("stExpander").locator("summary").all():
        box.click()
    told = watched.locator(".stApp")
    for text in HOSTILE[:5]:
        expect(told).to_contain_text(re.sub(r"\s+", " ", text)[:60])
    expect(told).to_contain_text(re.compile(r":\u2060?material/delete: :red\[alarm\] :smile: :\u2060?streamlit:"))
    expect(told).to_contain_text("reads \\u202eback\\u2066wards\\u2069 \\x07\\x00")
    expect(told).to_contain_text("=HYPERLINK(1) -")
    must_be_harmless(watched)
    for tab, drawn in (
        ("Speed-up map", ".heatmaplayer"),
        ("Samples", ".boxlayer"),
        ("Table", "[data-testid=stTabs] [data-testid=stDataFrame]"),
    ):
        watched.get_by_role("tab", name=tab).click()
        expect(watched.locator(drawn).first).to_be_attached()
        must_be_harmless(watched)


def must_be_harmless(page: Page) -> None:
    assert page.evaluate("window.hit") is None
    assert page.locator(MARKUP).count() == 0
    links = page.locator(f"a[href*='{ELSEWHERE}']")
    assert {each.split("://")[0] for each in links.evaluate_all("all => all.map(each => each.href)")} <= {"http"}
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollWidth") <= 390
