from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import lost_row, make_row, make_run
from rich.console import Console

from profiling.device_lock import Owner
from profiling.estimate import Estimate
from profiling.events import Ended, Started, StepFinished, StepStarted, Waiting
from profiling.progress import (
    LiveProgress,
    PlainProgress,
    describe,
    progress_line,
    row_cells,
    show_progress,
)
from profiling.runs import Progress
from profiling.wording import cut_middle, short_names, workload_words

ESTIMATE = Estimate(
    num_points=5,
    num_invalid=2,
    invalid_reasons=("d_model 10 is not divisible by num_heads 3",),
    num_rows=10,
    seconds=200.0,
    peak_memory_mib=1536.0,
    free_memory_mib=4096.0,
    time_limit_s=60.0,
)
PROGRESS = Progress(done=2, total=5, label="batch 3", seconds_left=90.0)


def test_the_start_tells_where_on_what_how_much_and_what_is_invalid() -> None:
    assert describe(Started(make_run(), Path("out"), ESTIMATE, 3)) == [
        "run made-up in out",
        "on Made-up Processor (cpu), 1 thread, torch 2.13.0",
        "5 points, 2 of them invalid x 2 contenders (custom, official) x 2 replicates",
        "about 3 min 20 s, peak about 1.50 GiB of 4.00 GiB free; a workload is given up after 1 min",
        "invalid: d_model 10 is not divisible by num_heads 3",
        "3 of 4 measured before",
    ]


def test_a_point_is_told_with_its_place_shape_and_the_time_left() -> None:
    assert describe(StepStarted(PROGRESS)) == ["point 3 of 5: batch 3 - about 1 min 30 s left"]
    assert progress_line(PROGRESS, elapsed_s=100.0).endswith("about 0 s left")
    assert progress_line(Progress(done=5, total=5, label="x")) == "point 5 of 5: x"


def test_a_row_is_told_in_units_of_its_own() -> None:
    assert row_cells(make_row()) == (
        "2.00 ms",
        "1.50×",
        "256 KiB",
        "0.00e+00",
        "pass",
    )


def test_a_row_says_what_is_unusual_about_its_workload() -> None:
    row = make_row(dtype="float64", mode="training", bias=True, causal=True)
    assert workload_words(row) == "b 3 s 5 h 2 d 10 float64 training bias causal"


def test_a_row_without_numbers_says_why() -> None:
    lines = describe(StepFinished(PROGRESS, [lost_row("custom", "oom", "no room")]))
    assert [line.split() for line in lines] == [["custom", "oom"], ["no", "room"]]
    rows = [lost_row(name, "invalid", "odd") for name in ("custom", "official")]
    assert [line.split() for line in describe(StepFinished(PROGRESS, [*rows, make_row()]))][:3] == [
        ["custom", "invalid"],
        ["official", "invalid"],
        ["odd"],
    ]


def test_a_long_path_is_told_by_its_end_and_by_as_much_as_tells_it_from_others() -> None:
    long = "/home/someone/projects/layers/mine.py:Attention"
    assert short_names(["custom", long]) == {"custom": "custom", long: "mine.py:Attention"}
    assert list(short_names(["a/b/mine.py:X", "a/c/mine.py:X"]).values()) == ["b/mine.py:X", "c/mine.py:X"]
    assert list(short_names(["mine.py:X", "./mine.py:X", "mine.py:X"]).values()) == ["mine.py:X", "./mine.py:X"]
    assert cut_middle("multi_head_attention.py:MyLongAttention", 20) == "multi_h…ongAttention"
    assert cut_middle("short", 20) == "short"


def test_waiting_names_who_is_waited_for() -> None:
    holder = Owner(kind="check", device="cpu", pid=7, started_at="then")
    assert describe(Waiting(holder)) == ["waiting: cpu is busy since then with a check (process 7)"]


def test_the_end_says_how_it_ended_and_how_to_go_on() -> None:
    stopped = make_run(state="stopped", state_reason="by hand", progress=Progress(done=1, total=4))
    assert describe(Ended(stopped, Path("out"), Path("out/report.csv"))) == [
        "stopped: 1 of 4 points measured, 2 replicates together (by hand)",
        "go on with: python -m profiling sweep --out out --resume",
        "table: out/report.csv",
    ]
    assert (
        describe(Ended(make_run(), Path("out"), Path("r")))[0]
        == "finished: 4 of 4 points measured, 2 replicates together"
    )


def test_a_pipe_gets_plain_lines() -> None:
    stream = io.StringIO()
    with show_progress(stream) as tell:
        tell(StepStarted(PROGRESS))
        tell(StepFinished(PROGRESS, [make_row()]))
    assert isinstance(tell, PlainProgress)
    assert "\x1b" not in stream.getvalue()
    header, _, row = stream.getvalue().splitlines()
    assert header.split() == ["contender", "latency", "speed-up", "memory", "max", "error", "check"]
    assert header.index("memory") + len("memory") == row.index("256 KiB") + len("256 KiB")
    assert row.split() == [
        "custom",
        "2.00",
        "ms",
        "1.50×",
        "256",
        "KiB",
        "0.00e+00",
        "pass",
    ]


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), OSError(28, "No space left on device")])
def test_a_reader_that_has_gone_does_not_end_the_sweep(error: OSError) -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise error

    tell = PlainProgress(Gone())
    tell(StepStarted(PROGRESS))
    tell(StepStarted(PROGRESS))


def live(rows: list[dict[str, Any]], width: int = 160) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, height=50)
    progress = LiveProgress(console)
    with progress:
        progress(Started(make_run(), Path("out"), ESTIMATE, 0))
        progress(StepStarted(PROGRESS))
        progress(StepFinished(PROGRESS, rows))
        progress._live.refresh()
        shown = stream.getvalue()
        progress(Ended(make_run(), Path("out"), Path("report.csv")))
    return shown


def test_a_terminal_shows_the_rows_and_the_place() -> None:
    shown = live([make_row()])
    assert "1.50×" in shown
    assert "point 3 of 5: batch 3" in shown


@pytest.mark.parametrize("width", [80, 120])
def test_numbers_are_whole_at_usual_widths_whatever_a_contender_is_called_or_raises(width: int) -> None:
    name = "/home/someone/" + "deep/" * 20 + "multi_head_attention.py:MyOwnMultiHeadAttention"
    mine = make_row() | {"contender": name, "check_verdict": "not-comparable"}
    lost = lost_row("custom", "error", "RuntimeError: " + "word " * 60)
    rows = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", live([mine, make_row("official"), lost], width)).splitlines()
    assert max(map(len, rows[-6:])) <= width
    for end in ("  2.00 ms     1.50×   256 KiB   0.00e+00  not-comparable", "  2.00 ms             256 KiB"):
        assert any(row.endswith(end) for row in rows), end
    assert any(row.startswith("    custom ") and row.endswith("  error") for row in rows)


def test_brackets_in_a_reason_are_shown_as_they_are() -> None:
    shown = live([lost_row("custom", "error", "sizes=[/red] [bold]")])
    assert "sizes=[/red] [bold]" in shown


def test_a_terminal_that_is_closed_does_not_end_the_sweep() -> None:
    class Closed(io.StringIO):
        is_closed = False

        def write(self, text: str) -> int:
            if self.is_closed:
                raise OSError(5, "Input/output error")
            return super().write(text)

    stream = Closed()
    progress = LiveProgress(Console(file=stream, force_terminal=True))
    with progress:
        stream.is_closed = True
        progress(Ended(make_run(), Path("out"), Path("report.csv")))
