"""A click on a cell of the speed-up map, or on a line without marks, leads to its point, in a real chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser_server import MAY_SKIP, Server, watch
from dashboard_samples import make_run
from made_up_history import grid_of
from playwright.sync_api import BrowserContext, Locator, Page, expect

from profiling.settings import SweepSettings

pytestmark = [
    pytest.mark.browser,
    pytest.mark.soak,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

# 70 lengths: too many for a mark each; with 10 rows of them, for a number in each cell too.
LENGTHS = 70


@pytest.fixture(scope="module")
def map_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    settings = SweepSettings(contenders=("custom", "official"))
    make_run(folder / "results" / "dense", grid=grid_of(LENGTHS * 10, lengths=LENGTHS), settings=settings)
    running = Server(folder)
    yield running
    running.end()


@pytest.fixture
def watched(context: BrowserContext, map_server: Server) -> Iterator[Page]:
    yield from watch(context, map_server)


# A point on the first line, in pixels of the page.
ON_LINE = """() => {
    const line = document.querySelector('.js-plotly-plot .scatterlayer .js-line[style*="fill: none"]');
    const at = line.getPointAtLength(line.getTotalLength() / 2), to = line.getScreenCTM();
    return [to.a * at.x + to.e, to.d * at.y + to.f];
}"""


@pytest.mark.parametrize(
    ("query", "across", "down", "told", "led_to"),
    [
        # The first cell of two by two, far from its middle: its mark is the nearest all the same.
        ("run=example&tab=Speed-up+map", 0.05, 0.1, "16", "--seq-len 16 --num-heads 4"),
        # The fourth column of 70, the seventh of ten rows.
        ("run=dense&tab=Speed-up+map", 3.5 / LENGTHS, 0.65, "64", "--batch-size 2 --seq-len 64 --num-heads 2"),
    ],
    ids=["a cell with its number", "a cell of many"],
)
def test_a_click_leads_to_the_samples_of_its_point(
    watched: Page, map_server: Server, query: str, across: float, down: float, told: str, led_to: str
) -> None:
    plot = opened(watched, map_server, query)
    box = plot.bounding_box()
    assert box is not None
    click(watched, box["x"] + across * box["width"], box["y"] + down * box["height"], told)
    expect(watched.get_by_role("tab", name="Samples")).to_have_attribute("aria-selected", "true")
    expect(watched.get_by_test_id("stCode").last).to_contain_text(led_to)


def test_a_click_on_a_line_without_marks_leads_to_the_samples_of_its_nearest_point(
    watched: Page, map_server: Server
) -> None:
    opened(watched, map_server, "run=dense")
    click(watched, *watched.evaluate(ON_LINE), "sequence length")
    expect(watched.get_by_role("tab", name="Samples")).to_have_attribute("aria-selected", "true")


def opened(page: Page, server: Server, query: str) -> Locator:
    """The plot of the page's first chart, once nothing moves any more."""
    page.set_viewport_size({"width": 1440, "height": 1500})  # so that nothing has to be scrolled
    page.goto(server.url(query))
    expect(page.locator(".st-key-check_custom")).to_contain_text("pass")
    plot = page.locator(".js-plotly-plot .nsewdrag").first
    expect(plot).to_be_visible()
    return plot


def click(page: Page, x: float, y: float, told: str) -> None:
    page.mouse.move(x - 2, y)
    page.mouse.move(x, y)
    expect(page.locator(".js-plotly-plot .hoverlayer").first).to_contain_text(told)
    page.mouse.down()
    page.mouse.up()
