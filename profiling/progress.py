"""A sweep's progress for a person: a live table on a terminal, plain lines in a pipe."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from profiling.closing import closing_lines
from profiling.events import Ended, Event, Listener, Started, StepFinished, StepStarted, Waiting
from profiling.runs import Progress
from profiling.units import format_duration, format_error, format_mib, format_ratio, format_time
from profiling.wording import cut_middle, measured_words, short_names, workload_words

NUM_ROWS_SHOWN = 12
HEADINGS = ("contender", "latency", "speed-up", "memory", "max error", "check")
NUMBER_WIDTHS = (8, 8, 8, 9)
NAME_WIDTH = 28
MIN_NAME_WIDTH = 12
INDENT = "    "


@contextmanager
def show_progress(stream: TextIO) -> Iterator[Listener]:
    """Yields the listener that fits the stream."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield PlainProgress(stream)
        return
    live = LiveProgress(Console(file=stream))
    with live:
        yield live


class PlainProgress:
    """One line per event, flushed at once: for pipes, logs and people who read later."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._has_header = False

    def __call__(self, event: Event) -> None:
        """Prints what happened; above the first numbers, what they are."""
        lines = describe(event)
        if isinstance(event, StepStarted) and not self._has_header:
            self._has_header = True
            lines = [INDENT + _table_line(HEADINGS), *lines]
        for line in lines:
            # Whoever read the pipe has gone (`| head`), or the disk of the log is full: the measurements go on.
            try:
                print(line, file=self._stream, flush=True)
            except OSError:
                # Closed: else Python, at its end, tries the lost line once more, complains and exits with 120.
                with contextlib.suppress(OSError):
                    self._stream.close()
                self._stream = io.StringIO()


class LiveProgress:
    """A table of the latest rows under a line of progress that ticks."""

    def __init__(self, console: Console) -> None:
        self._rows: deque[tuple[Mapping[str, Any], str]] = deque(maxlen=NUM_ROWS_SHOWN)
        self._progress: Progress | None = None
        self._since = time.monotonic()
        self._console = console
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=1)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # the terminal was closed
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Takes in what happened; what stays is printed above the table."""
        if isinstance(event, StepStarted):
            self._progress, self._since = event.progress, time.monotonic()
        elif isinstance(event, StepFinished):
            self._progress = event.progress
            names = short_names([row["contender"] for row in event.rows])
            self._rows.extend((row, names[row["contender"]]) for row in event.rows)
            self._print(_reasons(event.rows, names))
        else:
            self._progress = None if isinstance(event, Ended) else self._progress
            self._print(describe(event))

    def _print(self, lines: Sequence[str]) -> None:
        with contextlib.suppress(OSError):  # the terminal was closed
            for line in lines:
                self._console.print(Text(line))  # as Text: a reason may hold brackets, which rich takes for markup

    def _render(self) -> RenderableType:
        console = self._console
        checks = [len(row.get("check_verdict") or "") for row, _ in self._rows]
        numbers = sum(width + 2 for width in (*NUMBER_WIDTHS, max(len(HEADINGS[-1]), *checks, 0)))
        name_width = min(max(console.width - numbers - len(INDENT), MIN_NAME_WIDTH), 2 * NAME_WIDTH)
        lines: list[str] = []
        for workload, rows in itertools.groupby(self._rows, key=lambda pair: workload_words(pair[0])):
            lines += [workload, *_body(list(rows), name_width)]
        lines = lines[-max(console.height - 3, 1) :]
        shown = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
        header = Text(INDENT + _table_line(HEADINGS, name_width), style="bold", no_wrap=True, overflow="ellipsis")
        shown = [header, *shown] if shown else []
        if self._progress is None:
            return Group(*shown)
        ticking = progress_line(self._progress, time.monotonic() - self._since)
        return Group(*shown, Text(ticking, style="bold", no_wrap=True, overflow="ellipsis"))


