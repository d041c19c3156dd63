"""The page over minutes and thousands of workloads: what a short test cannot see."""

from __future__ import annotations

import dataclasses
import re
import time

import psutil
import pytest
from browser_server import MAY_SKIP
from playwright.sync_api import Page, expect

from profiling.device_lock import owner
from profiling.runs import RunError, read_run
from profiling.table import load_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.soak,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

# 2,000 quick points, each with rows that the page draws.
LENGTHS = ",".join(str(length) for length in range(5, 105))
SIZES = f"batch_size=1,2,3,4,5&num_heads=1,3,5,15&d_model=15&seq_len={LENGTHS}"
SOAK = f"{SIZES}&budget=0.01&contenders=custom&quiet_wait=0&threads=1"
POINTS = 2_000
LOOK_S = 15
# A look may fall into one redraw on a busy machine, and the next into another.
PATIENCE_LOOKS = 3
# Twice what it takes on two slow cores with others on them.
LIMIT_S = 50 * 60
# MiB by which the second half of the run may hold more than the first: what 4,000 rows are, several times over.
SUPERVISOR_MIB, SERVER_MIB, TAB_MIB = 12, 48, 40


@dataclasses.dataclass(frozen=True)
class Look:
    """The page at one moment: how far it says the run is, and MiB held by the supervisor, the server and the tab."""

    done: int
    told: str
    supervisor: float
    server: float
    tab: float


def test_a_sweep_of_two_thousand_workloads_ends_whole_with_flat_memory_and_a_page_that_ticks(watched, server):
    watched.goto(server.url(SOAK))
    run = watched.get_by_role("button", name="Run sweep")
    expect(run).to_be_enabled()
    run.click()
    expect(watched.get_by_test_id("stProgress")).to_contain_text(re.compile(rf"Point \d+ of {POINTS}"))
    folder = server.newest()
    debugger = watched.context.new_cdp_session(watched)
    looks: list[Look] = []
    end = time.monotonic() + LIMIT_S
    while read_run(folder).state == "running":
        assert time.monotonic() < end, looks[-1]
        watched.wait_for_timeout(LOOK_S * 1000)  # not a sleep: the page's messages are read meanwhile
        look = look_at(watched, debugger, server, folder)
        if look is not None:
            looks.append(look)
    print(*looks, sep="\n")
    expect(run).to_be_enabled()
    expect(watched.get_by_test_id("stProgress")).to_be_hidden()

    found = read_run(folder)
    assert (found.state, found.progress.done) == ("finished", POINTS)
    table = load_run(folder)
    assert len(table) == 2 * POINTS  # a row for the layer and one for its reference
    assert set(table["status"]) == {"ok"}
    assert table.groupby("contender")["point"].nunique().to_dict() == {"custom": POINTS, "official": POINTS}

    told = [int(re.match(r"Point (\d+)", look.told)[1]) for look in looks]
    print(*told)
    assert told == sorted(told)
    assert all(later > now for now, later in zip(told, told[PATIENCE_LOOKS:], strict=False)), "it ticked all the time"
    assert owner(found.device) is None, "the device is free again"
    left = [each.cmdline() for each in psutil.Process(server.process.pid).children(recursive=True)]
    assert not [words for words in left if "sweep" in words]
    for who, most in (("supervisor", SUPERVISOR_MIB), ("server", SERVER_MIB), ("tab", TAB_MIB)):
        first, second = halves([getattr(look, who) for look in looks])
        print(f"{who}: {first:.1f} MiB in the first half, {second:.1f} MiB in the second")
        assert second - first < most, who


def look_at(page: Page, debugger, server, folder) -> Look | None:
    """What there is to see now; None once the run is ending, when there is no point in flight to be told."""
    progress = page.get_by_test_id("stProgress")
    try:
        run = read_run(folder)
        supervisor = psutil.Process(run.pid).memory_info().rss
    except (RunError, psutil.NoSuchProcess):
        return None
    told = progress.inner_text() if progress.count() else ""
    if run.state != "running" or not told.startswith("Point") or run.progress.done >= POINTS - 100:
        return None
    debugger.send("HeapProfiler.collectGarbage")
    tab = debugger.send("Runtime.getHeapUsage")["usedSize"]
    held = psutil.Process(server.process.pid).memory_info().rss
    return Look(run.progress.done, told, *(number / 2**20 for number in (supervisor, held, tab)))


def halves(values: list[float]) -> tuple[float, float]:
    """The most held in the second quarter, when all is loaded and some rows are there, and in the last."""
    quarter = len(values) // 4
    return max(values[quarter : 2 * quarter + 1]), max(values[-quarter - 1 :])
