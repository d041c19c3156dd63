"""The page over minutes: what a short test cannot see."""

from __future__ import annotations

import re
import time

import pytest
from browser_server import MAY_SKIP
from playwright.sync_api import expect

from profiling.runs import read_run
from profiling.table import load_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.soak,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

MINUTES = 3.5
# Hundreds of quick points, each with rows that the page draws.
LENGTHS = ",".join(str(length) for length in range(5, 105))
LONG = f"batch_size=1,2&num_heads=1,3,5,15&d_model=15&budget=0.02&contenders=custom&seq_len={LENGTHS}"


def test_the_page_still_ticks_after_three_minutes(watched, server):
    watched.goto(server.url(LONG))
    run = watched.get_by_role("button", name="Run sweep")
    expect(run).to_be_enabled()
    run.click()
    progress = watched.get_by_test_id("stProgress")
    expect(progress).to_contain_text(re.compile(r"Point \d+ of"))
    seen = []
    end = time.monotonic() + MINUTES * 60
    while time.monotonic() < end:
        time.sleep(20)
        seen.append(progress.inner_text())
    assert len(set(seen)) == len(seen), seen  # every look showed another point
    watched.locator(".st-key-stop").get_by_role("button").click()
    expect(run).to_be_enabled()
    folder = server.newest()
    done = read_run(folder).progress.done
    assert done > len(seen)
    assert len(load_run(folder)) == 2 * done  # a row for the layer and one for its reference
