"""How long a person waits after Ctrl+C or Stop: a real sweep is stopped in each of its phases.

Run it on a machine that does nothing else: `python tests/benchmarks/stop_times.py`. Told are the seconds from the
signal, or the click, until the sample in flight is dropped and run.json says how the run ended, and until the process
is gone, which may write a report first. Ends with status 1 where the former is beyond the aim of 2 s, but where the
machine was kept busy on purpose. `--rows N`: of the large run.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
from browser_server import CHROMIUM, FLAGS, Server, wait_for
from playwright.sync_api import sync_playwright

from profiling.device_lock import DeviceLock
from profiling.runs import RunError, read_run

TINY = ["--batch-size", "1", "--num-heads", "2", "--d-model", "10", "--contenders", "custom,official"]
QUICK = ["--device", "cpu", "--quiet-wait", "0", "--time-budget", "0.02"]
# Some seconds a call on two cores.
LONG = ["--batch-size", "8", "--seq-len", "6144", "--num-heads", "8", "--d-model", "512", "--contenders", "custom"]
AIM_S = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    num_rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["TMPDIR"] = tempfile.tempdir = temporary  # locks of its own: a server may be there beside
        two, many = ["--seq-len", "5,7"], ["--seq-len", ",".join(map(str, range(5, 30)))]
        endless = [*QUICK[:-1], "3600"]
        waits = [
            tell("while torch loads", folder / "1", [*TINY, *two, *QUICK], lambda line: line == ""),
            tell_waiting(folder / "2", [*TINY, *two, *QUICK]),
            tell(
                "measuring what the machine can do", folder / "3", [*TINY, *two, *QUICK], lambda line: "about" in line
            ),
            tell("in the rounds", folder / "4", [*TINY, *many, *endless], first_point, after_s=3),
            tell("in a call of seconds", folder / "5", [*LONG, *endless, "--anyway"], first_point, after_s=8),
            tell("between replicates", folder / "6", [*TINY, "--seq-len", "5", *QUICK, "--replicates", "3"], is_row),
            tell_page(folder / "page"),
        ]
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
        waiting = [*TINY, *two, *QUICK[:2], "--quiet-wait", "600", "--time-budget", "0.02"]
        tell("waiting for a quiet machine, beside four busy programs", folder / "7", waiting, first_point, after_s=4)
        for process in busy:
            process.kill()
            process.wait()
        large_run(folder / "8", num_rows)
        waits.append(tell(f"in a run of {num_rows:,} rows", folder / "8", ["--resume"], first_point))
    print(f"longest {max(waits):.2f} s, aim {AIM_S:g} s")
    return 1 if max(waits) > AIM_S else 0


def first_point(line: str) -> bool:
    return line.startswith("point ")


def is_row(line: str) -> bool:
    return line.strip().startswith("official ")


def tell(
    phase: str, folder: Path, arguments: list[str], is_time: Callable[[str], bool], *, after_s: float = 0.0
) -> float:
    """Starts a sweep, interrupts it once a line of its output says that it is time, and prints how long that took.

    Returns the seconds until it said how it ended: in its folder, or by its end where there was none yet.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "profiling", "sweep", *arguments, "--out", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if is_time(""):
        time.sleep(1.2)
    else:
        for line in process.stdout:
            if is_time(line):
                break
    time.sleep(after_s)
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    said_s = None
    while process.poll() is None:
        if said_s is None and state_of(folder) in ("stopped", "finished"):
            said_s = time.monotonic() - asked
        time.sleep(0.01)
    ended_s = time.monotonic() - asked
    _, stderr = process.communicate()
    said = "no run yet" if said_s is None else f"said so after {said_s:.2f} s"
    print(
        f"{phase}: {said}, ended after {ended_s:.2f} s, status {process.returncode} {state_of(folder)} {stderr.strip()}"
    )
    return ended_s if said_s is None else said_s


def tell_waiting(folder: Path, arguments: list[str]) -> float:
    lock = DeviceLock("cpu")
    lock.acquire("check")
    try:
        return tell("waiting for a live check", folder, arguments, lambda line: line.startswith("waiting"))
    finally:
        lock.release()


def tell_page(folder: Path) -> float:
    """Starts a sweep on the page, presses Stop, and prints how long it took until it had ended."""
    folder.mkdir()
    server = Server(folder)
    try:
        with sync_playwright() as playwright:
            page = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS)).new_page()
            page.goto(server.url("batch_size=2&num_heads=3&d_model=15&seq_len=5,7&budget=3600&quiet_wait=0"))
            run = page.get_by_role("button", name="Run sweep")
            run.click()
            page.locator(".st-key-stop").get_by_role("button").wait_for()
            wait_for(lambda: len(list(server.results.glob("20*/run.json"))) == 1, "the run")
            time.sleep(5.0)
            measured = read_run(server.newest())
            asked = time.monotonic()
            page.locator(".st-key-stop").get_by_role("button").click()
            wait_for(lambda: state_of(server.newest()) == "stopped", "its end")
            said_s = time.monotonic() - asked
            wait_for(lambda: not psutil.pid_exists(measured.pid), "the end of its process")
            ended_s = time.monotonic() - asked
            print(f"the page's Stop: said so after {said_s:.2f} s, ended after {ended_s:.2f} s")
            return said_s
    finally:
        server.end()


def state_of(folder: Path) -> str:
    try:
        return read_run(folder).state
    except RunError:
        return ""


def large_run(folder: Path, num_rows: int) -> None:
    """A stopped run of so many rows, all but its last point made up of copies of its first."""
    lengths = ",".join(map(str, range(2, 2 + num_rows // 40)))
    sizes = ["--batch-size", "1,2,3,4,5", "--seq-len", lengths, "--num-heads", "1,2", "--d-model", "10"]
    tell("(the same run, just begun", folder, [*sizes, *QUICK, "--threads", "1"], is_row)
    path = folder / "measurements.csv"
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    column = header.index("point")
    num_points = num_rows // len(rows)
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for point in range(2, num_points):
            writer.writerows([*row[:column], point, *row[column + 1 :]] for row in rows)
    print(f"made up to {num_points * len(rows):,} rows)")


if __name__ == "__main__":
    sys.exit(main())
