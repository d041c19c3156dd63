"""`python -m profiling fits`: parses, calls and prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from profiling.commands.json_answer import JsonCommand, end_with, print_json
from profiling.commands.waiting import tell_waiting
from profiling.commands.workload_options import parse_workload_options, workload_options
from profiling.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_STOPPED, status_of

if TYPE_CHECKING:
    from pathlib import Path

    from profiling.laws.fit_search import FitPlan, Tried
    from profiling.laws.fit_trying import ChildTrier
    from profiling.laws.largest_fit import LargestFit
    from profiling.stopping import StopSwitch


@click.command(cls=JsonCommand)
@click.argument("contender", default="custom")
@click.option("--from", "low", metavar="N", default="128", show_default=True, help="The shortest sequence of interest.")
@click.option("--to", "high", metavar="N", default="1048576", show_default=True, help="The longest.")
@click.option("--step", metavar="N", default="128", show_default=True, help="Lengths are multiples of it.")
@click.option("--within", metavar="X", default="0.05", show_default=True, help="How exactly, as a part of the length.")
@click.option(
    "--memory",
    metavar="SIZE",
    help="That the process may hold in all, torch included: 600MiB, 2GiB; a number alone is MiB.  "
    "[default: 90 % of what is free]",
)
@click.option("--run", metavar="RUN", help="A run whose memory law predicts where to start.  [default: none]")
@click.option(
    "--budget", metavar="SECONDS", default="1800", show_default=True, help="After which no further length is begun."
)
@click.option("--time-limit", metavar="SECONDS", default="300", show_default=True, help="That one length may take.")
@workload_options
@click.option("--heap", default="as-is", show_default=True, help="as-is, as in a process of your own, or pinned.")
@click.option("--anyway", is_flag=True, help="Without a limit: what does not fit may make the machine stand still.")
@click.option("--stop-on-eof", is_flag=True, help="Stop when standard input ends.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def fits(contender: str, as_json: bool, stop_on_eof: bool, **texts: Any) -> None:
    """Find the longest sequence that fits into memory: predicted, then tried in a process of its own.

    CONTENDER is named as in a sweep. It goes upwards from a safe length, or starts where a run's law says. What is
    limited is the process, not the call: torch, the layer, its input and the call together may hold 90 % of the memory
    that is free (a container's limit included) and are refused more, so that nothing else suffers. On an accelerator
    with memory of its own it is that which is limited. A compiled layer is compiled anew for each length, in a process
    that first makes its compiler ready, which takes some tens of seconds to minutes for each; the limit does not hold
    for the compiler while it works, but for what it leaves. Exit status: 0 told; 1 no length was seen to fit; 2 a wrong
    option; 130 stopped.
    """
    from profiling.child_process import ChildStopped, MeasuringError
    from profiling.device_lock import DeviceBusy
    from profiling.laws.fit_words import largest_dict, largest_words
    from profiling.runs import RunError
    from profiling.stopping import StopSwitch
    from profiling.workload import GridError

    stop = StopSwitch()
    stop.on_signals()
    if stop_on_eof:
        stop.on_end_of_input()
    try:
        found = _search(contender, texts, stop)
    except GridError as error:
        end_with(str(error), EXIT_BAD_INPUT, as_json=as_json)
    except (RunError, DeviceBusy, MeasuringError) as error:
        end_with(str(error), status_of(error), as_json=as_json)
    except ChildStopped:
        end_with(f"{stop.reason} before anything was tried", EXIT_STOPPED, as_json=as_json)
    if as_json:
        print_json(largest_dict(found))
    else:
        click.echo("\n".join(largest_words(found)))
    if stop.is_requested():
        sys.exit(EXIT_STOPPED)
    sys.exit(EXIT_FAILED if found.fits is None else 0)


def _search(contender: str, texts: dict[str, Any], stop: StopSwitch) -> LargestFit:
    from profiling.laws.fit_trying import ChildTrier
    from profiling.laws.fit_words import pace_words, tried_words
    from profiling.laws.largest_fit import find_largest
    from profiling.parsing import parse_mib, parse_seconds
    from profiling.runs import run_folder
    from profiling.settings import HEAPS, require_seconds
    from profiling.workload import Grid, GridError

    def tell(tried: Tried) -> None:
        click.echo(tried_words(tried), err=True)

    if texts["seq_len"] is not None:
        raise GridError("seq_len is what is searched: leave --seq-len out")
    if texts["heap"] not in HEAPS:
        raise GridError(f"heap must be one of {', '.join(HEAPS)}, not {texts['heap']!r}")
    seconds = {name: parse_seconds(name, texts[name]) for name in ("budget", "time_limit")}
    for name, value in seconds.items():
        require_seconds(name, value)
    plan = _plan(texts)
    grid = Grid(**parse_workload_options(texts) | {"seq_len": (plan.low,)})
    folder = None if texts["run"] is None else run_folder(texts["run"])
    limit_s, memory = seconds["time_limit"], texts["memory"]
    how: dict[str, Any] = {"heap": texts["heap"], "anyway": texts["anyway"]}
    how["memory_mib"] = None if memory is None else parse_mib("memory", memory)
    with ChildTrier(contender, grid, limit_s=limit_s, stop=stop, on_wait=tell_waiting, **how) as attempt:
        predicted, source = _predicted(contender, attempt, folder)
        if pace := pace_words(contender):
            click.echo(pace, err=True)
        return find_largest(
            contender,
            attempt.workload,
            plan,
            attempt,
            heap=texts["heap"],
            room_mib=attempt.room_mib,
            free_mib=attempt.free_mib,
            memory_mib=attempt.memory_mib,
            is_asked=memory is not None,
            predicted=predicted,
            source=source,
            starts_there=folder is not None and attempt.is_enforced,
            limit_s=limit_s,
            budget_s=seconds["budget"],
            stop=stop,
            on_tried=tell,
        )


def _plan(texts: dict[str, Any]) -> FitPlan:
    from profiling.laws.fit_search import FitPlan
    from profiling.parsing import parse_number, parse_scale

    return FitPlan(
        low=parse_number("from", texts["low"]),
        high=parse_number("to", texts["high"]),
        step=parse_number("step", texts["step"]),
        within=parse_scale("within", texts["within"]),
    )


def _predicted(contender: str, attempt: ChildTrier, folder: Path | None) -> tuple[int | None, str]:
    """What the memory law of a run predicts, and from what in words; nothing without a run."""
    from profiling.laws.fit_prediction import predicted_by_run
    from profiling.workload import GridError

    if folder is None:
        return None, ""
    if attempt.room_mib is None:
        raise GridError("run must be left out where it is not known how much memory may be taken")
    size = predicted_by_run(folder, contender, attempt.workload, attempt.room_mib)
    return size, f"by the memory law of {folder.name}"
