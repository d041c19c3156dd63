"""`python -m profiling self-test`: parses, calls and prints."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from profiling.exits import EXIT_FAILED, EXIT_STOPPED, sentences_of_measuring


@click.command("self-test")
@click.option("--sets", metavar="N", default="10", show_default=True, help="Sets of 5 fresh processes, at most.")
@click.option(
    "--time-limit", metavar="SECONDS", default="270", show_default=True, help="No further set is begun after it."
)
@click.option(
    "--time-budget",
    metavar="SECONDS",
    default="0.08",
    show_default=True,
    help="Timed rounds per contender, workload and process.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda:0, …")
@click.option("--threads", metavar="N", help="Threads torch computes with.  [default: torch's own choice]")
@click.option("--seed", metavar="N", default="42", show_default=True, help="Seed of weights, input and order.")
@click.option("--out", metavar="DIR", help="Where the table goes.  [default: results/self-test-<time>]")
def self_test(
    sets: str, time_limit: str, time_budget: str, device: str, threads: str | None, seed: str, out: str | None
) -> None:
    """Prove on this machine how far the figures of a sweep can be trusted.

    Measures a layer against copies of itself and against copies slowed down by a known amount, through the same rounds,
    replicates and verdicts as a sweep; the spread of the reported speed-up beside torch.utils.benchmark; the cost of
    the harness; and the coverage of the intervals. Takes under 5 minutes unless told otherwise. Exit status 1 where
    something is refuted by more than chance.
    """
    from profiling.parsing import parse_number, parse_seconds
    from profiling.runs import new_run_id, results_dir
    from profiling.self_test.record import TABLE_FILE, table_lines, verdict_line
    from profiling.self_test.run import run_self_test
    from profiling.self_test.settings import SelfTestSettings
    from profiling.stopping import StopSwitch

    stop = StopSwitch()
    stop.on_signals()
    folder = Path(out) if out else results_dir() / f"self-test-{new_run_id()}"
    with sentences_of_measuring(stop):
        settings = SelfTestSettings(
            max_sets=parse_number("sets", sets),
            time_limit_s=parse_seconds("time_limit", time_limit),
            time_budget_s=parse_seconds("time_budget", time_budget),
            device=device,
            threads=None if threads is None else parse_number("threads", threads),
            seed=parse_number("seed", seed),
        )
        ended = run_self_test(settings, folder, tell=lambda text: click.echo(text, err=True), stop=stop)
    about = ended.environment
    click.echo(f"on {about['device_name']} ({about['device']}), torch {about['torch_version']}; {ended.stop_reason}")
    click.echo("\n".join(table_lines(ended.findings)))
    click.echo(verdict_line(ended.findings))
    click.echo(f"table: {folder / TABLE_FILE}")
    if stop.is_requested():
        sys.exit(EXIT_STOPPED)
    sys.exit(EXIT_FAILED if ended.is_refuted else 0)
