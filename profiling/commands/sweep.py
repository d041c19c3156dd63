"""`python -m profiling sweep`: parses, calls and prints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from profiling.exits import EXIT_BAD_INPUT, EXIT_STOPPED, exit_with, sentences_of_measuring


def _option(name: str, metavar: str, meaning: str, default: str) -> Callable[[Any], Any]:
    """An option whose text is parsed later, so that one left out can be told from one that repeats the default."""
    return click.option(f"--{name}", metavar=metavar, help=f"{meaning}  [default: {default}]")


@click.command()
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
@click.option(
    "--anyway",
    is_flag=True,
    help="Measure also what the estimate refuses: more memory than is free, or weeks of time.",
)
@click.option("--stop-on-eof", is_flag=True, help="Stop, cleanly and resumable, when standard input ends.")
def sweep(
    out: str | None, resume: bool, anyway: bool, stop_on_eof: bool, own: tuple[str, ...], **texts: str | None
) -> None:
    """Measure a grid: latency, memory and error of each contender at each point.

    Every list is separated by commas; the grid is the product of the lists.

    A layer of your own takes one tensor (batch, seq_len, d_model), or query, key and value. It gets the reference's
    weights; one that cannot take them is timed with its own, and is `not-comparable`. Compare it with official-fused
    where it calls scaled_dot_product_attention: the choice of reference alone can make a layer look 2.5 times faster.
    """
    from profiling.progress import show_progress
    from profiling.runs import new_run_id, results_dir
    from profiling.stopping import StopSwitch
    from profiling.sweep import sweep as run

    if resume and out is None:
        exit_with("--resume needs --out DIR: the folder of the run to go on with", EXIT_BAD_INPUT)
    stop = StopSwitch()
    stop.on_signals()
    if stop_on_eof:
        stop.on_end_of_input()
    with sentences_of_measuring(stop):
        options = _parse_options(texts)
        if own:
            options["contenders"] = (*options.get("contenders", ()), *own)
        if anyway:
            options["anyway"] = True
        with show_progress(sys.stdout) as on_event:
            folder = Path(out) if out else results_dir() / new_run_id()
            ended = run(options, folder, resume=resume, on_event=on_event, stop=stop)
    sys.exit(EXIT_STOPPED if ended.state == "stopped" else 0)


def _parse_options(texts: dict[str, str | None]) -> dict[str, Any]:
    """Fields of Grid and SweepSettings from the texts that were given; those left out are not in it."""
    from profiling.parsing import parse_number, parse_seconds, parse_sizes, parse_switches, parse_words

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
            options[field] = parse(field, text)
    return options
