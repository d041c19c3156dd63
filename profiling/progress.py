"""A sweep's progress for a person: a live table on a terminal, plain lines in a pipe."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from profiling.events import Ended, Event, Listener, Started, StepFinished, StepStarted, Waiting
from profiling.runs import Progress
from profiling.units import format_duration, format_error, format_mib, format_ratio, format_time

NUM_ROWS_SHOWN = 12


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

    def __call__(self, event: Event) -> None:
        """Prints what happened."""
        for line in describe(event):
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
        self._rows: deque[Sequence[str]] = deque(maxlen=NUM_ROWS_SHOWN)
        self._progress: Progress | None = None
        self._since = time.monotonic()
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
            self._rows.extend(row_cells(row) for row in event.rows)
            for line in sorted(
                {f"{row['status']}: {row['status_reason']}" for row in event.rows if row["status"] != "ok"}
            ):
                self._live.console.print(Text(line))
        else:
            self._progress = None if isinstance(event, Ended) else self._progress
            with contextlib.suppress(OSError):  # the terminal was closed
                for line in describe(event):
                    self._live.console.print(Text(line))

    def _render(self) -> RenderableType:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in ("workload", "contender", "latency", "speed-up", "memory", "max error", "check"):
            table.add_column(heading, no_wrap=True, justify="left" if heading in ("workload", "contender") else "right")
        for cells in self._rows:
            table.add_row(*map(Text, cells))  # as Text: a reason may hold brackets, which rich takes for markup
        if self._progress is None:
            return table
        return Group(table, Text(progress_line(self._progress, time.monotonic() - self._since), style="bold"))


def describe(event: Event) -> list[str]:
    """The lines that tell an event to a person."""
    if isinstance(event, Waiting):
        return [f"waiting: {event.owner.sentence}"]
    if isinstance(event, Started):
        return _describe_start(event)
    if isinstance(event, StepStarted):
        return [progress_line(event.progress)]
    if isinstance(event, StepFinished):
        return ["    " + "  ".join(cell.ljust(14) for cell in row_cells(row)[1:]).rstrip() for row in event.rows]
    lines = [f"{event.run.state}: {event.run.progress.done} of {event.run.progress.total} points measured"]
    if event.run.state_reason:
        lines[0] += f" ({event.run.state_reason})"
    if event.run.state == "stopped":
        lines.append(f"go on with: python -m profiling sweep --out {event.folder} --resume")
    return [*lines, f"table: {event.report}"]


def progress_line(progress: Progress, elapsed_s: float = 0.0) -> str:
    """Point i of n, the shape in flight, and the time left."""
    position = min(progress.done + 1, progress.total)
    line = f"point {position} of {progress.total}: {progress.label}"
    if progress.seconds_left is None:
        return line
    return f"{line} - about {format_duration(max(0.0, progress.seconds_left - elapsed_s))} left"


def row_cells(row: Mapping[str, Any]) -> Sequence[str]:
    """A row as the table shows it; a row without numbers says why."""
    workload = f"b {row['batch_size']} s {row['seq_len']} h {row['num_heads']} d {row['d_model']}"
    unusual = [row["dtype"]] if row["dtype"] != "float32" else []
    unusual += ["training"] if row["mode"] == "training" else []
    unusual += [name for name in ("bias", "causal") if row[name]]
    head = (" ".join([workload, *unusual]), row["contender"])
    if row["status"] != "ok":
        return (*head, f"{row['status']}: {row['status_reason']}", "", "", "", "")
    return (
        *head,
        _shown(row, "latency_median_ms", lambda ms: format_time(ms / 1e3)),
        _shown(row, "speedup", format_ratio),
        _shown(row, "peak_memory_mib", format_mib),
        _shown(row, "max_abs_error", format_error),
        row.get("check_verdict") or "",
    )


def _reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why rows have no numbers; what no layer can be was told before the start."""
    lost = [row for row in rows if row["status"] not in ("ok", "invalid")]
    return list(dict.fromkeys(f"{row['contender']}: {row['status']}: {row['status_reason']}" for row in lost))


def _shown(row: Mapping[str, Any], name: str, formatted: Any) -> str:
    return "" if row.get(name) is None else str(formatted(row[name]))


def _describe_start(event: Started) -> list[str]:
    run, expected = event.run, event.estimate
    device, torch_version = run.environment["device_name"], run.environment["torch_version"]
    invalid = f", {expected.num_invalid} of them invalid" if expected.num_invalid else ""
    replicates, threads = _count(run.settings.replicates, "replicate"), _count(run.threads, "thread")
    lines = [
        f"run {run.run_id} in {event.folder}",
        f"on {device} ({run.device}), {threads}, torch {torch_version}",
        f"{_count(expected.num_points, 'point')}{invalid} x {_count(len(run.settings.contenders), 'contender')} "
        f"({', '.join(run.settings.contenders)}) x {replicates}",
        f"about {format_duration(expected.seconds)}, peak about {format_mib(expected.peak_memory_mib)} "
        f"of {format_mib(expected.free_memory_mib)} free; "
        f"a workload is given up after {format_duration(expected.time_limit_s)}",
    ]
    lines += [f"invalid: {reason}" for reason in expected.invalid_reasons]
    if event.num_steps_done:
        lines.append(f"{event.num_steps_done} of {run.progress.total} measured before")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
