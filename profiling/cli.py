"""The command line. It parses, calls and prints; imports wait for the command that needs them, so `--help` is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profiling.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_STOPPED, exit_with
from profiling.self_test.command import self_test

if TYPE_CHECKING:
    from profiling.device_lock import Owner
    from profiling.stopping import StopSwitch

CHECK_EXITS = {"pass": 0, "fail": 1, "not-comparable": 3, "error": 4}
CHECK_COLORS = {"pass": "green", "fail": "red", "not-comparable": "yellow", "error": "red"}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="mha-bench", prog_name="mha-bench")
def main() -> None:
    """Is a multi-head attention layer right, and what does it cost next to torch.nn.MultiheadAttention?"""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show × must not end a sweep
            stream.reconfigure(errors="replace")


main.add_command(self_test)


def _option(name: str, metavar: str, meaning: str, default: str) -> Callable[[Any], Any]:
    """An option whose text is parsed later, so that one left out can be told from one that repeats the default."""
    return click.option(f"--{name}", metavar=metavar, help=f"{meaning}  [default: {default}]")


@main.command()
@_option("batch-size", "N,N,…", "Batch sizes.", "1,4")
@_option("seq-len", "N,N,…", "Sequence lengths.", "128,512")
@_option("num-heads", "N,N,…", "Head counts; one that does not divide d_model gives `invalid` rows.", "4,8")
@_option("d-model", "N", "Width of the layer, the same for every head count.", "512")
@_option("head-dim", "N", "Instead of --d-model: channels per head, so the width grows with the heads.", "none")
@_option("dtype", "NAME,…", "float32, bfloat16, float16, float64.", "float32")
@_option("mode", "NAME,…", "inference, training (forward and backward).", "inference")
@_option("bias", "no,yes", "Whether the projections have biases.", "no")
@_option("causal", "no,yes", "Whether a token sees only itself and earlier ones.", "no")
@_option(
    "contenders",
    "NAME,…",
    "custom, custom-fused, official, official-fused, official-fastpath, or FILE.py:NAME; each also as compiled:NAME, "
    "run through torch.compile.",
    "the first four",
)
@click.option(
    "--contender",
    "own",
    metavar="FILE.py:NAME",
    multiple=True,
    help="A layer of your own: a class, a factory or an instance in a file. May be repeated, and given beside "
    "--contenders; alone it is measured with its reference.  [default: none]",
)
@_option(
    "reference",
    "NAME",
    "What your own layers are compared with: official, official-fused, official-fastpath.",
    "official",
)
@_option("device", "NAME", "auto (the best of CUDA, XPU, MPS, CPU), cpu, cuda:0, ….", "auto")
@_option("threads", "N", "Threads torch computes with.", "torch's own choice")
@_option("seed", "N", "Seed of weights, input and order.", "42")
@_option("replicates", "N", "Passes over the grid, each in a fresh process: 1 quick, 5 normal, 8 to publish.", "1")
@_option("time-budget", "SECONDS", "Timed rounds per contender, workload and replicate.", "0.5")
@_option("time-limit", "SECONDS", "A workload that takes longer is given up.", "from the estimate, at least 60")
@_option("quiet-wait", "SECONDS", "How long a run may wait in all for a quiet machine; 0 for never.", "60")
@_option("heap", "KIND", "pinned (freed memory stays in the process: repeatable) or as-is.", "pinned")
@_option("out", "DIR", "The run's folder.", "results/<run id>")
@click.option(
    "--resume",
    is_flag=True,
    help="Measure what is missing in --out; other options may be left out. A larger --replicates extends the run.",
)
@click.option("--stop-on-eof", is_flag=True, help="Stop, cleanly and resumable, when standard input ends.")
def sweep(out: str | None, resume: bool, stop_on_eof: bool, own: tuple[str, ...], **texts: str | None) -> None:
    """Measure a grid: latency, memory and error of each contender at each point.

    Every list is separated by commas; the grid is the product of the lists.

    A layer of your own takes one tensor (batch, seq_len, d_model), or query, key and value. It gets the reference's
    weights; one that cannot take them is timed with its own, and is `not-comparable`. Compare it with official-fused
    where it calls scaled_dot_product_attention: the choice of reference alone can make a layer look 2.5 times faster.
    """
    from profiling.child_process import ChildStopped, MeasuringError
    from profiling.device_lock import DeviceBusy
    from profiling.progress import show_progress
    from profiling.runs import RunError, new_run_id, results_dir
    from profiling.stopping import StopSwitch
    from profiling.sweep import sweep as run
    from profiling.workload import GridError

    if resume and out is None:
        exit_with("--resume needs --out DIR: the folder of the run to go on with", EXIT_BAD_INPUT)
    stop = StopSwitch()
    stop.on_signals()
    if stop_on_eof:
        _stop_on_end_of_input(stop)
    try:
        options = _parse_options(texts)
        if own:
            options["contenders"] = (*options.get("contenders", ()), *own)
        with show_progress(sys.stdout) as on_event:
            folder = Path(out) if out else results_dir() / new_run_id()
            ended = run(options, folder, resume=resume, on_event=on_event, stop=stop)
    except GridError as error:
        exit_with(str(error), EXIT_BAD_INPUT)
    except (RunError, DeviceBusy, MeasuringError) as error:
        exit_with(str(error), EXIT_FAILED)
    except ChildStopped:
        exit_with(f"{stop.reason} before anything was measured", EXIT_STOPPED)
    sys.exit(EXIT_STOPPED if ended.state == "stopped" else 0)


@main.command()
@click.argument("contender", default="custom")
@click.option("--d-model", metavar="N", default="64", show_default=True, help="Width of the layer.")
@click.option("--num-heads", metavar="N", default="4", show_default=True, help="Attention heads.")
@click.option("--batch-size", metavar="N", default="2", show_default=True, help="Sequences per call.")
@click.option("--seq-len", metavar="N", default="8", show_default=True, help="Tokens per sequence.")
@click.option("--dtype", default="float32", show_default=True, help="float32, bfloat16, float16 or float64.")
@click.option("--bias", is_flag=True, help="With biases in the projections.")
@click.option("--causal", is_flag=True, help="With a causal mask.")
@click.option("--device", default="cpu", show_default=True, help="auto, cpu, cuda:0, …")
@click.option("--seed", metavar="N", default="42", show_default=True, help="Seed of weights and input.")
@click.option("--batch-first/--no-batch-first", default=True, show_default=True, help="(B, S, E), or (S, B, E).")
@click.option("--input-scale", metavar="X", default="1", show_default=True, help="Deviation of the normal input.")
@click.option(
    "--time-limit", metavar="SECONDS", default="60", show_default=True, help="A layer that takes longer hangs."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(contender: str, batch_first: bool, as_json: bool, **texts: Any) -> None:
    """Check a layer against torch.nn.MultiheadAttention: same weights, same input, same output?

    CONTENDER is a layer of your own as path/to/file.py:Name (a class, a factory or an instance; Outer.Inner where it
    lies deeper), or custom (explicit products) or custom-fused. Runs at the shape asked for and at fixed probe shapes,
    in a process of its own. Exit status: 0 pass, 1 fail, 3 not comparable, 4 error, 2 a wrong option or no such file.
    """
    from profiling.check_report import error_report, reason_of
    from profiling.child_process import ChildDied, MeasuringError
    from profiling.device_lock import DeviceBusy
    from profiling.live_check import LiveChecker
    from profiling.runs import RunError
    from profiling.settings import require_seconds
    from profiling.workload import GridError, parse_seconds

    try:
        workload = _check_workload(contender, texts)
        limit_s, scale = parse_seconds("time_limit", texts["time_limit"]), _parse_scale(texts["input_scale"])
        require_seconds("time_limit", limit_s)
        with LiveChecker(texts["device"]) as checker:
            how: dict[str, Any] = {"batch_first": batch_first, "input_scale": scale, "self_check": True}
            report = checker.check(
                workload, contender, **how, limit_s=limit_s, patience_s=limit_s, on_wait=_tell_waiting
            )
    except GridError as error:
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


@main.command()
def devices() -> None:
    """List the devices that torch can measure on, the best first."""
    from profiling.child_process import MeasuringError
    from profiling.live_check import LiveChecker

    try:
        with LiveChecker() as checker:
            environment = checker.environment()
    except MeasuringError as error:
        exit_with(str(error), EXIT_FAILED)
    click.echo(f"torch {environment['torch_version']}, {environment['torch_threads']} threads on the CPU")
    for device in environment["devices"]:
        mark = "  <- auto" if device["name"] == environment["device"] else ""
        click.echo(f"{device['name']:8} {device['description']}{mark}")


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to.  [default: report.csv in the run's folder]")
def export(run: Path, out: Path | None) -> None:
    """Write a run's table as CSV. RUN is a run's folder, or the name of one under results/."""
    from profiling.runs import RunError, find_run_folder
    from profiling.table import write_report

    try:
        click.echo(write_report(run if run.is_dir() else find_run_folder(str(run)), out))
    except RunError as error:
        exit_with(str(error), EXIT_FAILED)


@main.command(hidden=True)
@click.option("--marker", type=click.Path(path_type=Path), required=True)
def child(marker: Path) -> None:
    """Serve measurements over standard input and output; started by the commands above."""
    from profiling.measuring.child import main as serve

    serve(marker)


def _parse_options(texts: dict[str, str | None]) -> dict[str, Any]:
    """Fields of Grid and SweepSettings from the texts that were given; those left out are not in it."""
    from profiling.workload import parse_number, parse_seconds, parse_sizes, parse_switches, parse_words

    parsers: dict[str, tuple[str, Callable[[str, str], Any]]] = {
        **{name: (name, parse_sizes) for name in ("batch_size", "seq_len", "num_heads")},
        **{name: (name, parse_words) for name in ("dtype", "mode", "contenders")},
        **{name: (name, parse_switches) for name in ("bias", "causal")},
        **{name: (name, parse_number) for name in ("d_model", "head_dim", "threads", "seed", "replicates")},
        **{name: (f"{name}_s", parse_seconds) for name in ("time_budget", "time_limit", "quiet_wait")},
        **{name: (name, lambda _, text: text) for name in ("device", "heap", "reference")},
    }
    options = {}
    for name, text in texts.items():
        if text is not None:
            field, parse = parsers[name]
            options[field] = parse(name, text)
    return options


def _check_workload(contender: str, texts: dict[str, Any]) -> Any:
    from profiling.layers import EXAMPLE, find_layer, inner_of, is_compiled, is_layer
    from profiling.settings import OFFICIAL, REFERENCES
    from profiling.workload import Grid, GridError, parse_number

    if is_compiled(contender):
        raise GridError(
            f"contender must be a layer as it is, such as {inner_of(contender) or 'custom'}, not {contender!r}: "
            "a sweep checks what torch.compile makes of it"
        )
    if is_layer(contender):
        find_layer(contender)
    elif contender not in REFERENCES or contender in OFFICIAL:
        checkable = ", ".join(name for name in REFERENCES if name not in OFFICIAL)
        raise GridError(f"contender must be one of {checkable}, or a layer as {EXAMPLE}, not {contender!r}")
    sizes = {
        name: parse_number(name, texts[name]) for name in ("d_model", "num_heads", "batch_size", "seq_len", "seed")
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
    )
    workload = next(grid.workloads())
    if workload.invalid_reason:
        raise GridError(workload.invalid_reason)
    return workload


def _parse_scale(text: str) -> float:
    import math

    from profiling.workload import GridError

    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not 0 < scale < math.inf:
        raise GridError(f"input_scale must be a number above 0, not {text!r}")
    return scale


def _tell_waiting(owner: Owner) -> None:
    click.echo(f"waiting: {owner.sentence}", err=True)


def _print_report(contender: str, report: dict[str, Any], asked: dict[str, Any], *, as_json: bool) -> None:
    import json
    import shutil

    from profiling.check_text import WIDTH, report_lines

    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
        return
    width = min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
    verdict, *lines = report_lines(contender, report, width=width, asked=asked)
    click.secho(verdict, fg=CHECK_COLORS[report["verdict"]], bold=True)
    click.echo("\n".join(lines))


def _stop_on_end_of_input(stop: StopSwitch) -> None:
    import contextlib
    import os
    import threading

    def wait() -> None:
        # os.read, not sys.stdin: a thread inside a buffered read aborts Python when it exits.
        with contextlib.suppress(OSError):  # closed from the start
            while os.read(0, 4096):
                pass
        stop.request("stopped by whoever started it")

    threading.Thread(target=wait, daemon=True).start()
