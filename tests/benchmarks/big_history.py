"""How long a person waits on a page with years of history: to the first chart, and for each control.

Run it on a machine that does nothing else: `python tests/benchmarks/big_history.py [wide] [deep] [many]`. For each
history the server is up and has read nothing of it; the start of a server itself is told apart. Ends with status 1
where a first chart takes longer than 5 s, or a control, in the median of its tries, longer than 1 s.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
from browser_server import CHROMIUM, FLAGS, Server
from made_up_history import deep_run, many_runs, wide_run
from playwright.sync_api import BrowserContext, Locator, Page, TimeoutError, sync_playwright

HISTORIES = ("wide", "deep", "many")
NUM_TRIES = 5
CHART_S, CONTROL_S = 5.0, 1.0
# The page is still where no part of it is being drawn anew: Streamlit marks what is not yet, and itself while it runs.
IDLE = """() => document.querySelector('[data-testid="stApp"]').dataset.testScriptState !== 'running'
    && !document.querySelector('[data-stale="true"]')"""

# Notes in the page itself when its first chart stands, and not the one in its place while a run is read: looking from
# outside is half a second late.
NOTE_CHART = """(() => {
    const look = () => document.querySelector('.st-key-chart_Latency .main-svg')
        ? window.chartSeconds = performance.now() / 1000 : requestAnimationFrame(look);
    look();
})()"""


def main() -> int:
    wanted = sys.argv[1:] or list(HISTORIES)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        slow = [f"{history}: {what}" for history in wanted for what in measure(browser, history)]
        browser.close()
    for what in slow:
        print(f"beyond the aim: {what}")
    return 1 if slow else 0


def measure(browser, history: str) -> list[str]:
    """Prints the figures of a history, and gives those that are beyond the aims."""
    with tempfile.TemporaryDirectory(prefix="mb-") as folder:
        results = Path(folder) / "results"
        began = time.monotonic()
        make(results, history)
        print(f"{history}: made up in {time.monotonic() - began:.1f} s")
        began = time.monotonic()
        server = Server(Path(folder))
        print(f"  start of the server {time.monotonic() - began:.1f} s")
        try:
            return look(browser, server, "" if history == "many" else f"run={history}")
        finally:
            server.end()


def make(results: Path, history: str) -> None:
    if history == "many":
        many_runs(results)
    else:
        {"wide": wide_run, "deep": deep_run}[history](results / history)


def look(browser, server: Server, query: str) -> list[str]:
    slow = []
    fresh = browser.new_context(viewport={"width": 1440, "height": 900})
    page, seconds, _ = opened(fresh, server.url("run=example"))
    print(f"  first chart of the example, in a browser that has never seen the page {seconds:.1f} s")
    page.locator(".st-key-check_custom").get_by_text("pass").first.wait_for()  # torch is loaded, and disturbs no more
    page.close()
    for what in ("never read before", "read before", "read before, a new browser"):
        context = fresh if "new" not in what else browser.new_context(viewport={"width": 1440, "height": 900})
        page, seconds, received = opened(context, server.url(query))
        print(f"  first chart, {what} {seconds:.1f} s, messages {sum(received) / 2**20:.2f} MiB")
        slow += [f"first chart, {what}, {seconds:.1f} s"] if seconds > CHART_S else []
    for what, act in controls(page).items():
        seconds, sizes = [], []
        for _ in range(NUM_TRIES):
            received.clear()
            began = act()
            still(page)
            seconds.append(time.monotonic() - began)
            sizes.append(sum(received))
        median, longest = statistics.median(seconds), max(seconds)
        slow += [f"{what}, {median:.2f} s"] if median > CONTROL_S else []
        print(f"  {what:36} median {median:.2f} s, longest {longest:.2f} s, {max(sizes) / 2**20:.2f} MiB")
    memory = psutil.Process(server.process.pid).memory_info().rss / 2**20
    print(f"  resident memory of the server {memory:,.0f} MiB; of the tab's heap {heap_mib(page):.0f} MiB")
    return slow


def opened(context: BrowserContext, url: str) -> tuple[Page, float, list[int]]:
    """A page, the seconds until its first chart was drawn, and the sizes of the messages that it receives."""
    page = context.new_page()
    page.set_default_timeout(60_000)
    received: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))))
    page.add_init_script(NOTE_CHART)
    page.goto(url)
    seconds = page.wait_for_function("() => window.chartSeconds").json_value()
    still(page)
    return page, seconds, received


def still(page: Page) -> None:
    """Waits until the page has taken up a click, answered it, and drawn the answer."""
    page.wait_for_timeout(60)
    page.wait_for_function(IDLE)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def controls(page: Page) -> dict[str, Callable[[], float]]:
    """What a person clicks on, by name; each of them, done again and again, changes the page every time.

    Each gives the moment at which its click began.
    """
    lengths = iter(f"{16 * number},{32 * number}" for number in range(3, 99))
    return {
        "speed-up or time": in_turn(page, lambda name: page.get_by_text(name, exact=True).first, "speed-up", "time"),
        "log y": in_turn(page, lambda name: page.get_by_text(name), "log y"),
        "another x axis": choose(page, "x axis", "batch size", "sequence length"),
        "panels": choose(page, "Panels", "none", "all others"),
        "tab Memory or Max error": tabs(page, "Memory", "Max error"),
        "tab Speed-up map or Table": tabs(page, "Speed-up map", "Table"),
        "tab Samples or Latency": tabs(page, "Samples", "Latency"),
        "sequence lengths of the next sweep": lambda: fill(page, next(lengths)),
        "another run": other_run(page),
    }


def in_turn(page: Page, find: Callable[[str], object], *names: str) -> Callable[[], float]:
    state = {"next": 0}

    def act() -> float:
        began = time.monotonic()
        find(names[state["next"] % len(names)]).click()
        state["next"] += 1
        return began

    return act


def tabs(page: Page, *names: str) -> Callable[[], float]:
    return in_turn(page, lambda name: page.get_by_role("tab", name=name), *names)


def choose(page: Page, label: str, *options: str) -> Callable[[], float]:
    state = {"next": 0}

    def act() -> float:
        option = page.get_by_role("option", name=options[state["next"] % len(options)], exact=True)
        state["next"] += 1
        return pick(page.get_by_role("combobox", name=label, exact=True), option)

    return act


def other_run(page: Page) -> Callable[[], float]:
    state = {"next": 1}

    def act() -> float:
        option = page.get_by_role("option").nth(state["next"] % 2)
        state["next"] += 1
        return pick(page.locator(".st-key-run_choice").get_by_role("combobox"), option)

    return act


def pick(box: Locator, option: Locator) -> float:
    """Clicks on an option of a list, which a page that moves under the pointer shuts again; when it was opened."""
    for _ in range(5):
        began = time.monotonic()
        box.click()
        with contextlib.suppress(TimeoutError):
            option.click(timeout=700)
            return began
    raise TimeoutError(f"{option} cannot be clicked")


def fill(page: Page, text: str) -> float:
    began = time.monotonic()
    page.get_by_role("textbox", name="Sequence lengths").fill(text)
    page.get_by_role("textbox", name="Sequence lengths").press("Enter")
    return began


def heap_mib(page: Page) -> float:
    return page.evaluate("() => performance.memory.usedJSHeapSize") / 2**20


if __name__ == "__main__":
    sys.exit(main())
