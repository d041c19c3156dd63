"""`python -m profiling crossover`: parses, calls and prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from profiling.commands.json_answer import JsonCommand, end_with, print_json
from profiling.commands.workload_options import parse_workload_options, workload_options
from profiling.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_STOPPED

if TYPE_CHECKING:
    from profiling.laws.crossover_search import Plan, Probe


@click.command(cls=JsonCommand)
@click.option("--contenders", metavar="NAME,NAME", required=True, help="The two to compare, named as in a sweep.")
@click.option("--axis", default="seq_len", show_default=True, help="seq_len, batch_size or num_heads.")
@click.option("--from", "low", metavar="N", default="64", show_default=True, help="The smallest size.")
@click.option("--to", "high", metavar="N", default="4096", show_default=True, help="The largest size.")
@click.option("--step", metavar="N", help="Sizes are multiples of it.  [default: 32 for seq_len, else 1]")
@click.option("--within", metavar="X", default="0.1", show_default=True, help="How exactly, as a part of the size.")
@click.option("--replicates", metavar="N", default="5", show_default=True, help="Fresh processes at each size.")
@click.option(
    "--max-replicates", metavar="N", default="10", show_default=True, help="At a size whose sign is not certain."
)
@click.option(
    "--budget", metavar="SECONDS", default="1800", show_default=True, help="After which no further size is begun."
)
@workload_options
@click.option("--reference", default="official", show_default=True, help="What your own layers are checked against.")
@click.option(
    "--time-budget", metavar="SECONDS", default="0.5", show_default=True, help="Timed rounds per contender and size."
)
@click.option(
    "--quiet-wait",
    metavar="SECONDS",
    default="60",
    show_default=True,
    help="That each step may wait for a quiet machine.",
)
@click.option("--heap", default="pinned", show_default=True, help="pinned or as-is.")
@click.option("--anyway", is_flag=True, help="Measure also what the estimate refuses.")
@click.option("--stop-on-eof", is_flag=True, help="Stop when standard input ends.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def crossover(as_json: bool, stop_on_eof: bool, **texts: Any) -> None:
    """Find from which size on one contender is faster than another, by bisection with fresh measurements.

    Each step is a run of its own in one folder under results/, beside crossover.json, which holds the answer so far:
    nothing measured is lost, and Ctrl+C tells what is known.
    Exit status: 0 told; 1 nothing certain can be told; 2 a wrong option; 130 stopped.
    """
    from profiling.child_process import ChildStopped, MeasuringError
    from profiling.device_lock import DeviceBusy
    from profiling.laws.crossover_answer import UNTOLD, crossover_dict, crossover_words, probe_words
    from profiling.laws.crossover_run import find_crossover
    from profiling.parsing import parse_seconds
    from profiling.runs import RunError
    from profiling.settings import require_seconds
    from profiling.stopping import StopSwitch
    from profiling.workload import GridError

    stop = StopSwitch()
    stop.on_signals()
    if stop_on_eof:
        stop.on_end_of_input()

    def tell(probe: Probe) -> None:
        click.echo(probe_words(probe, *pair), err=True)

    try:
        pair, options, budget_s = _pair(texts), _options(texts), parse_seconds("budget", texts["budget"])
        require_seconds("budget", budget_s)
        plan = _plan(texts, options)
        found, folder = find_crossover(*pair, texts["axis"], plan, options, budget_s=budget_s, stop=stop, on_probe=tell)
    except GridError as error:
        end_with(str(error), EXIT_BAD_INPUT, as_json=as_json)
    except (RunError, DeviceBusy, MeasuringError) as error:
        end_with(str(error), EXIT_FAILED, as_json=as_json)
    except ChildStopped:
        end_with(f"{stop.reason} before anything was measured", EXIT_STOPPED, as_json=as_json)
    if as_json:
        print_json({**crossover_dict(found), "folder": None if folder is None else str(folder)})
    else:
        measured = [f"measured in: {folder}"] if found.folders and folder is not None else []
        click.echo("\n".join([*crossover_words(found), *measured]))
    if stop.is_requested():
        sys.exit(EXIT_STOPPED)
    sys.exit(EXIT_FAILED if found.kind == UNTOLD else 0)


def _pair(texts: dict[str, Any]) -> tuple[str, str]:
    from profiling.parsing import parse_words
    from profiling.quoted import quoted
    from profiling.workload import GridError

    names = parse_words("contenders", texts["contenders"])
    if len(names) != 2:
        raise GridError(f"contenders must be two names separated by a comma, not {quoted(texts['contenders'])}")
    return names[0], names[1]


def _options(texts: dict[str, Any]) -> dict[str, Any]:
    from profiling.parsing import parse_seconds
    from profiling.workload import GridError

    axis = texts["axis"]
    if texts.get(axis) is not None:
        searched = f"{axis} is what is searched, from {texts['low']} to {texts['high']}"
        raise GridError(f"{searched}: leave --{axis.replace('_', '-')} out")
    options = parse_workload_options(texts)
    options.pop(axis, None)
    options |= {f"{name}_s": parse_seconds(name, texts[name]) for name in ("time_budget", "quiet_wait")}
    return options | {"heap": texts["heap"], "reference": texts["reference"], "anyway": texts["anyway"]}


def _plan(texts: dict[str, Any], options: dict[str, Any]) -> Plan:
    from profiling.laws.crossover_question import default_step, head_counts
    from profiling.laws.crossover_search import Plan
    from profiling.parsing import parse_number, parse_scale
    from profiling.workload import GridError, require_size

    low, high = parse_number("from", texts["low"]), parse_number("to", texts["high"])
    require_size("from", low)
    require_size("to", high)
    step = parse_number("step", texts["step"] or str(default_step(texts["axis"])))
    if texts["step"] and step > high - low > 0:
        raise GridError(f"step must be at most the {high - low:,} between from and to, not {step:,}")
    return Plan(
        low=low,
        high=high,
        step=step,
        within=parse_scale("within", texts["within"]),
        replicates=parse_number("replicates", texts["replicates"]),
        max_replicates=parse_number("max_replicates", texts["max_replicates"]),
        choices=head_counts(low, high, options) if texts["axis"] == "num_heads" else (),
    )