def describe(event: Event) -> list[str]:
    """The lines that tell an event to a person."""
    if isinstance(event, Waiting):
        return [f"waiting: {event.owner.sentence}"]
    if isinstance(event, Started):
        return _describe_start(event)
    if isinstance(event, StepStarted):
        return [progress_line(event.progress)]
    if isinstance(event, StepFinished):
        names = short_names([row["contender"] for row in event.rows])
        return _body([(row, names[row["contender"]]) for row in event.rows])
    progress = event.run.progress
    told = measured_words(progress.done, progress.total, event.run.settings.replicates)
    lines = [f"{event.run.state}: {told}"]
    if event.run.state_reason:
        lines[0] += f" ({event.run.state_reason})"
    if event.run.state == "stopped":
        lines.append(f"go on with: python -m profiling sweep --out {event.folder} --resume")
    summary = closing_lines(event.folder) if event.run.state == "finished" else []
    table = f"table: {event.report}" if event.report else f"no table yet: python -m profiling export {event.folder}"
    return [*summary, *lines, table]


def progress_line(progress: Progress, elapsed_s: float = 0.0) -> str:
    """Point i of n, the shape in flight, and the time left."""
    position = min(progress.done + 1, progress.total)
    line = f"point {position} of {progress.total}: {progress.label}"
    if progress.seconds_left is None:
        return line
    return f"{line} - about {format_duration(max(0.0, progress.seconds_left - elapsed_s))} left"


def row_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A row's numbers, each in a unit of its own; empty where not measured."""
    return (
        _shown(row, "latency_median_ms", lambda ms: format_time(ms / 1e3)),
        _shown(row, "speedup", format_ratio),
        _shown(row, "peak_memory_mib", format_mib),
        _shown(row, "max_abs_error", format_error),
        row.get("check_verdict") or "",
    )


def _body(rows: Sequence[tuple[Mapping[str, Any], str]], name_width: int = NAME_WIDTH) -> list[str]:
    """Rows, each with its name, as lines of the table: the numbers under their headings, or the status.

    Why there are no numbers stands below, once for neighbours that share it.
    """
    lines = []
    for position, (row, name) in enumerate(rows):
        if row["status"] == "ok":
            lines.append(INDENT + _table_line((name, *row_cells(row)), name_width))
            continue
        lines.append(f"{INDENT}{cut_middle(name, name_width):{name_width}}  {row['status']}")
        following = [
            later["status_reason"] for later, _ in rows[position + 1 : position + 2] if later["status"] != "ok"
        ]
        if following != [row["status_reason"]]:
            lines.append(f"{INDENT}{INDENT}{row['status_reason']}")
    return lines


def _table_line(cells: Sequence[str], name_width: int = NAME_WIDTH) -> str:
    name, *numbers, check = cells
    fields = [f"{number:>{width}}" for number, width in zip(numbers, NUMBER_WIDTHS, strict=True)]
    return "  ".join([f"{cut_middle(name, name_width):{name_width}}", *fields, check]).rstrip()


def _reasons(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[str]:
    """Why rows have no numbers; what no layer can be was told before the start."""
    lost = [row for row in rows if row["status"] not in ("ok", "invalid")]
    return [f"{names[row['contender']]}: {row['status']}: {row['status_reason']}" for row in lost]


def _shown(row: Mapping[str, Any], name: str, formatted: Any) -> str:
    return "" if row.get(name) is None else str(formatted(row[name]))


def _describe_start(event: Started) -> list[str]:
    run, expected = event.run, event.estimate
    device, torch_version = run.environment["device_name"], run.environment["torch_version"]
    invalid = f", {expected.num_invalid} of them invalid" if expected.num_invalid else ""
    replicates, threads = _count(run.settings.replicates, "replicate"), _count(run.threads, "thread")
    free = "" if expected.free_memory_mib is None else f" of {format_mib(expected.free_memory_mib)} free"
    lines = [
        f"run {run.run_id} in {event.folder}",
        f"on {device} ({run.device}), {threads}, torch {torch_version}",
        f"{_count(expected.num_points, 'point')}{invalid} x {_count(len(run.settings.contenders), 'contender')} "
        f"({', '.join(run.settings.contenders)}) x {replicates}",
        f"about {format_duration(expected.seconds)}, peak about {format_mib(expected.peak_memory_mib)}{free}; "
        f"a workload is given up after {format_duration(expected.time_limit_s)}",
    ]
    lines += [f"invalid: {reason}" for reason in expected.invalid_reasons]
    if event.num_steps_done:
        lines.append(f"{event.num_steps_done} of {run.progress.total} measured before")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
