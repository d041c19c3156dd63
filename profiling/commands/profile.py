"""`python -m profiling profile`: parses, calls and prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profiling.commands.json_answer import JsonCommand, end_with, print_json
from profiling.commands.named_files import FileName
from profiling.commands.waiting import tell_waiting
from profiling.commands.workload_options import parse_workload_options, workload_options
from profiling.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_STOPPED, EXIT_UNTOLD

if TYPE_CHECKING:
    from profiling.operators.profiler import OperatorProfiler
    from profiling.operators.result import OperatorProfile


@click.command(cls=JsonCommand)
@click.option(
    "--contenders",
    metavar="NAME,…",
    help="Named as in a sweep; each is compared with the first.  [default: custom,official]",
)
@click.option(
    "--contender",
    "own",
    metavar="FILE.py:NAME",
    multiple=True,
    help="A layer of your own. May be repeated, and given beside --contenders; alone it is profiled beside its "
    "reference.  [default: none]",
)
@click.option("--reference", default="official", show_default=True, help="What your own layers are compared with.")
@workload_options
@click.option("--iterations", metavar="N", default="10", show_default=True, help="Calls to profile, after warming up.")
@click.option("--trace", metavar="FILE", type=FileName(path_type=Path), help="Write a trace for Chrome or Perfetto.")
@click.option("--max-trace-mib", metavar="MIB", default="64", show_default=True, help="A larger trace is not written.")
@click.option("--trace-size", is_flag=True, help="Tell in the JSON how large a trace would be, and write none.")
@click.option("--heap", default="pinned", show_default=True, help="pinned or as-is.")
@click.option(
    "--time-limit", metavar="SECONDS", default="120", show_default=True, help="A layer that takes longer hangs."
)
@click.option("--anyway", is_flag=True, help="Profile also where more memory is needed than is free.")
@click.option("--stop-on-eof", is_flag=True, help="Stop when standard input ends.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def profile(
    trace: Path | None, trace_size: bool, as_json: bool, stop_on_eof: bool, own: tuple[str, ...], **texts: Any
) -> None:
    """Tell where a call's time goes: its operators by role, two contenders side by side, and what differs.

    Each contender gets the same weights, is checked as in a sweep, and then runs under torch's profiler, in a process
    of its own that times nothing else. A trace holds 3 calls of each; its size is told before it is written. Exit
    status: 0 told; 1 a contender could not be profiled, or its roles do not add up; 2 a wrong option; 74 the trace
    cannot be written; 130 stopped.
    """
    from profiling.child_process import ChildStopped, MeasuringError
    from profiling.device_lock import DeviceBusy
    from profiling.operators.profiler import OperatorProfiler, TraceNotWritten, require_trace_place
    from profiling.operators.report_text import report_dict
    from profiling.parsing import parse_number, parse_scale, parse_seconds
    from profiling.runs import RunError
    from profiling.settings import SweepSettings, require_seconds
    from profiling.stopping import StopSwitch
    from profiling.workload import Grid, GridError

    stop = StopSwitch()
    stop.on_signals()
    if stop_on_eof:
        stop.on_end_of_input()
    answer: dict[str, Any] = {}
    try:
        names = _contenders(texts, own)
        grid = Grid(**parse_workload_options(_workload_texts(texts)))
        settings = SweepSettings(
            contenders=names, reference=texts["reference"], heap=texts["heap"], anyway=texts["anyway"]
        )
        num_calls, max_mib = (
            parse_number("iterations", texts["iterations"]),
            parse_scale("max_trace_mib", texts["max_trace_mib"]),
        )
        limit_s = parse_seconds("time_limit", texts["time_limit"])
        require_seconds("time_limit", limit_s)
        if trace is not None:
            require_trace_place(trace)
        with OperatorProfiler(grid, settings, _shown(settings, own, texts), limit_s=limit_s, stop=stop) as profiler:
            is_traced = trace_size or trace is not None
            found = profiler.profile(num_calls, with_trace=is_traced, patience_s=limit_s, on_wait=tell_waiting)
            answer = {**report_dict(found), "trace": None}
            if not as_json:
                _print_report(found)
            if trace is not None:
                answer["trace"] = _write_trace(profiler, found, trace, max_mib)
    except GridError as error:
        end_with(str(error), EXIT_BAD_INPUT, as_json=as_json)
    except TraceNotWritten as error:
        _end(answer, str(error), EXIT_UNTOLD, as_json=as_json)
    except (RunError, DeviceBusy, MeasuringError) as error:
        _end(answer, str(error), EXIT_FAILED, as_json=as_json)
    except ChildStopped:
        _end(answer, f"{stop.reason} before all was profiled", EXIT_STOPPED, as_json=as_json)
    if as_json:
        print_json(answer)
    sys.exit(EXIT_FAILED if found.lost or found.mismatches else 0)


def _contenders(texts: dict[str, Any], own: tuple[str, ...]) -> tuple[str, ...]:
    from profiling.parsing import parse_words

    if texts["contenders"] is not None:
        return (*parse_words("contenders", texts["contenders"]), *own)
    return own or ("custom", "official")


def _shown(settings: Any, own: tuple[str, ...], texts: dict[str, Any]) -> tuple[str, ...]:
    """Which contenders are profiled: those that were named, and the reference of a layer that was named alone."""
    if texts["contenders"] is None and len(own) == 1:
        return (*own, settings.reference)
    return _contenders(texts, own)


def _workload_texts(texts: dict[str, Any]) -> dict[str, Any]:
    others = ("contenders", "reference", "iterations", "max_trace_mib", "heap", "time_limit", "anyway")
    return {name: text for name, text in texts.items() if name not in others}


def _write_trace(profiler: OperatorProfiler, found: OperatorProfile, path: Path, max_mib: float) -> dict[str, Any]:
    from profiling.costs import MIB
    from profiling.units import format_mib

    if found.trace_bytes is not None:  # said before anything is written; aside, so that the object stands alone
        click.echo(f"the trace will take about {format_mib(found.trace_bytes / MIB)}", err=True)
    written = profiler.write_trace(path, max_mib=max_mib, expected_bytes=found.trace_bytes)
    click.echo(f"{path}: {format_mib(written / MIB)}; open it at https://ui.perfetto.dev", err=True)
    return {"path": str(path), "bytes": written, "expected_bytes": found.trace_bytes}


def _print_report(found: OperatorProfile) -> None:
    from profiling.operators.report_text import report_lines

    click.echo("\n".join(report_lines(found)))


def _end(answer: dict[str, Any], message: str, status: int, *, as_json: bool) -> None:
    """Ends the command; what was told so far is in the object too."""
    if as_json and answer:
        from profiling.exits import exit_with

        print_json({**answer, "error": message})
        exit_with(message, status)
    end_with(message, status, as_json=as_json)
