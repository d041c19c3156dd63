"""How long a person waits: from opening the page to the first chart, and to the live check's verdict.

Run it on a machine that does nothing else: `python tests/benchmarks/first_look.py`. The server is started anew for each
try, so that the measuring process has to load torch. Aims: 4 s to the chart, 8 s to the verdict.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from browser_server import CHROMIUM, FLAGS, Server
from playwright.sync_api import sync_playwright

NUM_TRIES = 5


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        drawn, checked = zip(*(first_look(browser) for _ in range(NUM_TRIES)), strict=True)
        browser.close()
    for what, seconds in (("first chart", drawn), ("verdict of the live check", checked)):
        print(f"{what}: median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s, {NUM_TRIES} tries")


def first_look(browser) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="mb-") as folder:
        server = Server(Path(folder))
        page = browser.new_page()
        started = time.monotonic()
        page.goto(server.url())
        page.locator(".js-plotly-plot").first.wait_for()
        drawn = time.monotonic() - started
        page.locator(".st-key-check_custom").get_by_text("pass").first.wait_for()
        checked = time.monotonic() - started
        page.close()
        server.end()
    return drawn, checked


if __name__ == "__main__":
    main()
