"""`python -m profiling check`: parses, calls and prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from profiling.commands.json_answer import JsonCommand, print_json
from profiling.commands.waiting import tell_waiting
from profiling.exits import EXIT_BAD_INPUT, exit_with

if TYPE_CHECKING:
    from profiling.workload import Workload

CHECK_EXITS = {"pass": 0, "fail": 1, "not-comparable": 3, "error": 4}
CHECK_COLORS = {"pass": "green", "fail": "red", "not-comparable": "yellow", "error": "red"}


class _Check(JsonCommand):
    """The command, whose answers have the same keys for every verdict."""

    def usage_answer(self, message: str) -> dict[str, Any]:
        """A wrong option is an error, of which no scope is known."""
        return _error(message)


@click.command(cls=_Check)
@click.argument("contender", default="custom")
@click.option("--d-model", metavar="N", default="64", show_default=True, help="Width of the layer.")
@click.option("--num-heads", metavar="N", default="4", show_default=True, help="Attention heads.")
@click.option("--batch-size", metavar="N", default="2", show_default=True, help="Sequences per call.")
@click.option("--seq-len", metavar="N", default="8", show_default=True, help="Tokens per sequence.")
@click.option("--dtype", default="float32", show_default=True, help="float32, bfloat16, float16 or float64.")
@click.option("--bias", is_flag=True, help="With biases in the projections.")
@click.option("--causal", is_flag=True, help="With a causal mask.")
@click.option("--device", default="cpu", show_default=True, help="auto, cpu, cuda:0, …")
@click.option("--threads", metavar="N", default="1", show_default=True, help="Threads torch computes with.")
@click.option("--seed", metavar="N", default="42", show_default=True, help="Seed of weights and input.")
@click.option("--batch-first/--no-batch-first", default=True, show_default=True, help="(B, S, E), or (S, B, E).")
@click.option("--input-scale", metavar="X", default="1", show_default=True, help="Deviation of the normal input.")
@click.option(
    "--time-limit", metavar="SECONDS", default="60", show_default=True, help="A layer that takes longer hangs."
)
@click.option("--anyway", is_flag=True, help="Check also where more memory is needed than is free.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(contender: str, batch_first: bool, anyway: bool, as_json: bool, **texts: Any) -> None:
    """Check a layer against torch.nn.MultiheadAttention: same weights, same input, same output?

    CONTENDER is a layer of your own as path/to/file.py:Name (a class, a factory or an instance; Outer.Inner where it
    lies deeper), or custom (explicit products) or custom-fused. Runs at the shape asked for and at fixed probe shapes,
    in a process of its own. Exit status: 0 pass, 1 fail, 3 not comparable, 4 error, 2 a wrong option or no such file;
    with --json one object is printed in each of these cases.
    """
    from profiling.check_report import error_report, reason_of
    from profiling.child_process import ChildDied, MeasuringError
    from profiling.device_lock import DeviceBusy
    from profiling.live_check import LiveChecker
    from profiling.parsing import parse_scale, parse_seconds
    from profiling.runs import RunError
    from profiling.settings import require_seconds
    from profiling.workload import GridError

    try:
        workload = _check_workload(contender, texts)
        limit_s = parse_seconds("time_limit", texts["time_limit"])
        scale = parse_scale("input_scale", texts["input_scale"])
        require_seconds("time_limit", limit_s)
        with LiveChecker(texts["device"]) as checker:
            how: dict[str, Any] = {"batch_first": batch_first, "input_scale": scale, "anyway": anyway}
            report = checker.check(
                workload, contender, **how, self_check=True, limit_s=limit_s, patience_s=limit_s, on_wait=tell_waiting
            )
    except GridError as error:
        if as_json:
            print_json(_error(str(error)))
        exit_with(str(error), EXIT_BAD_INPUT)
    except (RunError, DeviceBusy, MeasuringError) as error:
        if not as_json and not isinstance(error, ChildDied):
            exit_with(str(error), CHECK_EXITS["error"])  # nothing that the layer did
        reason = reason_of(error, limit_s)
        if isinstance(error, ChildDied) and error.running.phase == "check" and error.status == "timeout":
            reason += ": give it longer with --time-limit, or look for an endless loop"
        report = error_report(reason, f"{contender} at {workload.label}")
    _print_report(contender, report, workload.to_dict(), as_json=as_json)
    sys.exit(CHECK_EXITS[report["verdict"]])


def _check_workload(contender: str, texts: dict[str, Any]) -> Workload:
    from profiling.layers import EXAMPLE, find_layer, inner_of, is_compiled, is_layer
    from profiling.parsing import parse_number
    from profiling.quoted import quoted
    from profiling.settings import OFFICIAL, REFERENCES
    from profiling.workload import Grid, GridError

    if is_compiled(contender):
        raise GridError(
            f"contender must be a layer as it is, such as {inner_of(contender)[:80] or 'custom'}, "
            f"not {quoted(contender)}: "
            "a sweep checks what torch.compile makes of it"
        )
    if is_layer(contender):
        find_layer(contender)
    elif contender not in REFERENCES or contender in OFFICIAL:
        checkable = ", ".join(name for name in REFERENCES if name not in OFFICIAL)
        raise GridError(f"contender must be one of {checkable}, or a layer as {EXAMPLE}, not {quoted(contender)}")
    sizes = {
        name: parse_number(name, texts[name])
        for name in ("d_model", "num_heads", "batch_size", "seq_len", "seed", "threads")
    }
    grid = Grid(
        batch_size=(sizes["batch_size"],),
        seq_len=(sizes["seq_len"],),
        num_heads=(sizes["num_heads"],),
        d_model=sizes["d_model"],
        dtype=(texts["dtype"],),
        bias=(texts["bias"],),
        causal=(texts["causal"],),
        device=texts["device"],
        seed=sizes["seed"],
        threads=sizes["threads"],
    )
    workload = next(grid.workloads())
    if workload.invalid_reason:
        raise GridError(workload.invalid_reason)
    return workload


def _error(reason: str) -> dict[str, Any]:
    from profiling.check_report import error_report

    return error_report(reason, "")


def _print_report(contender: str, report: dict[str, Any], asked: dict[str, Any], *, as_json: bool) -> None:
    import shutil

    from profiling.check_text import WIDTH, report_lines

    if as_json:
        print_json(report)
        return
    width = min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
    verdict, *lines = report_lines(contender, report, width=width, asked=asked)
    click.secho(verdict, fg=CHECK_COLORS[report["verdict"]], bold=True)
    click.echo("\n".join(lines))
